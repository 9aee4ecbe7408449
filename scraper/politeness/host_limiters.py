"""The gates of a process: one for each host that it has pages of. What a gate does is
`scraper.politeness.host_limiter`'s."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from scraper.errors import DeferredError
from scraper.politeness.fleet import Throttle
from scraper.politeness.host_limiter import Gate
from scraper.rules.budget import NO_OVERRIDE, Override


class Gates:
    """The gates of this process, made when first needed and swept when idle."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._gates: dict[str, Gate] = {}
        self._overrides: Mapping[str, Override] = {}

    def of(self, host: str) -> Gate:
        gate = self._gates.get(host)
        if gate is None:
            gate = self._gates[host] = Gate(
                host, self._throttle, self._overrides.get(host, NO_OVERRIDE)
            )
        return gate

    def steer(self, overrides: Mapping[str, Override]) -> None:
        """Takes what operators say of hosts, all of it; on the loop."""
        if overrides == self._overrides:
            return
        self._overrides = overrides
        for host, gate in self._gates.items():
            gate.steer(overrides.get(host, NO_OVERRIDE))

    async def sweep(self) -> None:
        """Called every few seconds. Gives back the shares of idle hosts, so that other processes
        may use them at once, and renews those of hosts whose answers take long. A throttle that is
        away changes nothing: shares run out."""
        with suppress(DeferredError):
            for host, gate in list(self._gates.items()):
                await gate.keep()
                if gate.idle:
                    self._gates.pop(host, None)
