"""Sends one request of a user's httpx client, and reads its bounded answer. The client follows
redirects and keeps cookies itself.

Neither waits for a host's permit nor reads robots.txt. It sends what the transports can send: GET,
and POST with a whole body.
"""

from __future__ import annotations

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
from scraper.http.transport.deadline import Deadline
from scraper.http.transport.faults import fetch_error

METHODS = ("GET", "POST")
POSTED_MAX_BYTES = 10_000_000
_UNPACKED = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
# This default agent of httpx is not the function's choice.
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
        """Returns the unpacked answer, whatever its status. Raises FetchError, and what
        `before_resend` raises: that is awaited before a GET is sent a second time because a
        kept-alive connection was closed. A POST is never sent twice, since the host may have acted
        on it (RFC 9110 9.2.2)."""
        check_request(request)
        url, jar = split_url(str(request.url)), route.jar if route else None
        seed = route.proxy.id if route else this_machine()
        transport = self._choose_transport(policy, route, seed, request.url)
        outgoing = await _make_outgoing(request, policy, route, seed)
        posts, resent = request.method == "POST", False
        while True:
            try:
                async with self._slots, Deadline(policy.page_timeout_s) as deadline:
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


def check_request(request: httpx.Request) -> None:
    """Raises FetchError for a request that cannot be sent."""
    url, message = request.url, ""
    if url.scheme not in ("http", "https") or not url.raw_host:
        message = "not an http or https URL with a host"
    elif request.method not in METHODS:
        message = f"only {' and '.join(METHODS)} can be sent from here, not {request.method[:20]}"
    if message:
        raise FetchError(Outcome.MALFORMED, message, url=str(url))


async def _make_outgoing(
    request: httpx.Request, policy: FetchPolicy, route: ProxyRoute | None, seed: str
) -> httpx.Request:
    """Makes the request that the transports send, with the policy's and the function's headers."""
    headers = policy.headers_from(seed, secure=request.url.scheme == "https")
    pairs = merge_headers(list(headers), _own_headers(request))
    if route is not None and route.jar is not None:
        pairs = with_cookies(pairs, route.jar, request.url)
    extensions: dict[str, Any] = {"timeout": _shorter_timeouts(request, policy)}
    if route is not None:
        extensions["proxy"] = route.proxy
    if request.method == "POST":
        extensions["body"] = content = await _read_content(request)
        pairs = [*pairs, ("Content-Length", str(len(content)))]
    return httpx.Request(
        request.method, request.url, headers=pairs, stream=EMPTY, extensions=extensions
    )


async def _read_content(request: httpx.Request) -> bytes:
    is_async = isinstance(request.stream, httpx.AsyncByteStream)
    content = await request.aread() if is_async else request.read()
    if len(content) > POSTED_MAX_BYTES:
        message = f"a body of {len(content):,} bytes is larger than {POSTED_MAX_BYTES:,}"
        raise FetchError(Outcome.MALFORMED, message, url=str(request.url))
    return content


def _own_headers(request: httpx.Request) -> dict[str, str]:
    """Returns the headers that the function sets, without those that the connection and the
    supported content codings determine."""
    return {
        name: value
        for name, value in request.headers.items()
        if name not in ("host", "accept-encoding", "connection", "content-length")
        and not value.startswith(HTTPX_AGENT)
    }


def _shorter_timeouts(request: httpx.Request, policy: FetchPolicy) -> dict[str, float]:
    """Returns the policy's timeouts, or those of the function's client if they are shorter."""
    asked = request.extensions.get("timeout", {})
    limits = {"connect": policy.connect_timeout_s, "read": policy.read_timeout_s}
    return {name: min(limit, asked.get(name) or limit) for name, limit in limits.items()}
