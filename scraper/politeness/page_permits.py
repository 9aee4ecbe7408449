"""The permits that one page takes on its way, redirects included."""

from __future__ import annotations

import asyncio

from scraper.http.account_session import AccountSession
from scraper.http.held_bodies import HeldBody
from scraper.http.proxy_route import ProxyRoute
from scraper.politeness.host_limiter import HostLimiter
from scraper.politeness.robots import RobotsRules


class PagePermits:
    """One page's permits on its way over hosts: it holds that of the host it is at, and no other.

    `route`: the proxy in use, as last set; `identity`: the account that the page is logged in as,
    None for none; `robots`: the rules of the host that it has reached; `body`: what is held of its
    response; `began`: when its last request left.
    """

    __slots__ = ("began", "body", "identity", "limiter", "robots", "route")

    def __init__(self, body: HeldBody | None = None) -> None:
        self.body = body
        self.limiter: HostLimiter | None = None
        self.began = 0.0
        self.robots: RobotsRules | None = None
        self.route: ProxyRoute | None = None
        self.identity: AccountSession | None = None

    async def acquire(self, limiter: HostLimiter, deadline_at: float, urgency: int = 0) -> None:
        """Waits for the permit of the next request, and releases another host's first: two pages
        that redirect to each other's hosts would otherwise wait for each other."""
        if self.limiter is limiter:
            await limiter.take_slot(deadline_at, urgency)
        else:
            self.release()
            await limiter.acquire(deadline_at, urgency)
            self.limiter = limiter
        self.began = asyncio.get_running_loop().time()

    def release(self) -> None:
        limiter, self.limiter = self.limiter, None
        if limiter is not None:
            limiter.release(self.began)
