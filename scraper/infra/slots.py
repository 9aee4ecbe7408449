"""Slots of a worker: how much of one a batch takes up, and which batches may run together.

A page that several workers died with is tried again by a worker that does nothing else, so that
its death proves something. A batch that must run alone goes first: no other begins while it waits
for those under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A page that waits for its host's permit costs only memory.
PACED_COST = 1 / 16
# A batch costs at least its thread.
LEAST_COST = 1 / 32


class SlotCost:
    """The share of a slot that one batch takes up: a whole one while all its pages keep the worker
    busy, less once some are done or wait for their host's permit. So a batch does not keep others
    out for as long as its slowest host takes.

    `starting` until its first pages wait for their permit: until then less urgent batches do not
    begin, since they would be served first. `freed` is called whenever the share falls.
    """

    __slots__ = ("_freed", "browser", "cost", "level", "starting")

    def __init__(self, level: int, freed: Callable[[], None], *, browser: bool = False) -> None:
        self.browser = browser
        self.level = level
        self.cost = 1.0
        self.starting = True
        self._freed = freed

    def started(self) -> None:
        self.starting = False
        self._freed()

    def weigh(self, busy: int, paced: int, full: int) -> None:
        """Sets the share by the pages that are left, `busy` or `paced`; `full` would be a whole
        batch. Thread-safe."""
        before = self.cost
        share = (busy + PACED_COST * paced) / full
        self.cost = min(1.0, max(LEAST_COST, share))
        if self.cost < before:
            self._freed()


_thread = threading.local()


@contextmanager
def occupy_slot(slot: SlotCost) -> Iterator[None]:
    """Assigns the slot to this thread while the block runs."""
    _thread.slot = slot
    try:
        yield
    finally:
        del _thread.slot


def current_slot() -> SlotCost | None:
    """Returns the slot that this thread works in; None if slots are not counted (`-P solo`)."""
    return getattr(_thread, "slot", None)


class SharedExclusiveLock:
    """A lock for threads: batches that run together share it, and one that runs alone has it
    exclusively."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shared = 0
        # Counts the holder and those that wait for the others to end.
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
        """Yields False if the other holders did not end in time."""
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
