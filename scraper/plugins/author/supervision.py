"""Runs a command in a process apart, so that no page can hold it up.

A parser in the middle of a page answers no signal, and takes minutes for a page of 80,000
attributes. So a command that reads pages runs in a child, and the process that was started waits:
it passes signals on, and kills a child that does not heed them, that reads one page for too long,
or that grows too large: a page of 8 MB may take 600 MB, and a repair reads twenty. Within a
program, such as a test, a command runs as it is.
"""

from __future__ import annotations

import functools
import mmap
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Set
from contextlib import suppress
from typing import IO, ParamSpec

import psutil

from scraper.errors import ScraperError

P = ParamSpec("P")

# CPU time from one page to the next. `new` weighs up to 60 pages at once, in a tenth of this.
PAGE_CPU_S = 60.0
MEMORY_MAX_BYTES = min(4_000_000_000, psutil.virtual_memory().total // 2)
# CPU time after a signal; what a command does to end is less.
END_CPU_S = 0.5
POLL_S = 0.1
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
URL_BYTES = 2000
# The child writes here which page it reads: a count, and the URL.
_shared: mmap.mmap | None = None


def record_page(url: str) -> None:
    """Says that the child begins to read a page, which has `PAGE_CPU_S` from now."""
    if _shared is not None:
        count = (int.from_bytes(_shared[:8], "big") + 1).to_bytes(8, "big")
        _shared[:] = count + url.encode(errors="replace")[:URL_BYTES].ljust(URL_BYTES, b"\0")


def run_apart(command: Callable[P, None]) -> Callable[P, None]:
    """Decorates a command's function."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        # Output that a program collects would stay in the child.
        parent = _fork_child() if sys.stdout is sys.__stdout__ else None
        if parent is None:
            command(*args, **options)
        else:
            sys.exit(parent.wait())

    return run


def call_apart(make: Callable[[], str]) -> str:
    """Returns the text that `make` returns in a child. Raises `ScraperError` if the child fails or
    holds up, and SystemExit if a signal ended it."""
    if sys.stdout is not sys.__stdout__:
        return make()
    with tempfile.TemporaryFile() as file:
        parent = _fork_child()
        if parent is None:
            os._exit(_write_result(make, file))
        code = parent.wait()
        if parent.signalled:
            # It may have come too late for the child, and ends the other calls too.
            sys.exit(128 + parent.signalled)
        if code:
            raise ScraperError(f"{parent.page_url}: the process that read it ended with {code}")
        file.seek(0)
        return file.read().decode()


def _write_result(make: Callable[[], str], file: IO[bytes]) -> int:
    """Returns the exit code of the child, which leaves without the clean-up of its parent."""
    try:
        file.write(make().encode())
        file.flush()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except Exception:  # noqa: BLE001 - it must not run on as the parent
        traceback.print_exc()
        return 1
    return 0


def _fork_child() -> _Parent | None:
    """Returns None in the child, and in the parent what waits for the child."""
    global _shared
    shared = mmap.mmap(-1, 8 + URL_BYTES)
    ended, end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # What a signal's handler raises while Python forks is ignored. The parent heeds signals again
    # once it waits.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(ended)
        _shared = shared
        return None
    os.close(end)
    return _Parent(child, shared, ended, mask)


class _Parent:
    def __init__(self, child: int, shared: mmap.mmap, ended: int, mask: Set[int]) -> None:
        self._child, self._shared, self._ended, self._mask = child, shared, ended, mask
        self._process = psutil.Process(child)
        self.signalled: int | None = None
        self._count, self._began_s, self._signalled_s = b"", 0.0, 0.0

    def wait(self) -> int:
        """Returns the exit code of the child."""
        handlers = {number: signal.signal(number, self._pass_on) for number in SIGNALS}
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        try:
            while not select.select([self._ended], [], [], POLL_S)[0]:
                self._check_time()
                self._check_memory()
        finally:
            os.close(self._ended)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        _, status = os.waitpid(self._child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return code
        if self.signalled is None:
            raise ScraperError(f"{self.page_url}: the process that read it ended by signal {-code}")
        return 128 + self.signalled

    @property
    def page_url(self) -> str:
        """The page that the child reads, or read last."""
        return self._shared[8:].rstrip(b"\0").decode(errors="replace") or "the page"

    def _pass_on(self, number: int, _: object) -> None:
        self.signalled, self._signalled_s = number, self._read_cpu_s()
        # A terminal sends its signals to both.
        if number != signal.SIGINT or not _is_foreground():
            with suppress(ProcessLookupError):
                os.kill(self._child, number)

    def _check_time(self) -> None:
        cpu_s, count = self._read_cpu_s(), self._shared[:8]
        if count != self._count:
            self._count, self._began_s = count, cpu_s
            if self.signalled == signal.SIGINT:
                # A prompt has answered, and goes on.
                self.signalled = None
        if self.signalled is not None and cpu_s - self._signalled_s > END_CPU_S:
            self._kill_child()
        elif cpu_s - self._began_s > PAGE_CPU_S:
            self._kill_child()
            os.waitpid(self._child, 0)
            raise ScraperError(
                f"{self.page_url}: reading the page took longer than {PAGE_CPU_S:g} s "
                "(fix: give another page)"
            )

    def _check_memory(self) -> None:
        with suppress(psutil.Error):
            if self._process.memory_info().rss <= MEMORY_MAX_BYTES:
                return
            self._kill_child()
            os.waitpid(self._child, 0)
            raise ScraperError(
                f"{self.page_url}: reading the pages took more than "
                f"{MEMORY_MAX_BYTES / 1e6:,.0f} MB of memory (fix: give other pages)"
            )

    def _read_cpu_s(self) -> float:
        try:
            times = self._process.cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def _kill_child(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)


def _is_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
