"""What a visit with a browser asks before it asks a host: the caller's turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scraper.http.fetcher import BeforeHop

BeforeSub = Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class Turns:
    """What a visit asks before it asks a host. `paid`: the first navigation's turn is the caller's,
    and was taken."""

    before_hop: BeforeHop | None = None
    before_sub: BeforeSub | None = None
    paid: bool = True
