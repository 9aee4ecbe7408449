"""What a gate asks of the whole fleet: `scraper.politeness.fleet_limiter` answers, a test may."""

from __future__ import annotations

from typing import Protocol

from scraper.rules.budget import Back, Budget


class Reserved(Protocol):
    @property
    def slots(self) -> int: ...
    @property
    def share(self) -> int: ...
    @property
    def interval_s(self) -> float: ...
    @property
    def contended(self) -> bool: ...
    @property
    def end(self) -> int: ...
    @property
    def took_back(self) -> bool: ...
    def at(self, slot: int) -> float: ...


class FleetLimiter(Protocol):
    async def reserve(
        self,
        host: str,
        budget: Budget,
        *,
        slots: int,
        share: int,
        inflight: int,
        good: int = 0,
        busy_until: float = 0.0,
        back: Back | None = None,
    ) -> Reserved: ...

    async def slow(
        self, host: str, budget: Budget, *, rest_s: float, why: str, age_s: float | None
    ) -> None: ...
