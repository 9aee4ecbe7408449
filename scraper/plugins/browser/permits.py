"""The caller's permits, which a visit with a browser needs before it asks a host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scraper.http.fetcher import BeforeHop

BeforeSub = Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class BrowserPermits:
    """What a visit asks for before it asks a host. `paid`: the caller has the permit of the first
    navigation."""

    before_hop: BeforeHop | None = None
    before_sub: BeforeSub | None = None
    paid: bool = True
