"""How a worker process ends: warmly when asked once, now when asked twice, or because it cannot go
on.

    SIGTERM, Ctrl-C             what fits into `stop_s` is finished, the rest handed back:
                                code 0, or 1 with pages that were not stored
    the same again, or SIGQUIT  the process and its children are gone at once: code 128 + signal
    SIGHUP, the watchdog        batches under way end by themselves, then it ends with code 75,
                                for its supervisor to start it again
    later than it was given     it is gone at once

Celery's own machinery does the warm part; this module decides which, bounds it, and gives the exit
code. Leases bring back what a process that was gone at once had in its hands.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

import psutil
import structlog
from celery.worker import state

from scraper import settings as settings_module
from scraper.errors import RESTART_CODE
from scraper.infra import logs
from scraper.process import current_worker

log = structlog.get_logger()

# After `stop_s`, for storing, handing back and disconnecting.
LATE_S = 15.0
# Batches may end by themselves for so long before a restart: a horizon and a page's longest time.
DRAIN_S = 90.0
LAST_WORDS_S = 1.0


class Shutdown:
    """What was asked of this process, so far. One a process."""

    def __init__(self) -> None:
        self.code = 0
        # Until then (monotonic) batches may end by themselves.
        self.hand_back_by: float | None = None
        # Until then (monotonic) all must be done.
        self.end_by: float | None = None
        self._restart = False
        self._signals = 0
        self._lock = threading.RLock()

    @property
    def asked(self) -> bool:
        return self.end_by is not None or self.hand_back_by is not None

    def end(self, code: int = 0) -> None:
        """Warm shutdown: what fits is finished, the rest is handed back. The first code that is not
        0 stays."""
        with self._lock:
            self._restart = False
            self.code = self.code or code
            self.hand_back_by = None
            if self.end_by is None:
                self.end_by = time.monotonic() + settings_module.load().stop_s + LATE_S
        current_worker.stop()
        state.should_stop = self.code

    def end_for_restart(self) -> None:
        """Warm shutdown without hurry, with the code that asks to be started again."""
        with self._lock:
            if self.asked:
                return
            self._restart = True
            self.hand_back_by = time.monotonic() + DRAIN_S
        state.should_stop = 0

    def begin(self) -> None:
        """Celery shuts down, whoever told it to: `celery control shutdown` was not heard here."""
        if not self.asked:
            self.end()

    def enforce_deadlines(self, now: float) -> None:
        """From the watchdog's thread, every second: nothing may take longer than it was given."""
        if self.hand_back_by is not None and now > self.hand_back_by:
            with self._lock:
                self.hand_back_by = None
                self.end_by = now + settings_module.load().stop_s + LATE_S
            current_worker.stop()
        if self.end_by is not None and now > self.end_by:
            quit_now(
                "could not end in time: a server is away, or a page does not let go", self.code or 1
            )

    def finish(self, controller: Any) -> None:
        """The last thing Celery calls: no batch runs any more."""
        lost = current_worker.lost_pages()
        try:
            current_worker.close()
        except Exception:
            log.exception("not everything could be closed")
        if lost:
            log.error(
                "ends with pages that could neither be stored nor handed back; "
                "their leases run out",
                pages=lost,
            )
            controller.exitcode = controller.exitcode or 1
        elif self._restart:
            controller.exitcode = controller.exitcode or RESTART_CODE

    def on_signal(self, number: int, frame: FrameType | None, celerys_handler: Any) -> None:
        self._signals += 1
        if self._signals > 1 or number == signal.SIGQUIT:
            again = " again" if self._signals > 1 else ""
            why = f"{signal.Signals(number).name}{again}: quits now"
            quit_now(why, 128 + number, error=False)
        self.end()
        # It says so, and sets Celery's own flag.
        celerys_handler(number, frame)


shutdown = Shutdown()


def take_over_signals() -> None:
    """Once Celery has installed its own handlers."""
    if threading.current_thread() is not threading.main_thread():
        return
    celerys = signal.getsignal(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda number, frame: shutdown.on_signal(number, frame, celerys))
    # On a terminal Celery leaves SIGHUP alone.
    if callable(signal.getsignal(signal.SIGHUP)):
        signal.signal(signal.SIGHUP, lambda _number, _frame: shutdown.end_for_restart())


def quit_now(why: str, code: int, *, error: bool = True) -> None:
    """Says why, kills what this process has started, and is gone, without any clean-up. Callable
    from a signal handler."""

    def say() -> None:
        (log.error if error else log.warning)(why, exit_code=code)
        logs.flush()

    # In a thread, since whoever holds the logging locks may be stuck.
    thread = threading.Thread(target=say, name="last words", daemon=True)
    thread.start()
    thread.join(LAST_WORDS_S)
    # Beat, and the processes of a prefork pool: this process's own children, nobody else's.
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.Error:
            continue
    os._exit(code)
