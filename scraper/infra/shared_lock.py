"""Who works beside whom in a process: batches together, or one that must have nothing beside it.

A page that several workers died with is tried once more by a worker that does nothing else, so that
its death would prove something. Whoever wants to be alone goes first: no new batch begins while it
waits for those under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class SharedExclusiveLock:
    """For threads. `_exclusive` counts who works alone, and who waits to."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shared = 0
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
