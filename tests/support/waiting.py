"""Waits for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# The slowest machine takes less.
GENEROUS_S = 180.0


def until(
    true: Callable[[], T], what: str = "", *, timeout_s: float = GENEROUS_S, every_s: float = 0.05
) -> T:
    """Waits for a true answer and returns it. `what` the test waits for, in words."""
    deadline = time.monotonic() + timeout_s
    while not (answer := true()):
        assert time.monotonic() < deadline, f"not so within {timeout_s:g} s: {what or true}"
        time.sleep(every_s)
    return answer
