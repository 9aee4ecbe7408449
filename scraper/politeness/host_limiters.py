"""The host limiters of a process: one for each host that it has pages of. What a limiter does is
`scraper.politeness.host_limiter`'s."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from scraper.errors import DeferredError
from scraper.politeness.fleet import FleetLimiter
from scraper.politeness.host_limiter import HostLimiter
from scraper.rules.budget import NO_OVERRIDE, Override


class HostLimiters:
    """The limiters of this process, made when first needed and swept when idle."""

    def __init__(self, fleet: FleetLimiter) -> None:
        self._fleet = fleet
        self._limiters: dict[str, HostLimiter] = {}
        self._overrides: Mapping[str, Override] = {}

    def for_host(self, host: str) -> HostLimiter:
        limiter = self._limiters.get(host)
        if limiter is None:
            limiter = self._limiters[host] = HostLimiter(
                host, self._fleet, self._overrides.get(host, NO_OVERRIDE)
            )
        return limiter

    def apply_overrides(self, overrides: Mapping[str, Override]) -> None:
        """Takes what operators say of hosts, all of it; on the loop."""
        if overrides == self._overrides:
            return
        self._overrides = overrides
        for host, limiter in self._limiters.items():
            limiter.apply_override(overrides.get(host, NO_OVERRIDE))

    async def sweep(self) -> None:
        """Called every few seconds. Gives back the allotments of idle hosts, so that other
        processes may use them at once, and renews those of hosts whose answers take long. A fleet
        limiter that is away changes nothing: allotments run out. What is known of a host outlives
        the waits of its last pages."""
        with suppress(DeferredError):
            for host, limiter in list(self._limiters.items()):
                await limiter.maintain()
                if limiter.is_idle and not limiter.signals.is_answering(
                    asyncio.get_running_loop().time()
                ):
                    self._limiters.pop(host, None)
