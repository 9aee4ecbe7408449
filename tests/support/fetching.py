"""What tests of fetching share: a policy, a resolver, an address that has too much."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, replace
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from scraper.domain import Fetched
from scraper.http.fetcher import HttpFetcher
from scraper.http.policy import FetchPolicy
from scraper.http.transport import guard
from scraper.plugins.impersonate.handshake import CurlHandshake

OPEN = guard.PrivateAccess(networks=guard.ANYWHERE)


POLICY = FetchPolicy(
    user_agent="Mozilla/5.0 (compatible; testbot/1.0)",
    headers={},
    private=OPEN,
    allowed=None,
    body_max_bytes=1_000_000,
    wire_max_bytes=500_000,
    redirects_max=5,
    connect_timeout_s=5,
    read_timeout_s=5,
    page_timeout_s=10,
)


GUARDED = replace(POLICY, private=guard.PrivateAccess())


class FakeResolver(AbstractResolver):
    """Answers from a list of answers, the last one for good."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


class Http2Fetcher(HttpFetcher):
    """Asks for HTTP/2 whatever the policy says, so that every page of an https host goes through
    libcurl."""

    async def fetch(self, url: str, policy: FetchPolicy, **options: Any) -> Fetched:
        return await super().fetch(url, replace(policy, handshake=CurlHandshake(None)), **options)


@dataclass
class Over:
    """What the tests of this module run over: aiohttp and plain http, or libcurl and TLS."""

    fetcher: type[HttpFetcher] = HttpFetcher
    tls: ssl.SSLContext | None = None


OVER = Over()
