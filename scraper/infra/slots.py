"""How much of a worker a batch takes up; and who works beside whom: batches together, or one that
must have nothing beside it.

A page that several workers died with is tried once more by a worker that does nothing else, so that
its death would prove something. Whoever wants to be alone goes first: no new batch begins while it
waits for those under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# of a page that waits for its host's turn, and so costs no more than memory
PACED_COST = 1 / 16
# of a batch: its thread
LEAST_COST = 1 / 32


class Place:
    """What one batch takes up: a whole place where all its pages keep the worker busy, less once
    some are done or wait for their host's turn; so a batch does not keep others out for as long as
    its slowest host takes. `coming` until its first pages wait for their turn: less urgent batches
    do not begin meanwhile, or they would be served first."""

    __slots__ = ("_freed", "browser", "coming", "cost", "level")

    def __init__(self, level: int, freed: Callable[[], None], *, browser: bool = False) -> None:
        self.browser, self.level = browser, level
        self.cost, self.coming, self._freed = 1.0, True, freed

    def came(self) -> None:
        self.coming = False
        self._freed()

    def weigh(self, busy: int, paced: int, full: int) -> None:
        """`busy` and `paced` pages are left; `full` would be a whole batch. From any thread."""
        before, self.cost = self.cost, min(1.0, max(LEAST_COST, (busy + PACED_COST * paced) / full))
        if self.cost < before:
            self._freed()


_here = threading.local()


@contextmanager
def taken(place: Place) -> Iterator[None]:
    """What this thread does meanwhile is done in that place."""
    _here.place = place
    try:
        yield
    finally:
        del _here.place


def here() -> Place | None:
    """The place that this thread works in; None where nobody counts them."""
    return getattr(_here, "place", None)


class Places:
    """For threads. Each batch takes a place for as long as it lasts."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._together = 0
        # waiting to be, or being
        self._alone = 0

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._together += 1
        try:
            yield
        finally:
            self._left("_together")

    @contextmanager
    def alone(self, timeout_s: float) -> Iterator[bool]:
        """False where the others did not end in time."""
        latest = time.monotonic() + timeout_s
        with self._changed:
            free = self._changed.wait_for(lambda: not self._alone, timeout_s)
            if free:
                self._alone += 1
                free = self._changed.wait_for(
                    lambda: not self._together, max(0.0, latest - time.monotonic())
                )
                if not free:
                    self._alone -= 1
                    self._changed.notify_all()
        try:
            yield free
        finally:
            if free:
                self._left("_alone")

    def _left(self, which: str) -> None:
        with self._changed:
            setattr(self, which, getattr(self, which) - 1)
            self._changed.notify_all()
