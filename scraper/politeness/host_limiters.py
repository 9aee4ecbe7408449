"""The host limiters of a process: one for each host that it has pages of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from scraper.errors import DeferredError
from scraper.politeness.fleet import FleetLimiter
from scraper.politeness.host_limiter import HostLimiter
from scraper.rules.budget import NO_OVERRIDE, Override


class HostLimiters:
    """The limiters of this process, made when first needed and dropped when idle."""

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
        """Replaces all overrides by what operators set now. Runs on the loop."""
        if overrides == self._overrides:
            return
        self._overrides = overrides
        for host, limiter in self._limiters.items():
            limiter.apply_override(overrides.get(host, NO_OVERRIDE))

    async def sweep(self) -> None:
        """Runs every few seconds. Returns the allotments of idle hosts, so that other processes may
        use them at once, and renews those of hosts whose answers take long.

        While Redis is away nothing changes: allotments expire. A limiter outlives its last pages'
        waits while its host still counts as answering.
        """
        now = asyncio.get_running_loop().time()
        with suppress(DeferredError):
            for host, limiter in list(self._limiters.items()):
                await limiter.maintain()
                if limiter.is_idle and not limiter.signals.is_answering(now):
                    self._limiters.pop(host, None)
