"""The time limit of a page, against which a standstill of this process does not count.

The event loop does not turn while the process gets no CPU, or while a thread keeps the
interpreter's lock. In its next turn asyncio handles both the answers that wait in the sockets and
the timers that are due; tasks go on in the turn after that. With `asyncio.timeout` a page would end
with its answer at hand, and its host would be blamed.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

# A loop that is later than this had a standstill.
LATE_S = 0.05


class Deadline:
    """Cancels its block after `timeout_s`, and raises TimeoutError at the block's end. Used as
    `asyncio.timeout` is.

    If the loop is late by 2 s when the time is up, the block gets 2 s more, but no more than
    `timeout_s` altogether. `stalled_s` is how late the loop was.
    """

    __slots__ = ("_loop", "_spare_s", "_timeout", "_timeout_s", "_timer", "stalled_s")

    def __init__(self, timeout_s: float) -> None:
        self.stalled_s = 0.0
        self._timeout_s = self._spare_s = timeout_s
        self._timeout = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._set_timer(self._loop.time() + self._timeout_s)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._set_timer(None)
        await self._timeout.__aexit__(kind, error, trace)

    def when(self) -> float | None:
        """Returns the loop time of the deadline; None while there is none."""
        return None if self._timer is None else self._timer.when()

    def expired(self) -> bool:
        return self._timeout.expired()

    def reschedule(self, when: float | None) -> None:
        """Moves the deadline to this loop time; None stops the clock. Not allowed once `expired`
        is true."""
        # The time may have been up in this very turn of the loop.
        self._timeout.reschedule(None)
        self._set_timer(when)

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if when is None else self._loop.call_at(when, self._on_due)

    def _on_due(self) -> None:
        assert self._timer is not None
        now = self._loop.time()
        late_s = now - self._timer.when()
        more_s = min(late_s, self._spare_s)
        if more_s < LATE_S:
            # The block is cancelled in the next turn, after what this turn has received.
            self._timeout.reschedule(now)
            return
        self.stalled_s += late_s
        self._spare_s -= more_s
        self._set_timer(now + more_s)
