"""Event loops whose clocks a test moves, so that no test waits and none depends on the machine's
speed."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any


class _JumpingSelector(selectors.SelectSelector):
    """Sleeps by moving the loop's clock."""

    now = 0.0
    turns = 0

    def select(self, timeout: float | None = None) -> Any:
        self.turns += 1
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock stops while anything is ready to run, and jumps to the next timer."""

    def __init__(self) -> None:
        self.jumping = _JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


class AdvancingLoop(asyncio.SelectorEventLoop):
    """Its clock is the machine's, and `advance` adds to it: for work in threads, which a jumping
    clock would overtake."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


async def advance(seconds: float) -> None:
    """Lets time pass on an `AdvancingLoop`, and runs what is due."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AdvancingLoop)
    loop.ahead_s += seconds
    for _ in range(10):
        await asyncio.sleep(0)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs `work` on a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work())


def now() -> float:
    return asyncio.get_running_loop().time()


def hourly_schedule() -> str:
    """Returns an hourly schedule whose next slot is a quarter of an hour away, so that no slot
    comes due during a test."""
    return f"{(datetime.now(UTC).minute + 15) % 60} * * * *"


def is_newest_slot(schedule: str) -> str:
    """Returns the SQL that says whether a crawl's slot is the newest one of an hourly schedule."""
    past = f"interval '{schedule.partition(' ')[0]} minutes'"
    return f"slot = date_trunc('hour', now() - {past}) + {past}"
