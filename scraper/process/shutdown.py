"""How a worker process ends: warmly when asked once, now when asked twice, anew in the same pid, or
because it cannot go on.

    SIGTERM, Ctrl-C             what fits into `stop_s` is finished, the rest handed back: code 0, or 1 with pages not stored
    the same again, or SIGQUIT  the process and its children are gone at once: code 128 + signal
    SIGHUP, the watchdog        batches under way end by themselves, then it starts anew: same pid, same command line
    later than it was given     it is gone at once

Celery's own machinery does the warm part; this decides which, bounds it, and gives the exit code.
Leases bring back what a process that was gone at once had in its hands.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

import psutil
import structlog
from celery.worker import state

from scraper import settings as settings_module
from scraper.infra import logs
from scraper.process import worker_of_process

log = structlog.get_logger()

# for storing, handing back and disconnecting, once `stop_s` is over
LATE_S = 15.0
# for batches that end by themselves before a process starts anew: a horizon and a page's longest
# time
DRAIN_S = 90.0
CHILD_S = 3.0
# in the environment of a process that was one of ours before
STARTED_ANEW = "SCRAPER_STARTED_ANEW"
SAY_S = 1.0


class Ending:
    """What was asked of this process, so far. One a process."""

    def __init__(self) -> None:
        self.worker: Any = None  # Celery's WorkController
        self.code = 0
        self.anew = False
        # monotonic: until then batches may end by themselves
        self.hand_back_by: float | None = None
        # monotonic: until then all must be done
        self.end_by: float | None = None
        self._signals = 0
        self._lock = threading.RLock()

    @property
    def asked(self) -> bool:
        return self.end_by is not None or self.hand_back_by is not None

    def end(self, code: int = 0) -> None:
        """Warm shutdown: what fits is finished, the rest is handed back. The first code that is not
        0 stays."""
        with self._lock:
            self.anew = False
            self.code = self.code or code
            self.hand_back_by = None
            if self.end_by is None:
                self.end_by = time.monotonic() + settings_module.load().stop_s + LATE_S
        worker_of_process.stop()
        state.should_stop = self.code

    def start_anew(self) -> None:
        """Warm shutdown without hurry, then the same command line again in this pid."""
        with self._lock:
            if self.asked:
                return
            self.anew = True
            self.hand_back_by = time.monotonic() + DRAIN_S
        state.should_stop = 0

    def closing(self) -> None:
        """Celery shuts down, whoever told it to (`celery control shutdown` does not come by here
        before)."""
        if not self.asked:
            self.end()

    def pressed_for_time(self, now: float) -> None:
        """From the watchdog's thread, every second: nothing may take longer than it was given."""
        if self.hand_back_by is not None and now > self.hand_back_by:
            with self._lock:
                self.hand_back_by = None
                self.end_by = now + settings_module.load().stop_s + LATE_S
            worker_of_process.stop()
        if self.end_by is not None and now > self.end_by:
            quit_now(
                "could not end in time: a server is away, or a page does not let go", self.code or 1
            )

    def closed(self, controller: Any) -> None:
        """The last thing Celery calls: no batch runs any more. Does not return where the process
        starts anew."""
        lost = worker_of_process.lost_pages()
        try:
            worker_of_process.close()
        except Exception:
            log.exception("not everything could be closed")
        if lost:
            log.error(
                "ends with pages that could neither be stored nor handed back; their leases run out",
                pages=lost,
            )
            controller.exitcode = controller.exitcode or 1
        if self.anew:
            self._exec(controller)

    def on_signal(self, number: int, frame: FrameType | None, warmly: Any) -> None:
        self._signals += 1
        if self._signals > 1 or number == signal.SIGQUIT:
            name = signal.Signals(number).name
            quit_now(
                f"{name}{' again' if self._signals > 1 else ''}: quits now",
                128 + number,
                error=False,
            )
        self.end()
        # Celery's handler says so, and sets its flag
        warmly(number, frame)

    def _exec(self, controller: Any) -> None:
        beat: Any = getattr(controller, "beat", None)
        if hasattr(beat, "join"):
            beat.join(CHILD_S)
        _end_children()
        command = [sys.executable, *sys.orig_argv[1:]]
        logs.flush()
        try:
            os.execve(sys.executable, command, {**os.environ, STARTED_ANEW: "1"})
        except OSError as error:
            log.error("cannot start anew", error=str(error), command=command)
            controller.exitcode = 1


ending = Ending()


def attach(controller: Any) -> None:
    """Takes the signals over from Celery, once its handlers are there."""
    ending.worker = controller
    if threading.current_thread() is not threading.main_thread():
        return
    warmly = signal.getsignal(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda number, frame: ending.on_signal(number, frame, warmly))
    # Celery leaves it alone on a terminal
    if callable(signal.getsignal(signal.SIGHUP)):
        signal.signal(signal.SIGHUP, lambda _number, _frame: ending.start_anew())


def quit_now(why: str, code: int, *, error: bool = True) -> None:
    """Says why, kills what this process has started, and is gone, without any clean-up. Callable
    from a signal handler."""

    def say() -> None:
        (log.error if error else log.warning)(why, exit_code=code)
        logs.flush()

    thread = threading.Thread(
        target=say, name="last words", daemon=True
    )  # whoever holds the logging locks may be stuck
    thread.start()
    thread.join(SAY_S)
    _end_children(wait=False)
    os._exit(code)


def _end_children(*, wait: bool = True) -> None:
    """Beat, and the processes of a prefork pool: this process's own children, nobody else's."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        try:
            child.kill()
        except psutil.Error:
            continue
    if wait:
        psutil.wait_procs(children, timeout=CHILD_S)
