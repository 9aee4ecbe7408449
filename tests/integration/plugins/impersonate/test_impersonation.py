"""What a host sees of us over TLS: the handshake, HTTP/2's settings, the headers; and an HTTP/2
host that misbehaves."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import brotli
import certifi
import pytest
from curl_cffi.requests import AsyncSession

from scraper.domain import Fetched, Outcome
from scraper.errors import FetchError
from scraper.http.cookies import CookieJar
from scraper.http.fetcher import HttpFetcher
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.http.transport import guard
from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.http.transport.guard import PrivateAccess
from scraper.infra.optional import zstd
from scraper.plugins.impersonate import profiles
from scraper.plugins.impersonate.handshake import CurlHandshake
from scraper.politeness.robots import fetch_robots
from scraper.proxies.proxy_list import parse_list
from scraper.rules import browsers
from tests.support.fetching import GUARDED, POLICY, FakeResolver
from tests.support.servers.h2_server import H2Server, fingerprint, offered
from tests.support.servers.hostile_server import HostileServer, answer, self_signed
from tests.support.servers.proxies import Field, TestProxy

HTTP2 = replace(POLICY, handshake=CurlHandshake(None))
CHROME = replace(POLICY, handshake=CurlHandshake("chrome"))
NAMES = ["chrome", "firefox", "safari"]


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    context = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    return context


def visiting(
    tls: ssl.SSLContext, test: Callable[[H2Server, HttpFetcher], Awaitable[Any]], **options: Any
) -> Any:
    async def run() -> Any:
        async with H2Server(tls) as server:
            fetcher = HttpFetcher(PoolOptions(**options))
            try:
                async with asyncio.timeout(30):
                    return await test(server, fetcher)
            finally:
                await fetcher.aclose()

    return asyncio.run(run())


def failure(tls: ssl.SSLContext, path: str, policy: FetchPolicy = HTTP2) -> FetchError:
    async def test(server: H2Server, fetcher: HttpFetcher) -> FetchError:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(server.url(path), policy)
        return caught.value

    error: FetchError = visiting(tls, test)
    return error


# What a host sees.


@pytest.mark.parametrize("name", NAMES)
def test_a_browser_is_the_one_that_curl_cffi_knows(
    name: str, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    """Handshake, HTTP/2 settings, pseudo-headers and headers: exactly curl_cffi's own for its
    newest profile."""

    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        async with AsyncSession() as session:
            await session.get(
                server.url("/ok"),
                impersonate=profiles.target_of(name),
                verify=str(tmp_path / "cert.pem"),
            )
        fetched = await fetcher.fetch(
            server.url("/ok"), replace(POLICY, handshake=CurlHandshake(name))
        )
        assert (fetched.status, fetched.body, fetched.headers["x-a"]) == (
            200,
            b"<h1>fine</h1>",
            "1, 2",
        )
        await fetcher.fetch(server.url("/ok"), HTTP2)
        theirs, ours, neutral = map(fingerprint, server.hellos)
        assert theirs == ours != neutral
        assert server.requests[0] == server.requests[1]
        assert server.settings[0] == server.settings[1] != server.settings[2]
        assert [offered(hello) for hello in server.hellos] == [["h2", "http/1.1"]] * 3

    visiting(tls, test)


def test_aiohttp_looks_like_what_it_is(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        # it speaks no HTTP/2, and this server nothing else
        with pytest.raises(FetchError):
            await fetcher.fetch(server.url("/ok"), POLICY)
        for name in NAMES:
            await fetcher.fetch(server.url("/ok"), replace(POLICY, handshake=CurlHandshake(name)))
        prints = [fingerprint(hello) for hello in server.hellos]
        assert len(set(prints)) == 4
        assert offered(server.hellos[0]) == ["http/1.1"]

    visiting(tls, test)


@pytest.mark.parametrize("name", NAMES)
def test_the_user_agent_belongs_to_the_handshake(name: str) -> None:
    target = profiles.target_of(name)
    version = "".join(char for char in target if char.isdigit())
    agent = {key.lower(): value for key, value in profiles.headers_of(name, None, secure=True)}[
        "user-agent"
    ]
    assert {"chrome": f"Chrome/{version}.", "firefox": f"Firefox/{version}.", "safari": "Safari/"}[
        name
    ] in agent
    plain = [key.lower() for key, _ in profiles.headers_of(name, "de", secure=False)]
    assert not [key for key in plain if key.startswith("sec-")] and "user-agent" in plain


def test_chromiums_brands_are_those_that_the_profile_sends() -> None:
    target = profiles.target_of("chrome")
    sent = dict(profiles.headers_of("chrome", None, secure=True))["sec-ch-ua"]
    assert sent == browsers.client_hint_brands(int(target.removeprefix("chrome")), "Google Chrome")


def test_a_sites_headers_go_over_the_browsers(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        policy = replace(
            CHROME, headers={"accept-language": "fr", "X-Shop": "1"}, region="de", cookies="shop"
        )
        await fetcher.fetch(server.url("/cookie"), policy)
        await fetcher.fetch(server.url("/ok"), policy)
        first, second = map(dict, server.requests)
        assert (first["accept-language"], first["x-shop"]) == ("fr", "1")
        assert "cookie" not in first and second["cookie"] == "visitor=1"
        assert [name for name, _ in server.requests[0]].count("accept-language") == 1
        await fetcher.fetch(server.url("/ok"), replace(CHROME, region="de"))
        assert dict(server.requests[-1])["accept-language"].startswith("de-DE")

    visiting(tls, test)


def test_an_identity_keeps_its_handshake() -> None:
    drawn = {str(n): browsers.choose_browser("any", str(n)) for n in range(60)}
    assert set(drawn.values()) == set(NAMES)
    assert drawn == {seed: browsers.choose_browser("any", seed) for seed in drawn}
    assert browsers.choose_browser("safari", "1") == "safari"


def test_http2_alone_says_honestly_who_we_are(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        await fetcher.fetch(server.url("/ok"), HTTP2)
        assert [name for name, _ in server.requests[0]] == [
            ":method", ":authority", ":scheme", ":path", "user-agent", "accept", "accept-language", "accept-encoding"
        ]  # fmt: skip
        assert dict(server.requests[0])["user-agent"] == POLICY.user_agent

    visiting(tls, test)


def test_robots_and_redirects_go_the_same_way(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        assert (await fetch_robots(fetcher, server.url("/x"), CHROME))[0] == 200
        assert (await fetcher.fetch(server.url("/moved"), CHROME)).redirects == 1
        assert server.paths() == ["/robots.txt", "/moved", "/ok"]
        assert len({fingerprint(hello) for hello in server.hellos}) == 1 and server.connections == 1

    visiting(tls, test)


def test_requests_at_once_share_one_connection(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        await asyncio.gather(*(fetcher.fetch(server.url(f"/{n}"), CHROME) for n in range(20)))
        assert (server.connections, len(server.requests)) == (1, 20)

    visiting(tls, test)


def test_a_request_that_hangs_on_http1_holds_up_no_other(tls: ssl.SSLContext) -> None:
    async def run() -> None:
        async with HostileServer(tls=tls) as server:
            fetcher, patient = HttpFetcher(), replace(HTTP2, connect_timeout_s=120)
            hanging = [
                asyncio.ensure_future(fetcher.fetch(server.url("/hang"), patient)) for _ in range(3)
            ]
            try:
                async with asyncio.timeout(60):  # below the connect timeout
                    await asyncio.gather(
                        *(fetcher.fetch(server.url("/ok"), patient) for _ in range(20))
                    )
            finally:
                for one in hanging:
                    one.cancel()
                await asyncio.gather(*hanging, return_exceptions=True)
                await fetcher.aclose()

    asyncio.run(run())


def test_handshakes_do_not_share_connections(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        for policy in (CHROME, HTTP2, replace(POLICY, handshake=CurlHandshake("firefox")), CHROME):
            await fetcher.fetch(server.url("/ok"), policy)
        assert server.connections == 3

    visiting(tls, test)


# A host that misbehaves in HTTP/2.


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("/reset", Outcome.UNREACHABLE),
        ("/refused", Outcome.UNREACHABLE),
        ("/reset-in-body", Outcome.UNREACHABLE),
        ("/goaway", Outcome.UNREACHABLE),
        ("/close", Outcome.UNREACHABLE),
        ("/bad-frame", Outcome.MALFORMED),
        ("/many-headers", Outcome.MALFORMED),
        ("/bomb", Outcome.TOO_LARGE),
        ("/endless", Outcome.TOO_LARGE),
    ],
)
def test_failures_are_named(path: str, outcome: Outcome, tls: ssl.SSLContext) -> None:
    error = failure(tls, path)
    assert error.outcome is outcome, str(error)


@pytest.mark.parametrize("path", ["/refused", "/goaway", "/close", "/reset"])
def test_a_fresh_connection_that_breaks_is_not_asked_twice(path: str, tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        with pytest.raises(FetchError):
            await fetcher.fetch(server.url(path), HTTP2)
        assert server.paths() == [path]

    visiting(tls, test)


def test_a_response_has_a_bounded_number_of_headers(tls: ssl.SSLContext) -> None:
    async def run() -> None:
        async with HostileServer(tls=tls) as server:
            server.extra = {
                "/300": answer(b"x", "200 OK", *["X-A: a"] * 300),
                "/200": answer(b"x", "200 OK", *["X-A: a"] * 200),
            }
            fetcher = HttpFetcher()
            try:
                assert (await fetcher.fetch(server.url("/200"), HTTP2)).status == 200
                with pytest.raises(FetchError) as caught:
                    await fetcher.fetch(server.url("/300"), HTTP2)
                assert caught.value.outcome is Outcome.MALFORMED
            finally:
                await fetcher.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/refused", "/goaway"])
def test_a_kept_connection_that_breaks_costs_at_most_one_request_more(
    path: str, tls: ssl.SSLContext
) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        await fetcher.fetch(server.url("/ok"), HTTP2)
        with pytest.raises(FetchError):
            await fetcher.fetch(server.url(path), HTTP2)
        assert len(server.paths()) <= 3

    visiting(tls, test)


@pytest.mark.parametrize(
    ("path", "limit", "says"),
    [
        ("/hang", {"read_timeout_s": 0.3}, "read timeout"),
        ("/hang-in-body", {"read_timeout_s": 0.3}, "read timeout"),
        ("/hang", {"page_timeout_s": 0.3}, "page timeout"),
    ],
)
def test_nothing_lasts_for_ever(
    path: str, limit: dict[str, float], says: str, tls: ssl.SSLContext
) -> None:
    error = failure(tls, path, replace(HTTP2, **limit))  # type: ignore[arg-type]
    assert error.outcome is Outcome.TIMEOUT and says in str(error)


def test_one_stream_that_fails_leaves_the_others_alone(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        await fetcher.fetch(server.url("/ok"), HTTP2)
        soon = replace(HTTP2, read_timeout_s=0.3)
        got = await asyncio.gather(
            *(
                fetcher.fetch(server.url(path), soon if path == "/hang" else HTTP2)
                for path in ("/hang", "/big2", "/reset", "/ok")
            ),
            return_exceptions=True,
        )
        assert [isinstance(one, Fetched) for one in got] == [False, True, False, True]
        assert (await fetcher.fetch(server.url("/ok"), HTTP2)).status == 200
        assert server.connections == 1

    visiting(tls, test)


def test_a_connection_with_a_broken_frame_is_not_used_again(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        for _ in range(2):
            with pytest.raises(FetchError):
                await fetcher.fetch(server.url("/bad-frame"), HTTP2)
            assert (await fetcher.fetch(server.url("/ok"), HTTP2)).status == 200

    visiting(tls, test)


def test_bodies_larger_than_any_buffer_arrive_whole_and_bombs_do_not_unpack_in_memory(
    tls: ssl.SSLContext,
) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        large = replace(HTTP2, wire_max_bytes=5_000_000, body_max_bytes=5_000_000)
        assert len((await fetcher.fetch(server.url("/big"), large)).body) == 3_000_000
        tracemalloc.start()
        try:
            with pytest.raises(FetchError, match="SCRAPER_BODY_MAX_BYTES"):
                await fetcher.fetch(server.url("/bomb"), HTTP2)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20_000_000

    visiting(tls, test)


def test_a_reader_that_rests_holds_the_sender_back(tls: ssl.SSLContext) -> None:
    """libcurl has to pause: what is held is a few buffers, not the body."""
    from scraper.plugins.impersonate import transfer

    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        most = 0
        real = transfer.CurlTransfer.read

        async def slow(self: Any) -> bytes:
            nonlocal most
            await asyncio.sleep(0.005)
            most = max(most, self._buffered)
            return await real(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transfer.CurlTransfer, "read", slow)
            large = replace(HTTP2, wire_max_bytes=5_000_000, body_max_bytes=5_000_000)
            assert len((await fetcher.fetch(server.url("/big"), large)).body) == 3_000_000
        assert 0 < most < 4 * transfer.READ_BUFFER_BYTES

    visiting(tls, test)


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_what_browsers_unpack_is_unpacked_within_the_limits(
    coding: str, tls: ssl.SSLContext
) -> None:
    pack = {"br": brotli.compress, "zstd": zstd.compress}[coding]

    async def run() -> None:
        async with HostileServer(tls=tls) as server:
            server.extra = {
                "/good": answer(pack(b"packed " * 1000), "200 OK", f"Content-Encoding: {coding}"),
                "/bomb2": answer(pack(bytes(64_000_000)), "200 OK", f"Content-Encoding: {coding}"),
                "/cut": answer(
                    pack(b"packed " * 1000)[:-4], "200 OK", f"Content-Encoding: {coding}"
                ),
                "/not": answer(b"<html>plain</html>", "200 OK", f"Content-Encoding: {coding}"),
            }
            fetcher = HttpFetcher()
            try:
                assert (await fetcher.fetch(server.url("/good"), CHROME)).body == b"packed " * 1000
                assert coding in server.requests[0][1]["accept-encoding"]
                tracemalloc.start()
                for path, outcome in (
                    ("/bomb2", Outcome.TOO_LARGE), ("/cut", Outcome.MALFORMED), ("/not", Outcome.MALFORMED)
                ):  # fmt: skip
                    with pytest.raises(FetchError) as caught:
                        await fetcher.fetch(server.url(path), CHROME)
                    assert caught.value.outcome is outcome
                assert tracemalloc.get_traced_memory()[1] < 20_000_000
            finally:
                tracemalloc.stop()
                await fetcher.aclose()

    asyncio.run(run())


# The guard, and what the process brings along.


@pytest.mark.parametrize("policy", [HTTP2, CHROME], ids=["http2", "chrome"])
def test_an_address_is_judged_again_where_it_is_connected_to(
    policy: FetchPolicy, tls: ssl.SSLContext
) -> None:
    """The names say a public address, libcurl ends at a private one: whatever the reason, no socket
    is opened."""
    from scraper.plugins.impersonate import transport

    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                transport, "_pin_host", lambda host, port, _: f"{host}:{port}:127.0.0.1".encode()
            )
            with pytest.raises(
                FetchError, match=r"leads to 127\.0\.0\.1, which is loopback"
            ) as caught:
                await fetcher.fetch(
                    server.url("/ok", "shop.example"), replace(policy, private=PrivateAccess())
                )
            assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS
        assert server.connections == 0 and server.hellos == []

    visiting(tls, test, resolver=FakeResolver(["93.184.216.34"]))


def test_a_kept_connection_is_judged_before_each_request(tls: ssl.SSLContext) -> None:
    """A name that is rebound to a private address is refused even where a good connection is still
    open."""
    real = guard.forbidden_reason
    resolver = FakeResolver(["127.0.0.1"], ["10.0.0.1"])

    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                guard,
                "forbidden_reason",
                lambda a, private: None if a == "127.0.0.1" else real(a, private),
            )
            guarded = replace(GUARDED, handshake=CurlHandshake(None))
            assert (await fetcher.fetch(server.url("/ok", "shop.example"), guarded)).status == 200
            with pytest.raises(FetchError, match=r"10\.0\.0\.1") as caught:
                await fetcher.fetch(server.url("/ok", "shop.example"), guarded)
            assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS
        assert len(server.requests) == 1

    visiting(tls, test, resolver=resolver, dns_ttl_s=0)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"])
def test_the_guard_holds_for_a_tls_host_behind_a_proxy(address: str, tls: ssl.SSLContext) -> None:
    proxy = TestProxy(1)
    guarded = replace(CHROME, private=PrivateAccess(), proxied=True)

    async def test(_: H2Server, fetcher: HttpFetcher) -> None:
        route = ProxyRoute(parse_list(f"{proxy.url} class=datacenter", "list")[0])
        literal = f"[{address}]" if ":" in address else address
        for host in ("shop.example", literal):
            with pytest.raises(FetchError) as caught:
                await fetcher.fetch(f"https://{host}/", guarded, route=route)
            assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS

    with Field(proxy):
        visiting(tls, test, resolver=FakeResolver([address]))
        assert proxy.asked == [] and proxy.connections == 0


def test_the_environment_is_not_asked(
    tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as bound:  # No server listens there.
        bound.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{bound.getsockname()[1]}"
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, nowhere)
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password hush\n")
        monkeypatch.setenv("HOME", str(tmp_path))

        async def test(server: H2Server, fetcher: HttpFetcher) -> None:
            assert (await fetcher.fetch(server.url("/ok"), CHROME)).status == 200
            assert "authorization" not in dict(server.requests[0])

        visiting(tls, test)


def test_the_certificates_are_those_of_the_other_transport(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from scraper.plugins.impersonate.transport import ca_stores

    paths = ssl.get_default_verify_paths()
    (tmp_path / "own.pem").write_text("")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    bare = paths._replace(cafile=None, capath=str(tmp_path / "empty"))
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: bare)
    assert ca_stores() == (certifi.where(), None)  # a slim image
    monkeypatch.setattr(
        ssl, "get_default_verify_paths", lambda: bare._replace(capath=str(tmp_path))
    )
    assert ca_stores() == (None, str(tmp_path))
    monkeypatch.undo()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    assert ca_stores()[0] == str(tmp_path / "own.pem")


def test_a_certificate_for_another_name_is_refused(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(server.url("/ok", "other.example"), HTTP2)
        assert caught.value.outcome is Outcome.TLS

    visiting(tls, test, resolver=FakeResolver(["127.0.0.1"]))


def test_cookies_are_kept_where_the_site_asks_and_stay_within_it(tls: ssl.SSLContext) -> None:
    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        one, two = replace(HTTP2, cookies="one"), replace(HTTP2, cookies="two")
        for policy in (one, one, two, HTTP2):
            await fetcher.fetch(server.url("/cookie"), policy)
        assert [dict(pairs).get("cookie") for pairs in server.requests] == [
            None,
            "visitor=1",
            None,
            None,
        ]

    visiting(tls, test)


def test_two_proxies_and_one_host_are_two_visitors(tls: ssl.SSLContext) -> None:
    """Apart in connections, and nothing of the first handshake is remembered in the second."""
    one, two = TestProxy(1), TestProxy(2, "socks5")

    async def test(server: H2Server, fetcher: HttpFetcher) -> None:
        ways = [
            ProxyRoute(parse_list(f"{proxy.url} class=datacenter", "list")[0], CookieJar())
            for proxy in (one, two)
        ]
        policy = replace(CHROME, proxied=True)
        for route in (*ways, *ways):
            await fetcher.fetch(server.url("/cookie"), policy, route=route)
        assert server.connections == 2 and len({fingerprint(hello) for hello in server.hellos}) == 1
        # no ticket (pre_shared_key comes last)
        assert not any(b"\x00\x29" in hello[-40:] for hello in server.hellos)
        assert [dict(pairs).get("cookie") for pairs in server.requests] == [
            None,
            None,
            "visitor=1",
            "visitor=1",
        ]

    with Field(one, two):
        visiting(tls, test)
