"""The turns that one page takes on its way, redirects included."""

from __future__ import annotations

import asyncio

from scraper.http.account_session import Identity
from scraper.http.proxy_route import Via
from scraper.politeness.host_limiter import Gate


class Trip:
    """One page's way over one host or several: it holds a turn of the host that it is at, and of no
    other. `via`: the proxy that it goes through, as last set; `identity`: the account that it is
    logged in with, None for none."""

    __slots__ = ("_urgency", "began", "gate", "identity", "via")

    def __init__(self, urgency: int = 0) -> None:
        self._urgency = urgency
        self.gate: Gate | None = None
        self.began = 0.0
        self.via: Via | None = None
        self.identity: Identity | None = None

    async def go(self, gate: Gate, latest: float) -> None:
        """Waits for the turn of the next request. Another host's turn is given up before: two pages
        on opposite ways would wait for each other."""
        if self.gate is gate:
            await gate.another(latest, self._urgency)
        else:
            self.end()
            await gate.enter(latest, self._urgency)
            self.gate = gate
        self.began = asyncio.get_running_loop().time()

    def end(self) -> None:
        gate, self.gate = self.gate, None
        if gate is not None:
            gate.leave(self.began)
