"""Ends a worker process: warmly after one signal, at once after two, or because it cannot continue.

    SIGTERM, Ctrl-C             finishes the pages that fit into `stop_s` and hands back the rest:
                                code 0, or 1 with pages that were not stored
    the same again, or SIGQUIT  kills the process and its children at once: code 128 + signal
    SIGHUP, the watchdog        lets batches under way end, then ends with code 75, for its
                                supervisor to start it again
    past its deadline           kills the process at once

Celery's own machinery does the warm part; this module chooses between them, sets the deadlines and
the exit code. The pages of a killed process come back when their leases expire.
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
# Before a restart batches may end by themselves for a horizon and a page's longest time.
DRAIN_S = 90.0
LAST_WORDS_S = 1.0


class Shutdown:
    """The shutdown of this process, as far as it was requested. One per process."""

    def __init__(self) -> None:
        self.code = 0
        # Batches may end by themselves until this time (monotonic).
        self.hand_back_by: float | None = None
        # Everything must be done by this time (monotonic).
        self.end_by: float | None = None
        self._restart = False
        self._signals = 0
        self._lock = threading.RLock()

    @property
    def is_requested(self) -> bool:
        return self.end_by is not None or self.hand_back_by is not None

    def end(self, code: int = 0) -> None:
        """Requests a warm shutdown: the worker finishes the pages that fit and hands back the rest.
        The first nonzero code stays."""
        with self._lock:
            self._restart = False
            self.code = self.code or code
            self.hand_back_by = None
            if self.end_by is None:
                self.end_by = time.monotonic() + settings_module.load().stop_s + LATE_S
        current_worker.stop_worker()
        state.should_stop = self.code

    def end_for_restart(self) -> None:
        """Requests a slow warm shutdown, with the exit code that asks for a restart."""
        with self._lock:
            if self.is_requested:
                return
            self._restart = True
            self.hand_back_by = time.monotonic() + DRAIN_S
        state.should_stop = 0

    def begin(self) -> None:
        """Starts the deadlines when Celery shuts down by itself, as after `celery control
        shutdown`."""
        if not self.is_requested:
            self.end()

    def enforce_deadlines(self, now: float) -> None:
        """Ends what takes longer than allowed. Called every second by the watchdog's thread."""
        if self.hand_back_by is not None and now > self.hand_back_by:
            with self._lock:
                self.hand_back_by = None
                self.end_by = now + settings_module.load().stop_s + LATE_S
            current_worker.stop_worker()
        if self.end_by is not None and now > self.end_by:
            quit_now(
                "could not end in time: a server is away, or a page does not stop", self.code or 1
            )

    def finish(self, controller: Any) -> None:
        """Closes the worker and sets the exit code. Celery calls this last, after all batches."""
        lost = current_worker.lost_pages()
        try:
            current_worker.close_worker()
        except Exception:
            log.exception("could not close everything")
        if lost:
            log.error(
                "ended with pages that were neither stored nor handed back; their leases expire",
                pages=lost,
            )
            controller.exitcode = controller.exitcode or 1
        elif self._restart:
            controller.exitcode = controller.exitcode or RESTART_CODE

    def on_signal(self, number: int, frame: FrameType | None, celerys_handler: Any) -> None:
        self._signals += 1
        if self._signals > 1 or number == signal.SIGQUIT:
            again = " again" if self._signals > 1 else ""
            reason = f"{signal.Signals(number).name}{again}: quits now"
            quit_now(reason, 128 + number, error=False)
        self.end()
        # Celery's handler logs the signal and sets a flag of its own.
        celerys_handler(number, frame)


shutdown = Shutdown()


def take_over_signals() -> None:
    """Installs our handlers around Celery's. Called once Celery has installed them."""
    if threading.current_thread() is not threading.main_thread():
        return
    celerys = signal.getsignal(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda number, frame: shutdown.on_signal(number, frame, celerys))
    # On a terminal Celery leaves SIGHUP alone.
    if callable(signal.getsignal(signal.SIGHUP)):
        signal.signal(signal.SIGHUP, lambda _number, _frame: shutdown.end_for_restart())


def quit_now(reason: str, code: int, *, error: bool = True) -> None:
    """Logs the reason, kills this process's children, and exits without any clean-up. Callable from
    a signal handler."""

    def log_reason() -> None:
        (log.error if error else log.warning)(reason, exit_code=code)
        logs.flush()

    # Logging runs in a thread, since the holder of its locks may be stuck.
    thread = threading.Thread(target=log_reason, name="last words", daemon=True)
    thread.start()
    thread.join(LAST_WORDS_S)
    # These children are beat and the processes of a prefork pool.
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.Error:
            continue
    os._exit(code)
