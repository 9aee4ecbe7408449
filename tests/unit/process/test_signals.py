"""An event that is set while the same thread waits for it, as by a signal's handler."""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

from scraper.process import signals
from scraper.process.signals import SignalEvent

LINES_MAX = 50


@pytest.mark.timeout(60)
def test_an_event_may_be_set_wherever_a_signal_interrupts_the_wait() -> None:
    interrupted = [_set_at_line(line) for line in range(LINES_MAX)]
    # At least before it looks, before it waits, and after that.
    assert sum(interrupted) >= 3 and not interrupted[-1]


def _set_at_line(number: int) -> bool:
    """Waits for an event that is set before the given line of the wait. Returns whether there is
    such a line."""
    event, lines = SignalEvent(), 0

    def trace(frame: FrameType, what: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != signals.__file__:
            return None
        if what == "line":
            lines += 1
            if lines == number + 1:
                sys.settrace(None)
                event.set()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        was_set = event.wait(0.01)
    finally:
        sys.settrace(before)
    assert was_set is (lines > number) is event.is_set()
    return was_set


def test_an_event_wakes_all_that_wait() -> None:
    event = SignalEvent()
    woken: list[bool] = []
    waiting = [threading.Thread(target=lambda: woken.append(event.wait(60))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert not event.wait(-1) and not event.is_set()
    event.set()
    for thread in waiting:
        thread.join(60)
    assert woken == [True] * 3 and event.wait(0) and event.is_set()


def test_an_event_waits_until_the_time_is_over() -> None:
    begun = time.monotonic()
    assert not SignalEvent().wait(0.05)
    assert time.monotonic() - begun >= 0.05
