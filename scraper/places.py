"""Who works beside whom in a worker process: batches together, or one that must have nothing beside it.

A page that several workers died with is tried once more by a worker that does nothing else, so that its death would prove
something. Whoever wants to be alone goes first: no new batch begins while it waits for those under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Places:
    """For threads. Each batch takes a place for as long as it lasts."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._together = 0
        self._alone = 0  # waiting to be, or being

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
                free = self._changed.wait_for(lambda: not self._together, max(0.0, latest - time.monotonic()))
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
