"""Deadlines of many pages, over one timer: as `asyncio.timeout`, at a third of its cost (10 us a
page, of 600).

A timer for each page goes into the loop's heap and, since next to no page is late, lies there until
it is swept out. Here the loop is woken at the earliest deadline of those who were there when it was
set, which is about once per page timeout.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType


class Deadlines:
    """Those of one event loop."""

    def __init__(self) -> None:
        self._open: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def after(self, seconds: float) -> Deadline:
        """`async with` it: what takes longer is cancelled, and raises `TimeoutError`."""
        return Deadline(self, asyncio.get_running_loop().time() + seconds)

    def watch(self, deadline: Deadline) -> None:
        self._open.add(deadline)
        self._wake_at(deadline.when)

    def forget(self, deadline: Deadline) -> None:
        self._open.discard(deadline)

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = (
            None
            if when == math.inf
            else asyncio.get_running_loop().call_at(when, self._expire_late)
        )

    def _expire_late(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for late in [deadline for deadline in self._open if deadline.when <= now]:
            self._open.discard(late)
            late.expire()
        self._wake_at(min((deadline.when for deadline in self._open), default=math.inf))


class Deadline:
    """One page's; `when` is a time of the loop's clock."""

    __slots__ = ("_all", "_cancelling", "_expired", "_task", "when")

    _task: asyncio.Task[object]
    _cancelling: int

    def __init__(self, all_: Deadlines, when: float) -> None:
        self._all = all_
        self._expired = False
        self.when = when

    @property
    def expired(self) -> bool:
        return self._expired

    def suspend(self) -> None:
        """Until it is put off: time that does not count."""
        self._all.forget(self)

    def put_off(self, seconds: float) -> None:
        self.when += seconds
        if not self._expired:
            self._all.watch(self)

    def expire(self) -> None:
        self._expired = True
        self._task.cancel()

    async def __aenter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._all.watch(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._all.forget(self)
        # Where somebody else has cancelled the task as well, that counts, and goes on.
        if (
            self._expired
            and self._task.uncancel() <= self._cancelling
            and kind is asyncio.CancelledError
        ):
            raise TimeoutError from error
