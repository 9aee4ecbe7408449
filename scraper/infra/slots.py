"""Room in a worker: how much of it a batch takes up, and which batches may run beside each other.

A page that several workers died with is tried once more by a worker that does nothing else, so that
its death proves something. A batch that must run alone goes first: no other begins while it waits
for those under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A page that waits for its host's turn costs no more than memory.
PACED_COST = 1 / 16
# A batch costs its thread, whatever it does.
LEAST_COST = 1 / 32


class SlotCost:
    """What one batch takes up: a whole slot while all its pages keep the worker busy, less once
    some are done or wait for their host's turn. So a batch does not keep others out for as long as
    its slowest host takes.

    `starting` until its first pages wait for their turn: less urgent batches do not begin
    meanwhile, or they would be served first. `freed` is called when it takes up less.
    """

    __slots__ = ("_freed", "browser", "cost", "level", "starting")

    def __init__(self, level: int, freed: Callable[[], None], *, browser: bool = False) -> None:
        self.browser, self.level = browser, level
        self.cost, self.starting, self._freed = 1.0, True, freed

    def started(self) -> None:
        self.starting = False
        self._freed()

    def weigh(self, busy: int, paced: int, full: int) -> None:
        """`busy` and `paced` pages are left; `full` would be a whole batch. From any thread."""
        before, self.cost = self.cost, min(1.0, max(LEAST_COST, (busy + PACED_COST * paced) / full))
        if self.cost < before:
            self._freed()


_thread = threading.local()


@contextmanager
def occupied(slot: SlotCost) -> Iterator[None]:
    """The block's work, in this thread, is done in that slot."""
    _thread.slot = slot
    try:
        yield
    finally:
        del _thread.slot


def current_slot() -> SlotCost | None:
    """The slot that this thread works in; None where nobody counts them (`-P solo`)."""
    return getattr(_thread, "slot", None)


class SharedExclusiveLock:
    """For threads: shared by batches that run together, exclusive for one that runs alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shared = 0
        # Whoever runs alone, and those that wait to.
        self._exclusive = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._exclusive)
            self._shared += 1
        try:
            yield
        finally:
            with self._changed:
                self._shared -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self, timeout_s: float) -> Iterator[bool]:
        """False where the others did not end in time."""
        deadline_at = time.monotonic() + timeout_s
        with self._changed:
            acquired = self._changed.wait_for(lambda: not self._exclusive, timeout_s)
            if acquired:
                self._exclusive += 1
                left_s = max(0.0, deadline_at - time.monotonic())
                acquired = self._changed.wait_for(lambda: not self._shared, left_s)
                if not acquired:
                    self._release_exclusive()
        try:
            yield acquired
        finally:
            if acquired:
                with self._changed:
                    self._release_exclusive()

    def _release_exclusive(self) -> None:
        self._exclusive -= 1
        self._changed.notify_all()
