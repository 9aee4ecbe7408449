"""A command of `scraper` in a process of its own, within bounds of time and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, NamedTuple

OUTPUT_MAX_BYTES = 1_000_000
CHECK_S = 0.2
# How long an interrupted command may take to close its browser.
ENDING_S = 5.0
LINE_CHARS = 1000


class Ended(NamedTuple):
    """What a command printed. `stopped`: why it was ended early; empty if it ended by itself."""

    code: int
    output: str
    errors: list[str]
    stopped: str


class Child:
    """Runs `scraper WORDS` with this interpreter. `watch` gets each line of its errors, early."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        watch: Callable[[str], None],
        *,
        output_max_bytes: int = OUTPUT_MAX_BYTES,
    ) -> None:
        self._most = output_max_bytes
        self._watch, self._seen, self._lines = watch, 0, list[str]()
        self._files = ExitStack()
        self._output = self._files.enter_context(TemporaryFile())  # noqa: SIM115
        self._errors = self._files.enter_context(TemporaryFile())  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "scraper", *words],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            env={**os.environ, **environment},
            start_new_session=True,
        )

    def finish(self, deadline_s: float, is_cancelled: Callable[[], bool]) -> Ended:
        """Waits for the end, and brings it about at the deadline, or once `is_cancelled`."""
        began, stopped = monotonic(), ""
        try:
            while not stopped and not self._has_ended(CHECK_S):
                self._read_lines()
                if self._is_too_long():
                    stopped = "it printed too much"
                elif is_cancelled():
                    stopped = "cancelled"
                elif monotonic() - began > deadline_s:
                    stopped = f"it took longer than {deadline_s:.0f} s"
        finally:
            self.end()
        self._read_lines()
        self._output.seek(0)
        text = self._output.read(self._most).decode("utf-8", "replace")
        self._files.close()
        return Ended(self._process.returncode, text, self._lines, stopped)

    def end(self) -> None:
        """Ends the command and what it has started. SIGINT lets it close its browser first."""
        if not self._has_ended(0):
            self._signal_group(signal.SIGINT)
            self._has_ended(ENDING_S)
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def _has_ended(self, within_s: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
            return True
        return False

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _is_too_long(self) -> bool:
        files: tuple[IO[bytes], ...] = (self._output, self._errors)
        return any(os.fstat(file.fileno()).st_size > self._most for file in files)

    def _read_lines(self) -> None:
        """Reads the whole lines that were written since the last call. The command shares the
        file's position, which stays where it is."""
        raw = os.pread(self._errors.fileno(), OUTPUT_MAX_BYTES, self._seen)
        whole = raw[: raw.rfind(b"\n") + 1]
        self._seen += len(whole)
        for text in whole.decode("utf-8", "replace").splitlines():
            for line in _read_error(text).splitlines():
                self._lines.append(line[:LINE_CHARS])
                self._watch(self._lines[-1])


def _read_error(line: str) -> str:
    """Returns the message of an error that was printed as JSON; any other line as it is."""
    if not line.startswith('{"error": '):
        return line
    try:
        return str(json.loads(line)["error"])
    except ValueError:
        return line


class Children:
    """The commands of one owner that run now. `closed`: none starts any longer."""

    def __init__(self) -> None:
        self.closed = False
        self._lock = threading.Lock()
        self._running: set[Child] = set()

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        watch: Callable[[str], None],
        deadline_s: float,
        is_cancelled: Callable[[], bool],
    ) -> Ended:
        """Runs a command to its end. Raises `OSError` if it cannot start, and after `close`."""
        # `close` waits for a command that is starting, so that it ends this one, too.
        with self._lock:
            if self.closed:
                raise OSError("Flower is ending")
            child = Child(words, environment, watch)
            self._running.add(child)
        try:
            return child.finish(deadline_s, is_cancelled)
        finally:
            with self._lock:
                self._running.discard(child)

    def close(self) -> None:
        """Ends all commands, when the process ends."""
        with self._lock:
            self.closed = True
            running = list(self._running)
        for child in running:
            child.end()
