"""What a host's limiter asks of the whole fleet, and the answer. `RedisFleetLimiter`
(`scraper.politeness.fleet_limiter`) gives it; tests have one in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scraper.rules.budget import Budget, UnusedSlots


@dataclass(frozen=True, slots=True)
class Reservation:
    """Slots by the loop's clock: slot k of `slots` at `max(start_at, first_at + k * interval_s)`;
    with none granted, that of k = 0 is when there may be room. `interval_s` is the pace in force, 0
    where there is none. `allotment` requests may be under way in this process, which may be fewer
    than there are: then none is begun until enough have ended. `contended`: other processes wait
    for places. `end`: when the host is free after these slots, by Redis's clock: what is shown to
    give some of them back; `took_back`: whether that was done."""

    start_at: float
    first_at: float
    interval_s: float
    slots: int
    allotment: int
    contended: bool = False
    end: int = 0
    took_back: bool = False

    def at(self, slot: int) -> float:
        return max(self.start_at, self.first_at + slot * self.interval_s)


class FleetLimiter(Protocol):
    async def reserve(
        self,
        host: str,
        budget: Budget,
        *,
        slots: int,
        allotment: int,
        inflight: int,
        good: int = 0,
        busy_until: float = 0.0,
        back: UnusedSlots | None = None,
    ) -> Reservation: ...

    async def slow_down(
        self, host: str, budget: Budget, *, rest_s: float, why: str, age_s: float | None
    ) -> None: ...
