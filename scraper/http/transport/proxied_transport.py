"""httpx's transport interface for requests through proxies, which never connects directly.

Only `scraper.http.transport.tunnel` opens its connections, and the proxy's id keeps them apart. A
request that names no proxy is refused before a socket exists.

The guard: the target's name is looked up here, and a request whose target is private, loopback,
link-local or a cloud's metadata service never leaves (`socks5` proxies get the address that was
judged). One risk remains: http, https and socks5h proxies look the name up a second time. A hostile
name server may give them another address, in the proxy operator's private network; use socks5 if
that matters. The proxy's own address is not judged: it comes from the operator's
file, and local ones are common.
"""

from __future__ import annotations

import asyncio
import ssl
from contextvars import ContextVar

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace

from scraper.domain import ProxySignal
from scraper.http.request import absolute_target_of
from scraper.http.transport.aiohttp_protocol import Connector
from scraper.http.transport.aiohttp_transport import AiohttpTransport, Fields, PoolOptions
from scraper.http.transport.guard import Networks
from scraper.http.transport.resolver import AddressCache
from scraper.http.transport.tunnel import (
    Dial,
    ProxyHopError,
    connect_through,
    proxy_authorization,
    proxy_timeout_error,
)
from scraper.rules.proxies import Proxy

_LOGIN_REQUIRED = 407
_dial: ContextVar[Dial | None] = ContextVar("dial", default=None)


class _ProxyConnector(Connector):
    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        dial = _dial.get()
        if dial is None or req.proxy is None:
            raise RuntimeError("a request without a proxy, where only proxied ones may leave")
        assert isinstance(self._ssl, ssl.SSLContext)
        port = req.port
        assert port is not None
        protocol = await connect_through(
            dial,
            req.host,
            port,
            factory=self._factory,
            tls=self._ssl if req.is_ssl() else None,
            proxy_tls=self._ssl,
        )
        assert isinstance(protocol, ResponseHandler)
        return protocol


class ProxiedTransport(AiohttpTransport):
    """One pool of connections through any number of proxies; `request.extensions["proxy"]` says
    which.

    Raises what `AiohttpTransport` does, and `ProxyHopError` if the proxy failed.
    """

    connector_class = _ProxyConnector

    def __init__(self, pool: PoolOptions, private: Networks, tls: ssl.SSLContext) -> None:
        super().__init__(pool, private, tls)
        self._addresses = AddressCache(pool.make_resolver(), private, ttl_s=pool.dns_ttl_s)

    async def handle_async_request(
        self, request: httpx.Request, label: str = "", target: bytes = b"", extra: Fields = ()
    ) -> httpx.Response:
        proxy: Proxy = request.extensions["proxy"]
        limits = request.extensions.get("timeout", {})
        dial = Dial(proxy)
        token = _dial.set(dial)
        try:
            async with asyncio.timeout(limits.get("connect")):
                host = request.url.raw_host.decode("ascii")
                dial.address = await self._addresses.first_address(host)
            # The label names the proxy's id, never its address.
            label = f"{proxy.scheme}://{proxy.id}"
            # Within a tunnel, the request is the host's own.
            if request.url.scheme != "https" and not proxy.tunnels:
                target, extra = absolute_target_of(request), _login_fields(proxy)
            response = await super().handle_async_request(request, label, target, extra)
        except ProxyHopError as error:
            raise ProxyHopError(error.signal, f"proxy {proxy.id}: {error}") from None
        except TimeoutError as error:
            raise httpx.ConnectTimeout("its name was not looked up in time") from error
        except httpx.ConnectTimeout as error:
            raise proxy_timeout_error(dial) or error from None
        finally:
            _dial.reset(token)
        # No origin server sends a 407 (RFC 9110 15.5.8).
        if response.status_code == _LOGIN_REQUIRED:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            await response.stream.aclose()
            raise ProxyHopError(
                ProxySignal.UNUSABLE, f"proxy {proxy.id}: it does not accept the login (407)"
            )
        return response


def _login_fields(proxy: Proxy) -> Fields:
    value = proxy_authorization(proxy)
    return [] if value is None else [(b"Proxy-Authorization", value.encode("ascii"))]
