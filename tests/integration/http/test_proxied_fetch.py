"""Requests through real proxies: HTTP, HTTPS, SOCKS5, to plain and TLS hosts; who is to blame for
what goes wrong."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scraper.domain import Fetched, Outcome, ProxySignal, Validators
from scraper.errors import FetchError
from scraper.http.cookies import CookieJar
from scraper.http.fetcher import HttpFetcher
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.http.transport.guard import PrivateAccess
from scraper.politeness.robots import fetch_robots
from scraper.proxies.proxy_list import parse_list
from scraper.rules import proxies
from tests.support.fetching import OVER, POLICY, FakeResolver, Http2Fetcher
from tests.support.servers.hostile_server import self_signed
from tests.support.servers.proxies import DIRECT, SECRET, Field, TestProxy


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Here, and not in the test of another module that comes next."""
    yield
    gc.collect()


PROXIED = replace(POLICY, proxied=True, connect_timeout_s=20, read_timeout_s=20, page_timeout_s=60)
SCHEMES = ["http", "https", "socks5", "socks5h"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    folder = tmp_path_factory.mktemp("tls")
    return self_signed(folder), folder / "cert.pem"


@pytest.fixture(autouse=True, params=["aiohttp", "libcurl"])
def over(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """libcurl takes the https hosts alone; plain http goes through aiohttp in both."""
    if request.param == "libcurl":
        monkeypatch.setattr(OVER, "fetcher", Http2Fetcher)


def route_of(
    proxy: TestProxy, options: str = "class=datacenter", jar: CookieJar | None = None
) -> ProxyRoute:
    return ProxyRoute(parse_list(f"{proxy.url} {options}", "list")[0], jar)


def fetching(test: Callable[[HttpFetcher], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        fetcher = OVER.fetcher(PoolOptions(**options))
        try:
            async with asyncio.timeout(20):
                return await test(fetcher)
        finally:
            await fetcher.aclose()

    return asyncio.run(run())


def get(
    url: str, route: ProxyRoute | None, policy: FetchPolicy = PROXIED, **options: Any
) -> Fetched:
    fetched = fetching(lambda fetcher: fetcher.fetch(url, policy, route=route), **options)
    assert isinstance(fetched, Fetched)
    return fetched


def failure(
    url: str, route: ProxyRoute, policy: FetchPolicy = PROXIED, **options: Any
) -> FetchError:
    with pytest.raises(FetchError) as caught:
        get(url, route, policy, **options)
    error: BaseException | None = caught.value
    # nothing that a traceback may print holds a credential
    while error is not None:
        assert (
            SECRET not in f"{error!r} {error}"
            and f"127.0.0.1:{route.proxy.port}" not in f"{error!r} {error}"
        )
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return caught.value


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_reaches_plain_and_tls_hosts(
    scheme: str,
    tls: bool,
    certificate: tuple[ssl.SSLContext, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    proxy = TestProxy(1, scheme, tls=certificate[0])
    with Field(proxy, tls=certificate[0] if tls else None) as field:

        async def test(fetcher: HttpFetcher) -> None:
            for target in ("/p/1", "/moved", "/p/2"):
                fetched = await fetcher.fetch(field.url + target, PROXIED, route=route_of(proxy))
                assert fetched.status == 200 and b"Product" in fetched.body
            status, body = await fetch_robots(fetcher, field.url, PROXIED, route=route_of(proxy))
            assert status == 200 and body == field.robots

        fetching(test)
        assert [hit.target for hit in field.hits] == [
            "/p/1",
            "/moved",
            "/p/1",
            "/p/2",
            "/robots.txt",
        ]
        assert set(field.peers()) == {proxy.address}
        assert not any(name.startswith("proxy") for hit in field.hits for name in hit.headers)
        assert proxy.connections == 1, "connections to a proxy are kept like any others"


def test_bytes_that_come_before_the_tunnel_is_joined_are_passed_on(
    certificate: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop promises no order of a connection's first bytes and the end of the call that made it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    connect = asyncio.BaseEventLoop.create_connection

    async def connect_late(*args: Any, **options: Any) -> Any:
        made = await connect(*args, **options)
        # libcurl's end is open already, and begins with TLS.
        await asyncio.sleep(0.2 if options.get("sock") is not None else 0)
        return made

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", connect_late)
    proxy = TestProxy(1, "http")
    with Field(proxy, tls=certificate[0]) as field:
        fetched = get(field.url + "/p/1", route_of(proxy))
    assert fetched.status == 200 and b"Product" in fetched.body


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_validators_pass_a_proxy(
    tls: bool, certificate: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    proxy = TestProxy(1)
    with Field(proxy, tls=certificate[0] if tls else None) as field:
        asked = Validators('W/"v1"', "Mon, 01 Jan 2024 00:00:00 GMT")
        fetched = fetching(
            lambda fetcher: fetcher.fetch(
                field.url + "/p/1", PROXIED, validators=asked, route=route_of(proxy)
            )
        )
        (hit,) = field.hits
        assert (hit.headers["if-none-match"], hit.headers["if-modified-since"]) == asked[:2]
        assert fetched.conditional


def test_a_site_with_a_proxy_is_never_asked_without_one() -> None:
    with Field() as field:
        with pytest.raises(RuntimeError, match="without one"):
            get(field.url, None)
        assert field.hits == []


def test_connections_of_two_proxies_are_kept_apart() -> None:
    one, two = TestProxy(1), TestProxy(2)
    with Field(one, two) as field:

        async def test(fetcher: HttpFetcher) -> None:
            for proxy in (one, two, one, two):
                await fetcher.fetch(field.url + "/p/1", PROXIED, route=route_of(proxy))

        fetching(test)
        assert [hit.peer for hit in field.hits] == [
            one.address,
            two.address,
            one.address,
            two.address,
        ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_socks_proxy_gets_the_address_that_was_judged_unless_it_is_to_look_up_itself(
    scheme: str, certificate: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    proxy = TestProxy(1, scheme, tls=certificate[0])
    with Field(proxy) as field:
        if scheme.startswith("socks"):
            url = f"http://shop.example:{field.port}/p/1"
            assert get(url, route_of(proxy), resolver=FakeResolver(["127.0.0.1"])).status == 200
            kind = {"socks5": "1 127.0.0.1", "socks5h": "3 shop.example"}[scheme]
            assert proxy.asked == [f"SOCKS {kind}:{field.port}"]
            assert field.hits[0].headers["host"] == f"shop.example:{field.port}"


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
@pytest.mark.parametrize("host", ["xn--strae-oqa.example", "xn--ls8h.example"])
def test_a_proxy_gets_a_name_beyond_ascii_as_the_resolver_does(scheme: str, host: str) -> None:
    proxy, resolver = TestProxy(1, scheme, mode="403"), FakeResolver(["127.0.0.1"])
    with Field(proxy) as field:
        failure(f"https://{host}:{field.port}/p/1", route_of(proxy), resolver=resolver)
    verb = {"http": "CONNECT", "socks5h": "SOCKS 3"}[scheme]
    assert proxy.asked == [f"{verb} {host}:{field.port}"] and resolver.asked == [host]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"])
def test_the_guard_holds_through_a_proxy(address: str) -> None:
    """The target's name is looked up and judged here, before the proxy gets it. The proxy
    itself may be local."""
    proxy = TestProxy(1)
    guarded = replace(PROXIED, private=PrivateAccess())
    with Field(proxy) as field:
        error = failure(
            f"http://shop.example:{field.port}/p/1",
            route_of(proxy),
            guarded,
            resolver=FakeResolver([address]),
        )
        assert error.outcome is Outcome.FORBIDDEN_ADDRESS
        literal = f"[{address}]" if ":" in address else address
        assert (
            failure(f"http://{literal}:{field.port}/p/1", route_of(proxy), guarded).outcome
            is Outcome.FORBIDDEN_ADDRESS
        )
        assert (
            failure("http://169.254.169.254/", route_of(proxy)).outcome is Outcome.FORBIDDEN_ADDRESS
        )
        assert (
            failure("http://127.1/", route_of(proxy), guarded).outcome is Outcome.FORBIDDEN_ADDRESS
        )
        assert proxy.asked == [] and field.hits == []


def test_a_redirect_to_the_inside_is_refused_through_a_proxy() -> None:
    proxy = TestProxy(1)
    guarded = replace(PROXIED, private=PrivateAccess())
    with Field(proxy) as field:

        async def test(fetcher: HttpFetcher) -> None:
            resolver.answers = [["93.184.216.34"], ["192.168.0.1"]]
            with pytest.raises(FetchError) as caught:
                await fetcher.fetch(
                    f"http://127.0.0.1.nip.example:{field.port}/", guarded, route=route_of(proxy)
                )
            # the proxy was asked, and knows no such name
            assert caught.value.outcome is not Outcome.FORBIDDEN_ADDRESS
            with pytest.raises(FetchError) as caught:
                await fetcher.fetch(
                    f"http://inside.example:{field.port}/", guarded, route=route_of(proxy)
                )
            assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS

        resolver = FakeResolver(["93.184.216.34"])
        fetching(test, resolver=resolver)
        # The first name alone, at most a second time.
        assert len(proxy.asked) <= 2


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("mode", "outcome", "signal"),
    [
        ("closed", Outcome.PROXY_FAILED, ProxySignal.UNUSABLE),
        ("login", Outcome.PROXY_FAILED, ProxySignal.UNUSABLE),
        ("502", Outcome.UNREACHABLE, ProxySignal.FAILED),
        ("403", Outcome.PROXY_FAILED, ProxySignal.DENIED),
        ("hang", None, None),
    ],
)
def test_blame(
    scheme: str,
    tls: bool,
    mode: str,
    outcome: Outcome | None,
    signal: ProxySignal | None,
    certificate: tuple[ssl.SSLContext, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    proxy = TestProxy(1, scheme, mode=mode)
    with Field(proxy, tls=certificate[0] if tls else None) as field:
        route = route_of(proxy)
        if mode == "login":
            route = ProxyRoute(replace(route.proxy, password=SECRET + "wrong"))
        if scheme == "http" and not tls and mode in ("502", "403"):
            fetched = get(f"{field.url}/p/1", route)
            assert fetched.status == int(mode)
            said = proxies.answer_signal(
                fetched.status,
                fetched.headers,
                fetched.url,
                route.proxy,
                blocked=fetched.status == 403,
            )
            assert said is {"502": ProxySignal.FAILED, "403": ProxySignal.BLOCKED}[mode]
            return
        soon = replace(PROXIED, connect_timeout_s=0.3, read_timeout_s=0.3)
        limits = soon if mode == "hang" else PROXIED
        error = failure(f"{field.url}/p/1", route, limits)
        if mode == "hang":
            assert error.outcome in (Outcome.UNREACHABLE, Outcome.TIMEOUT)
            assert error.signal in (None, ProxySignal.FAILED)
        else:
            assert (error.outcome, error.signal) == (outcome, signal)
            assert str(error).startswith(f"proxy {route.proxy.id}: ")
        assert field.hits == []


def test_a_proxy_that_refuses_at_several_addresses_has_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy = TestProxy(1, mode="closed")
    with Field(proxy) as field:
        route = route_of(proxy)
        named = ProxyRoute(replace(route.proxy, host="proxy.example"))
        answers = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, route.proxy.port))
            for address in ("127.0.0.1", "127.0.0.2")
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
        error = failure(f"{field.url}/p/1", named)
    assert str(error) == f"proxy {route.proxy.id}: no connection to it"


def test_a_certificate_that_is_not_acceptable_is_refused_through_a_proxy(
    certificate: tuple[ssl.SSLContext, Path],
) -> None:
    proxy = TestProxy(1)
    with Field(proxy, tls=certificate[0]) as field:
        assert failure(f"{field.url}/p/1", route_of(proxy)).outcome is Outcome.TLS
    secure = TestProxy(1, "https", tls=certificate[0])
    with Field(secure) as field:
        error = failure(f"{field.url}/p/1", route_of(secure))
        assert (error.outcome, error.signal) == (Outcome.PROXY_FAILED, ProxySignal.UNUSABLE)


def test_a_host_that_is_not_acceptable_is_refused_within_the_tls_of_its_proxy(
    certificate: tuple[ssl.SSLContext, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    proxy = TestProxy(1, "https", tls=certificate[0])
    with Field(proxy, tls=self_signed(tmp_path)) as field:
        assert failure(f"{field.url}/p/1", route_of(proxy)).outcome is Outcome.TLS
        assert field.hits == []


def test_an_identity_keeps_its_cookies_and_its_browser() -> None:
    one, two = TestProxy(1), TestProxy(2)
    policy = replace(PROXIED, user_agent="browser", region="de")
    with Field(one, two) as field:

        async def test(fetcher: HttpFetcher) -> None:
            first, second = route_of(one, jar=CookieJar()), route_of(two, jar=CookieJar())
            for route in (first, second, first, second, route_of(one)):
                await fetcher.fetch(field.url + "/p/17", policy, route=route)

        fetching(test)
        cookies = [hit.headers.get("cookie") for hit in field.hits]
        mine, other = f"visitor={one.address}", f"visitor={two.address}"
        assert cookies == [None, None, None, None, mine, mine, other, other, None, None]
        agents = {
            peer: {hit.headers["user-agent"] for hit in field.hits if hit.peer == peer}
            for peer in field.peers()
        }
        assert all(
            len(seen) == 1 and next(iter(seen)).startswith("Mozilla/5.0 (")
            for seen in agents.values()
        )
        assert {hit.headers["accept-language"][:5] for hit in field.hits} == {"de-DE"}
        assert DIRECT not in field.peers()
