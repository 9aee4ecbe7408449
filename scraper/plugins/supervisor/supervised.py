"""A process that is started again when it ends, and whose output is followed.

Its output goes to a file, not to a pipe: a killed supervisor must not break the output of a worker
that still stores its pages.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from scraper.plugins.supervisor.policy import plan_next_start

OUTPUT_MAX_BYTES = 10_000_000
READ_BYTES = 1_000_000
# A process is ready once it has run for this long: at some log levels it writes no line about it.
READY_S = 120.0


class SupervisedProcess:
    """`command` under the name `name`. If an `essential` process is given up, nothing works without
    it. `held_end` is a file descriptor that the process inherits."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str],
        output: Path,
        held_end: int,
        *,
        essential: bool,
    ) -> None:
        self.name, self.essential = name, essential
        self.is_ready = self.is_given_up = False
        self._command, self._env, self._output = command, env, output
        self._held_end = held_end
        self._process: subprocess.Popen[bytes] | None = None
        self._quick_deaths = 0
        self._started_at = self._start_at = 0.0
        self._read_to = 0
        self._rest = b""
        # What an ended process has written last, for `read_lines`.
        self._last_lines: list[str] = []
        self.last_line = ""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self, now: float) -> None:
        """Starts the process where the terminal's Ctrl-C does not reach it."""
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with self._output.open("ab") as output:
            if self._process is None:
                self._read_to = output.tell()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._env,
                start_new_session=True,
                pass_fds=(self._held_end,),
            )
        self._started_at = now
        self.is_ready = False

    def keep_running(self, now: float) -> str | None:
        """Starts a process that has ended, once its time has come. Returns a sentence about what
        happened since the last call."""
        if self.is_given_up or self._process is None:
            return None
        if self._start_at:
            if now < self._start_at:
                return None
            self._start_at = 0.0
            self.start(now)
            return f"{self.name} started again, as process {self.pid}"
        code = self._process.poll()
        if code is not None:
            return self._plan_start(code, now)
        self.is_ready |= now - self._started_at >= READY_S
        return None

    def _plan_start(self, code: int, now: float) -> str:
        # A killed worker leaves its beat and its children for slow pages, which are to end as well.
        self._signal_group(signal.SIGKILL)
        self._read_last_lines()
        # One that was never ready has died quickly, however long a busy machine took.
        life_s = now - self._started_at if self.is_ready else 0.0
        self.is_ready = False
        self._quick_deaths, wait_s = plan_next_start(code, life_s, self._quick_deaths)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if wait_s is None:
            self.is_given_up = True
            return (
                f"{self.name} ended {self._quick_deaths} times soon after its start, last with "
                f"{how}: gives it up (fix what its last line says, then start again)\n"
                f"{self.last_line}"
            )
        self._start_at = now + wait_s
        return f"{self.name} ended with {how}; starts it again in {wait_s:g} s"

    def read_lines(self) -> Iterator[str]:
        """Yields the lines that the process has written since the last call."""
        lines, self._last_lines = self._last_lines, []
        yield from lines
        yield from self._read_output()

    def _read_last_lines(self) -> None:
        """Reads what the ended process has written, also an unfinished line: `last_line` is its
        last one from now on."""
        # Something that has left the process's group may write without end.
        for _ in range(OUTPUT_MAX_BYTES // READ_BYTES):
            lines = list(self._read_output())
            self._last_lines += lines
            if not lines:
                break
        if self._rest:
            self._last_lines += self._take_lines([self._rest])
            self._rest = b""

    def _read_output(self) -> Iterator[str]:
        try:
            with self._output.open("rb") as output:
                output.seek(self._read_to)
                data = output.read(READ_BYTES)
        except FileNotFoundError:
            return
        self._read_to += len(data)
        if self._read_to > OUTPUT_MAX_BYTES and len(data) < READ_BYTES:
            # The joint log has it all. The process appends, and goes on at the new end.
            os.truncate(self._output, 0)
            self._read_to = 0
        *lines, self._rest = (self._rest + data).split(b"\n")
        yield from self._take_lines(lines)

    def _take_lines(self, lines: Iterable[bytes]) -> Iterator[str]:
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self.last_line = text
                yield text

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def end(self) -> None:
        """Asks the process to end. It is not started again."""
        self.is_given_up = True
        if self.is_running():
            assert self._process is not None
            self._process.terminate()

    def kill(self) -> None:
        """Kills the process and its children."""
        self.is_given_up = True
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
