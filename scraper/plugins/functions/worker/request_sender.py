"""One request of a user's own httpx client, and its bounded answer. The client follows redirects
and keeps cookies itself.

Refuses to wait for a host's permit, to read robots.txt, and whatever the transports cannot send:
they know GET, and POST with a whole body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http.exchange import EMPTY, Exchanger, exchange, page_timeout_error
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute, this_machine
from scraper.http.redirects import host_of, with_cookies
from scraper.http.request import merge_headers, split_url
from scraper.http.transport.aiohttp_transport import StaleConnectionError
from scraper.http.transport.faults import fetch_error

METHODS = ("GET", "POST")
POSTED_MAX_BYTES = 10_000_000
_UNPACKED = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
# This is httpx's default, not a choice of the function.
HTTPX_AGENT = "python-httpx/"


class RequestSender(Exchanger):
    """Sends requests by a policy. Headers that the function sets replace the policy's."""

    async def send(
        self,
        request: httpx.Request,
        policy: FetchPolicy,
        route: ProxyRoute | None,
        before_resend: Callable[[], Awaitable[None]],
    ) -> httpx.Response:
        """Its answer, whatever the status, unpacked. Raises FetchError alone, and what
        `before_resend` raises: that is awaited before a GET is sent a second time, since a
        kept-alive connection was closed. A POST is not: who knows what it has done (RFC 9110
        9.2.2)."""
        check(request)
        url, jar = split_url(str(request.url)), route.jar if route else None
        seed = route.proxy.id if route else this_machine()
        transport = self._choose_transport(policy, route, seed, request.url)
        headers = policy.headers_from(seed, secure=request.url.scheme == "https")
        pairs = merge_headers(list(headers), _own_headers(request))
        if jar is not None:
            pairs = with_cookies(pairs, jar, request.url)
        extensions: dict[str, Any] = {"timeout": _timeouts(request, policy)}
        if route is not None:
            extensions["proxy"] = route.proxy
        posts = request.method == "POST"
        if posts:
            extensions["body"] = content = await _content(request)
            pairs = [*pairs, ("Content-Length", str(len(content)))]
        outgoing = httpx.Request(
            request.method, request.url, headers=pairs, stream=EMPTY, extensions=extensions
        )
        resent = False
        while True:
            try:
                async with self._slots, asyncio.timeout(policy.page_timeout_s) as deadline:
                    answer = await exchange(transport, outgoing, policy, jar, url, follows=False)
                    break
            except StaleConnectionError as error:
                if posts or resent:
                    host = host_of(request.url)
                    raise fetch_error(error, url=url.text, host=host, limits=policy) from error
            except TimeoutError:
                if not deadline.expired():
                    raise
                raise page_timeout_error(policy, url.text) from None
            resent = True
            await before_resend()
        fields = [pair for pair in answer.raw if pair[0].lower() not in _UNPACKED]
        return httpx.Response(answer.status, headers=fields, content=answer.body, request=request)


def check(request: httpx.Request) -> None:
    """Raises FetchError for what cannot be sent from here."""
    url, message = request.url, ""
    if url.scheme not in ("http", "https") or not url.host:
        message = "not an http or https URL with a host"
    elif request.method not in METHODS:
        message = f"only {' and '.join(METHODS)} can be sent from here, not {request.method[:20]}"
    if message:
        raise FetchError(Outcome.MALFORMED, message, url=str(url))


async def _content(request: httpx.Request) -> bytes:
    is_async = isinstance(request.stream, httpx.AsyncByteStream)
    content = await request.aread() if is_async else request.read()
    if len(content) > POSTED_MAX_BYTES:
        message = f"a body of {len(content):,} bytes is larger than {POSTED_MAX_BYTES:,}"
        raise FetchError(Outcome.MALFORMED, message, url=str(request.url))
    return content


def _own_headers(request: httpx.Request) -> dict[str, str]:
    """What the function itself says, without what follows from the connection, or from what can be
    unpacked here."""
    return {
        name: value
        for name, value in request.headers.items()
        if name not in ("host", "accept-encoding", "connection", "content-length")
        and not value.startswith(HTTPX_AGENT)
    }


def _timeouts(request: httpx.Request, policy: FetchPolicy) -> dict[str, float]:
    """Those that the function's client asks for, where they are shorter."""
    asked = request.extensions.get("timeout", {})
    limits = {"connect": policy.connect_timeout_s, "read": policy.read_timeout_s}
    return {name: min(limit, asked.get(name) or limit) for name, limit in limits.items()}
