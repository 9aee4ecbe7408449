"""The interface between a host's limiter and the whole fleet. `RedisFleetLimiter`
(`scraper.politeness.fleet_limiter`) implements it; tests have an implementation in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scraper.rules.budget import Budget, UnusedSlots


@dataclass(frozen=True, slots=True)
class Reservation:
    """Slots and an allotment of one host, on the loop's clock.

    Slot k of `slots` is at `max(start_at, first_at + k * interval_s)`; where none is granted, that
    of k = 0 is when there may be room. `interval_s` is the pace in force, 0 for none. `allotment`
    requests may be in flight in this process, which may be fewer than there are: then none begins
    until enough have ended. `contended`: other processes wait for an allotment. `end` is when the
    host is free after these slots, on Redis's clock, and identifies them when some are returned;
    `returned`: the slots that the process returned with its request are free again.
    """

    start_at: float
    first_at: float
    interval_s: float
    slots: int
    allotment: int
    contended: bool = False
    end: int = 0
    returned: bool = False

    def at(self, slot: int) -> float:
        """Returns when the slot with this number, from 0, is due."""
        return max(self.start_at, self.first_at + slot * self.interval_s)


class FleetLimiter(Protocol):
    """The fleet's budgets, as one process asks for them."""

    async def reserve(
        self,
        host: str,
        budget: Budget,
        *,
        slots: int,
        allotment: int,
        in_flight: int,
        good_answers: int = 0,
        busy_until: float = 0.0,
        unused: UnusedSlots | None = None,
    ) -> Reservation: ...

    async def slow_down(
        self, host: str, budget: Budget, *, rest_s: float, why: str, age_s: float | None
    ) -> None: ...
