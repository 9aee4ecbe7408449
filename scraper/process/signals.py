"""An event by which a signal handler reaches the threads of its process."""

from __future__ import annotations

import queue
import threading


class SignalEvent(threading.Event):
    """An event that a signal handler may set. `threading.Event` has a lock, which the handler would
    wait for forever where its signal interrupts the main thread just as it begins to wait."""

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        # Its `put` may interrupt a `get` of the same thread.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._wakes.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            try:
                self._wakes.get(timeout=None if timeout is None else max(timeout, 0))
            except queue.Empty:
                return self._is_set
            # Another thread may wait as well.
            self._wakes.put(None)
        return True

    def clear(self) -> None:
        raise NotImplementedError("what was asked by a signal stays so")
