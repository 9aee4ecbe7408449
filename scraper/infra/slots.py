"""How much of a worker a batch takes up: a whole slot, or a part of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A page that waits for its host's turn costs no more than memory.
PACED_COST = 1 / 16
# A batch costs its thread, whatever it does.
LEAST_COST = 1 / 32


class SlotCost:
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
def taken(place: SlotCost) -> Iterator[None]:
    """What this thread does meanwhile is done in that place."""
    _here.place = place
    try:
        yield
    finally:
        del _here.place


def here() -> SlotCost | None:
    """The place that this thread works in; None where nobody counts them."""
    return getattr(_here, "place", None)
