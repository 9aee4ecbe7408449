"""Whether work grows as its input does, on any machine: its CPU time divided by that for a tenth of the
input, measured in the same test. Linear work takes ten times as long, quadratic work a hundred."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

from scraper.extract.bounds import ReadLimits

T = TypeVar("T")

# For documents: no page is too slow, the test judges how long it takes.
UNHURRIED = ReadLimits(float("inf"), isolated=True)

TIMES = 10
# Halfway from ten to a hundred, where both are powers.
RATIO_MAX = 30.0
# A machine that others use adds to a measurement, and never takes from it: the least one counts.
SMALL_ROUNDS = 3
LARGE_ROUNDS = 5


def cpu_s(work: Callable[[], object]) -> float:
    """Returns the CPU time that the work takes, without the garbage of earlier tests."""
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        gc.enable()


def assert_linear(make: Callable[[int], T], work: Callable[[T], object], size: int) -> None:
    """Asserts that `work` takes about ten times as long for `make(size)` as for `make(size // 10)`.
    What `make` takes does not count."""

    def measure(count: int) -> float:
        made = make(count)
        return cpu_s(lambda: work(made))

    # The first call fills caches.
    measure(size // TIMES)
    small_s = min(measure(size // TIMES) for _ in range(SMALL_ROUNDS))
    ratio = float("inf")
    for _ in range(LARGE_ROUNDS):
        ratio = min(ratio, measure(size) / small_s)
        if ratio <= RATIO_MAX:
            return
    raise AssertionError(f"{TIMES} times the input takes {ratio:.0f} times as long")
