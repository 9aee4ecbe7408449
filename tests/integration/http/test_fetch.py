"""The HTTP client against a real server that misbehaves, on 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.abc import ResolveResult

from scraper.domain import Fetched, Outcome, Validators
from scraper.errors import DeferredError, FetchError
from scraper.http.fetcher import HttpFetcher
from scraper.http.policy import FetchPolicy
from scraper.http.transport import guard
from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.politeness.robots import (
    NO_ANSWER,
    RobotsRules,
    Unavailable,
    fetch_robots,
    rules_from,
)
from tests.support.fetching import GUARDED, OVER, POLICY, FakeResolver, Http2Fetcher
from tests.support.servers.hostile_server import (
    HANDLERS,
    LARGE_BYTES,
    Exchange,
    HostileServer,
    answer,
    redirect,
    self_signed,
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    folder = tmp_path_factory.mktemp("tls")
    return self_signed(folder), folder / "cert.pem"


@pytest.fixture(autouse=True, params=["aiohttp", "libcurl"])
def over(
    request: pytest.FixtureRequest,
    certificate: tuple[ssl.SSLContext, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    if request.param == "libcurl":
        monkeypatch.setattr(OVER, "fetcher", Http2Fetcher)
        monkeypatch.setattr(OVER, "tls", certificate[0])
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    return str(request.param)


def with_server(
    test: Callable[[HostileServer, HttpFetcher], Awaitable[Any]], **options: Any
) -> Any:
    async def run() -> Any:
        async with HostileServer(tls=OVER.tls) as server:
            fetcher = OVER.fetcher(PoolOptions(**options))
            try:
                async with asyncio.timeout(20):
                    return await test(server, fetcher)
            finally:
                await fetcher.aclose()

    return asyncio.run(run())


def get(path: str, policy: FetchPolicy = POLICY, **options: Any) -> Fetched:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> Fetched:
        return await fetcher.fetch(server.url(path), policy, **options)

    fetched = with_server(test)
    assert isinstance(fetched, Fetched)
    return fetched


def failure(path: str, policy: FetchPolicy = POLICY, **options: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        get(path, policy, **options)
    assert str(caught.value).isprintable()
    return caught.value


# Answers.


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/ok", 200, b"<h1>fine</h1>"),
        ("/404", 404, b"nothing here"),
        ("/500", 500, b"oops"),
        ("/429", 429, b"slow down"),
        ("/999", 999, b"denied"),
        ("/204", 204, b""),
        ("/300", 300, b"choices"),
        ("/302-no-location", 302, b"where to?"),
        ("/charset", 200, "zażółć".encode("cp1250")),
        ("/nul", 200, b"a\0b\0\xff\xfe"),
        ("/until-close", 200, b"all until the end"),
        ("/early-hints", 200, b"after"),
        ("/gzip", 200, b"packed " * 1000),
        ("/deflate", 200, b"packed " * 1000),
        ("/gzip-empty", 200, b""),
    ],
)
def test_any_final_status_is_an_answer(path: str, status: int, body: bytes) -> None:
    fetched = get(path)
    assert (fetched.status, fetched.body, fetched.redirects) == (status, body, 0)
    assert fetched.url.endswith(path)
    assert fetched.elapsed_s > 0


def test_response_headers_are_plain_text() -> None:
    headers = get("/latin").headers
    assert headers["x-name"] == "café"
    assert headers["via"] == "a, b"
    assert "set-cookie" not in headers


def test_request_headers_are_the_defaults_with_the_sites_own() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        policy = replace(
            POLICY, headers={"accept-language": "de", "X-Shop": "1", "Accept-Encoding": "br"}
        )
        await fetcher.fetch(
            server.url("/ok"),
            policy,
            validators=Validators('"v1"', "Mon, 01 Jan 2024 00:00:00 GMT"),
            extra_headers={"X": "y"},
        )
        await fetcher.fetch(
            server.url("/ok"), POLICY, validators=Validators('"é"', "a\r\nInjected: 1")
        )
        (_, first), (_, second) = server.requests
        assert first["user-agent"] == POLICY.user_agent
        assert first["accept-language"] == "de"
        assert first["accept-encoding"] == "gzip, deflate"
        assert (first["x-shop"], first["x"]) == ("1", "y")
        assert first["if-none-match"] == '"v1"'
        assert first["if-modified-since"] == "Mon, 01 Jan 2024 00:00:00 GMT"
        assert first["host"] == f"127.0.0.1:{server.port}"
        assert not {"if-none-match", "if-modified-since", "injected"} & set(second)

    with_server(test)


def test_not_modified_has_no_body() -> None:
    fetched = get("/conditional", validators=Validators('"v1"'))
    assert (fetched.status, fetched.body, fetched.conditional) == (304, b"", True)
    fetched = get("/conditional", validators=Validators('"v0"'))
    assert (fetched.status, fetched.body, fetched.conditional) == (200, b"fresh", True)
    assert not get("/conditional").conditional
    assert not get("/conditional", validators=Validators("*\r\n")).conditional, "they were not sent"


def test_validators_go_with_the_first_request_alone() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        fetched = await fetcher.fetch(
            server.url("/to?u=/conditional"),
            POLICY,
            validators=Validators('"v1"', "Mon, 01 Jan 2024 00:00:00 GMT"),
        )
        assert (fetched.status, fetched.body, fetched.conditional) == (200, b"fresh", False)
        sent = [
            {"if-none-match", "if-modified-since"} & set(headers) for _, headers in server.requests
        ]
        assert sent == [{"if-none-match", "if-modified-since"}, set()]

    with_server(test)


def test_a_url_goes_out_as_it_was_written() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        await fetcher.fetch(server.url("/a%2Fb/%7Ec;p=1?q=a+b&r=%C3%A9#frag"), POLICY)
        assert server.paths() == ["/a%2Fb/%7Ec;p=1?q=a+b&r=%C3%A9"]

    with_server(test)


# Failures.


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("/disconnect", Outcome.UNREACHABLE),
        ("/half-header", Outcome.UNREACHABLE),
        ("/too-short", Outcome.UNREACHABLE),
        ("/truncated-chunk", Outcome.UNREACHABLE),
        ("/reset-in-body", Outcome.UNREACHABLE),
        ("/bad-chunk", Outcome.MALFORMED),
        ("/late-bad-chunk", Outcome.MALFORMED),
        ("/chunked-and-length", Outcome.MALFORMED),
        ("/two-lengths", Outcome.MALFORMED),
        ("/negative-length", Outcome.MALFORMED),
        ("/garbage", Outcome.MALFORMED),
        ("/http09", Outcome.MALFORMED),
        ("/nul-header", Outcome.MALFORMED),
        ("/giant-header", Outcome.MALFORMED),
        ("/many-headers", Outcome.MALFORMED),
        ("/endless-hints", Outcome.MALFORMED),
        ("/endless-trailers", Outcome.MALFORMED),
        ("/101", Outcome.MALFORMED),
        ("/gzip-truncated", Outcome.MALFORMED),
        ("/gzip-not", Outcome.MALFORMED),
        ("/brotli", Outcome.MALFORMED),
        ("/bomb", Outcome.TOO_LARGE),
        ("/endless", Outcome.TOO_LARGE),
    ],
)
def test_failures_are_named(path: str, outcome: Outcome) -> None:
    error = failure(path)
    assert error.outcome is outcome, str(error)
    assert error.url is not None and error.url.endswith(path)


@pytest.mark.parametrize("path", ["/endless-extension", "/endless-extensions"])
def test_chunk_extensions_end_the_answer(path: str, over: str) -> None:
    """libcurl does not show them: there they end with the time."""
    soon = replace(POLICY, read_timeout_s=0.5, page_timeout_s=1)
    error = failure(path, soon if over == "libcurl" else POLICY)
    assert error.outcome is (Outcome.MALFORMED if over == "aiohttp" else Outcome.TIMEOUT), str(
        error
    )
    assert "in addition to the body" in str(error) or over == "libcurl"


def test_a_body_in_the_smallest_chunks_is_a_body() -> None:
    assert get("/single-bytes").body == b"z" * 100_000


def test_bytes_beyond_the_length_are_never_taken_for_the_next_answer(over: str) -> None:
    """aiohttp calls it malformed; libcurl, as browsers, takes what was announced and closes the
    connection."""

    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        if over == "aiohttp":
            with pytest.raises(FetchError) as caught:
                await fetcher.fetch(server.url("/too-long"), POLICY)
            assert caught.value.outcome is Outcome.MALFORMED
        else:
            assert (await fetcher.fetch(server.url("/too-long"), POLICY)).body == b"hello"
        assert (await fetcher.fetch(server.url("/ok"), POLICY)).body == b"<h1>fine</h1>"
        assert server.connections == 2

    with_server(test)


def test_a_fresh_connection_that_breaks_is_not_asked_twice() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        with pytest.raises(FetchError):
            await fetcher.fetch(server.url("/disconnect"), POLICY)
        assert server.paths() == ["/disconnect"]

    with_server(test)


def test_a_stale_connection_is_replaced_without_a_word() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        await fetcher.fetch(server.url("/once-then-close"), POLICY)
        assert (await fetcher.fetch(server.url("/ok"), POLICY)).status == 200
        # libcurl has opened one when its repetition is stopped
        assert server.connections in (2, 3)
        assert server.paths() == ["/once-then-close", "/ok"]

    with_server(test)


def test_connections_are_kept() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        for path in ("/ok", "/gzip", "/count?n=3", "/404", "/204", "/conditional"):
            await fetcher.fetch(server.url(path), POLICY)
        assert server.connections == 1

    with_server(test)


def test_a_kept_connection_is_not_timed_out_while_nothing_is_asked() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        took_s = (await fetcher.fetch(server.url("/large"), POLICY)).elapsed_s
        impatient = replace(POLICY, read_timeout_s=max(0.5, 20 * took_s))
        # It is more than the buffers hold, so that reading is paused and goes on.
        assert len((await fetcher.fetch(server.url("/large"), impatient)).body) == LARGE_BYTES
        await asyncio.sleep(2.5 * impatient.read_timeout_s)
        assert (await fetcher.fetch(server.url("/ok"), impatient)).status == 200
        assert server.connections == 1

    with_server(test)


@pytest.mark.parametrize(
    ("path", "limit", "says"),
    [
        ("/hang", {"read_timeout_s": 0.3}, "read timeout"),
        ("/hang-in-body", {"read_timeout_s": 0.3}, "read timeout"),
        ("/hang", {"page_timeout_s": 0.3}, "page timeout"),
        ("/drip", {"page_timeout_s": 0.3}, "page timeout"),
        ("/drip-header", {"page_timeout_s": 0.3}, "page timeout"),
    ],
)
def test_nothing_lasts_for_ever(path: str, limit: dict[str, float], says: str) -> None:
    error = failure(path, replace(POLICY, **limit))  # type: ignore[arg-type]
    assert error.outcome is Outcome.TIMEOUT
    assert says in str(error) and "0.3 s" in str(error)


@pytest.mark.parametrize("limit", ["page_timeout_s", "read_timeout_s"])
def test_an_answer_that_waits_during_a_standstill_is_taken(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stand_still(exchange: Exchange) -> None:
        # The answer is in the client's socket; client and server share the loop.
        exchange.writer.write(answer(bytes(LARGE_BYTES)))
        time.sleep(1.5)

    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        # With its connection open, a request takes a small part of the second.
        await fetcher.fetch(server.url("/ok"), POLICY)
        began, policy = time.monotonic(), replace(POLICY, **{limit: 1.0})
        fetched = await fetcher.fetch(server.url("/standstill"), policy)
        assert len(fetched.body) == LARGE_BYTES
        # What goes beyond the page's time is this process's, and not how slowly the shop answers.
        own_s = time.monotonic() - began - fetched.elapsed_s
        assert limit != "page_timeout_s" or own_s >= 0.4

    monkeypatch.setitem(HANDLERS, "/standstill", stand_still)
    with_server(test)


def test_a_connection_that_is_never_accepted_times_out() -> None:
    class Hanging(FakeResolver):
        async def resolve(self, *_: Any, **__: Any) -> list[ResolveResult]:
            await asyncio.sleep(60)
            return []

    async def test(_: HostileServer, fetcher: HttpFetcher) -> None:
        with pytest.raises(FetchError, match=r"0\.3 s .connect timeout") as caught:
            await fetcher.fetch("http://slow.example/", replace(POLICY, connect_timeout_s=0.3))
        assert caught.value.outcome is Outcome.TIMEOUT

    with_server(test, resolver=Hanging([]))


def test_a_refused_connection_and_an_unknown_name_are_unreachable() -> None:
    class Unknown(FakeResolver):
        async def resolve(self, *_: Any, **__: Any) -> list[ResolveResult]:
            raise OSError("Name or service not known")

    async def test(_: HostileServer, fetcher: HttpFetcher) -> None:
        with socket.socket() as bound:  # bound, not listening
            bound.bind(("127.0.0.1", 0))
            for url in (f"http://127.0.0.1:{bound.getsockname()[1]}/", "http://nowhere.example/"):
                with pytest.raises(FetchError) as caught:
                    await fetcher.fetch(url, POLICY)
                assert caught.value.outcome is Outcome.UNREACHABLE, str(caught.value)

    with_server(test, resolver=Unknown([]))


def test_cancelling_passes_through_and_leaves_no_connection_behind() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        task = asyncio.create_task(fetcher.fetch(server.url("/hang-in-body"), POLICY))
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await fetcher.fetch(server.url("/ok"), POLICY)
        assert server.connections == 2

    with_server(test)


def test_a_bomb_does_not_inflate_in_memory() -> None:
    tracemalloc.start()
    try:
        error = failure("/bomb")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.outcome is Outcome.TOO_LARGE and "SCRAPER_BODY_MAX_BYTES" in str(error)
    assert peak < 20_000_000


def test_the_wire_limit_names_its_setting() -> None:
    assert "500000 bytes on the wire" in str(failure("/endless"))
    assert "SCRAPER_WIRE_MAX_BYTES" in str(failure("/endless"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.example/x",
        "ftp://shop.example/",
        "http://",
        "http://[::1",
        "file:///etc/passwd",
        "http://h:99999/",
        "http://a\r\nb/",
    ],
)
def test_what_is_not_a_url_is_malformed(url: str) -> None:
    async def test(_: HostileServer, fetcher: HttpFetcher) -> None:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(url, POLICY)
        assert caught.value.outcome is Outcome.MALFORMED

    with_server(test, resolver=FakeResolver(["127.0.0.1"]))


def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = self_signed(tmp_path)

    async def run(trusted: bool) -> Fetched:
        async with HostileServer(tls=context) as server:
            fetcher = OVER.fetcher()
            try:
                return await fetcher.fetch(server.url("/ok"), POLICY)
            finally:
                await fetcher.aclose()

    with pytest.raises(FetchError) as caught:
        asyncio.run(run(trusted=False))
    assert caught.value.outcome is Outcome.TLS
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    assert asyncio.run(run(trusted=True)).status == 200


def test_https_to_a_plain_server_is_a_tls_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OVER, "tls", None)

    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(f"https://127.0.0.1:{server.port}/ok", POLICY)
        assert caught.value.outcome is Outcome.TLS

    with_server(test)


# Redirects.


def test_redirects_are_followed_and_counted() -> None:
    fetched = get("/count?n=4")
    assert (fetched.redirects, fetched.body, fetched.url[-10:]) == (4, b"arrived", "/count?n=0")


META = '<html><head><meta http-equiv="Refresh" content="%s"></head><p>Please wait</p></html>'


@pytest.mark.parametrize(
    "page",
    [
        answer((META % "0; URL=/ok").encode()),
        answer((META % "3;url='/ok#top'").encode()),
        answer(b"wait", "200 OK", "Refresh: 0; url=/ok"),
        answer(b"wait", "200 OK", "Refresh: 1;URL='/ok'"),
    ],
)
def test_a_page_that_sends_its_readers_on_is_a_redirect(page: bytes) -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> Fetched:
        server.extra = {"/moved": page}
        return await fetcher.fetch(server.url("/moved"), POLICY)

    fetched = with_server(test)
    assert (fetched.url[-3:], fetched.redirects, fetched.body) == ("/ok", 1, b"<h1>fine</h1>")


@pytest.mark.parametrize(
    "content",
    ["0; URL=/stays", "30; URL=/ok", "30", "0; URL=/stays#again", "5; URL=/stays?bm-verify=A"],
)
def test_a_page_that_loads_itself_again_or_later_is_the_page(content: str) -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        for page in ((META % content).encode(), b"stays"):
            more = () if page.startswith(b"<") else (f"Refresh: {content}",)
            server.extra = {"/stays": answer(page, "200 OK", *more)}
            fetched = await fetcher.fetch(server.url("/stays"), POLICY)
            assert (fetched.body, fetched.redirects) == (page, 0)

    with_server(test)


def test_scripts_without_effect_do_not_redirect() -> None:
    """What browsers without scripts are shown is for them alone."""

    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        page = f"<noscript>{META % '0; URL=/ok'}</noscript><h1>Pot</h1>".encode()
        server.extra = {"/shown": answer(page)}
        assert (await fetcher.fetch(server.url("/shown"), POLICY)).body == page

    with_server(test)


def test_a_circle_of_pages_that_send_their_readers_on_ends() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        pages = {"/a": (META % "0; URL=/b").encode(), "/b": (META % "0; URL=/a").encode()}
        server.extra = {path: answer(page) for path, page in pages.items()}
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(server.url("/a"), POLICY)
        assert caught.value.outcome is Outcome.REDIRECT_LOOP

    with_server(test)


def test_too_many_redirects() -> None:
    error = failure("/count?n=6")
    assert error.outcome is Outcome.REDIRECT_LOOP and "SCRAPER_REDIRECTS_MAX" in str(error)
    assert failure("/count?n=1", replace(POLICY, redirects_max=0)).outcome is Outcome.REDIRECT_LOOP


def test_a_circle_ends_at_once() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        server.extra = {"/a": redirect(b"/b"), "/b": redirect(b"/a#x"), "/self": redirect(b"/self")}
        for path in ("/a", "/self"):
            with pytest.raises(FetchError, match="circle") as caught:
                await fetcher.fetch(server.url(path), POLICY)
            assert caught.value.outcome is Outcome.REDIRECT_LOOP
            assert caught.value.status == 302
        assert server.paths() == ["/a", "/b", "/self"]

    with_server(test)


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
def test_every_redirect_status(status: str) -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        server.extra = {"/r": redirect(b"/ok", status=status)}
        assert (await fetcher.fetch(server.url("/r"), POLICY)).url == server.url("/ok")

    with_server(test)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("ok", "/ok"),
        ("%3Fu=/ok", "/ok"),
        ("./x/../y", "/y"),
        ("%20/spaces%20", "/spaces"),
        ("/caf%C3%A9", "/caf%C3%A9"),
        ("/caf%E9", "/caf%E9"),
        ("/a%20b", "/a%20b"),
        ("/a%25C3%25A9", "/a%C3%A9"),
        ("/frag%23top", "/frag"),
    ],
)
def test_locations_of_every_kind(location: str, path: str) -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        fetched = await fetcher.fetch(server.url(f"/to?u={location}"), POLICY)
        assert server.paths()[-1] == path
        assert fetched.url == server.url(path)

    with_server(test)


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://h/",
        "javascript:alert(1)",
        "http://[::1",
        "http://a:b:c/",
        "/x%01y",
        "data:,x",
        "gopher://127.0.0.1:6379/_x",
    ],
)
def test_bad_locations_are_malformed(location: str) -> None:
    error = failure(f"/to?u={location}")
    assert error.outcome is Outcome.MALFORMED
    assert error.status == 302


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://[::ffff:169.254.169.254]/",
    ],
)
def test_metadata_is_refused_even_with_allow_private(target: str) -> None:
    error = failure(f"/to?u={target}")
    assert error.outcome is Outcome.FORBIDDEN_ADDRESS and "never fetched" in str(error)


@pytest.mark.parametrize(
    "target",
    [
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/",
        "http://0.0.0.0/",
        "http://[::ffff:127.0.0.1]/",
    ],
)
def test_a_redirect_to_an_internal_address_is_refused(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """127.0.0.1 plays the public server here, everything else is judged as always."""
    real = guard.forbidden_reason
    monkeypatch.setattr(
        guard,
        "forbidden_reason",
        lambda address, private: None if address == "127.0.0.1" else real(address, private),
    )
    error = failure(f"/to?u={target}", GUARDED)
    assert error.outcome is Outcome.FORBIDDEN_ADDRESS


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0x7f.0.0.1",
        "0x7f000001",
        "LOCALHOST",
    ],
)
def test_internal_hosts_are_refused_by_every_spelling(host: str) -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        with pytest.raises(FetchError, match="allow_private") as caught:
            await fetcher.fetch(server.url("/ok", host), GUARDED)
        assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS
        assert server.connections == 0

    with_server(test)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "127.0.0.1.",
        "0",
        "017700000001",
        "１２７.0.0.1",
        "localhost.",
    ],
)
def test_odd_hosts_lead_nowhere(host: str) -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(server.url("/ok", host), GUARDED)
        assert caught.value.outcome in (
            Outcome.MALFORMED,
            Outcome.FORBIDDEN_ADDRESS,
            Outcome.UNREACHABLE,
        )
        assert server.connections == 0

    with_server(test)


def test_a_name_that_is_rebound_is_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.1 plays the public address of the first answer; the second answer is private."""
    real = guard.forbidden_reason
    monkeypatch.setattr(
        guard,
        "forbidden_reason",
        lambda address, private: None if address == "127.0.0.1" else real(address, private),
    )
    resolver = FakeResolver(["127.0.0.1"], ["10.0.0.1"])

    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        server.extra = {"/bye": answer(b"ok", "200 OK", "Connection: close")}
        url = server.url("/bye", "shop.example")
        assert (await fetcher.fetch(url, GUARDED)).status == 200
        with pytest.raises(
            FetchError, match=r"shop\.example.* leads to 10\.0\.0\.1, which is private"
        ) as caught:
            await fetcher.fetch(url, GUARDED)
        assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS
        assert resolver.asked == ["shop.example", "shop.example"]

    with_server(test, resolver=resolver, dns_ttl_s=0)


def test_a_name_that_is_rebound_between_a_page_and_its_redirect_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The crawled shop changes its own address while one page is fetched: robots.txt and the first
    answer come from a public address, the redirect leads to a private one by the same name."""
    real = guard.forbidden_reason
    monkeypatch.setattr(
        guard,
        "forbidden_reason",
        lambda address, private: None if address == "127.0.0.1" else real(address, private),
    )
    resolver = FakeResolver(["127.0.0.1"], ["127.0.0.1"], ["169.254.169.254"])

    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        server.extra = {
            "/robots.txt": answer(b"", "200 OK", "Connection: close"),
            "/go": redirect(b"/latest/meta-data", "Connection: close"),
        }
        url = server.url("/go", "shop.example")
        assert (await fetch_robots(fetcher, url, GUARDED))[0] == 200
        with pytest.raises(FetchError, match=r"leads to 169\.254\.169\.254") as caught:
            await fetcher.fetch(url, GUARDED)
        assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS
        assert resolver.asked == ["shop.example"] * 3

    with_server(test, resolver=resolver, dns_ttl_s=0)


def test_only_the_public_ones_of_several_addresses_are_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = guard.forbidden_reason
    monkeypatch.setattr(
        guard,
        "forbidden_reason",
        lambda address, private: None if address == "127.0.0.1" else real(address, private),
    )

    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        assert (await fetcher.fetch(server.url("/ok", "shop.example"), GUARDED)).status == 200

    with_server(test, resolver=FakeResolver(["10.0.0.1", "127.0.0.2", "127.0.0.1"]))


def test_allow_private_connections_are_not_lent_to_guarded_sites() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        assert (await fetcher.fetch(server.url("/ok"), POLICY)).status == 200
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(server.url("/ok"), GUARDED)
        assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS

    with_server(test)


@pytest.mark.parametrize("place", ["page", "redirect", "robots.txt"])
def test_private_addresses_of_the_own_host_open_no_other_port_and_no_other_name(place: str) -> None:
    """`shop.example` has a private address, as strangers' names have, and another listener of the
    same machine."""

    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        async with HostileServer() as inside:
            own = guard.PrivateAccess(frozenset({("shop.example", server.port)}))
            policy = replace(POLICY, private=own)
            shop = server.url("/ok", "shop.example")
            assert (await fetcher.fetch(shop, policy)).status == 200
            for target in (
                inside.url("/x", "shop.example"),
                inside.url("/x"),
                server.url("/x"),
                server.url("/x", "stranger.example"),
                server.url("/x", "notshop.example"),
            ):
                server.extra = {
                    "/r": redirect(target.encode()),
                    "/robots.txt": redirect(target.encode()),
                }
                asked = server.url("/r", "shop.example") if place == "redirect" else target
                work: Awaitable[Any] = (
                    fetch_robots(fetcher, shop, policy)
                    if place == "robots.txt"
                    else fetcher.fetch(asked, policy)
                )
                with pytest.raises(FetchError, match="among its 'hosts'") as caught:
                    await work
                assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS
            assert inside.connections == 0 and server.connections == 1

    with_server(test, resolver=FakeResolver(["127.0.0.1"]))


def test_a_redirect_off_the_site_is_refused_before_it_is_asked() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        asked: list[str] = []

        def allowed(host: str) -> bool:
            asked.append(host)
            return False

        policy = replace(POLICY, allowed=allowed)
        with pytest.raises(FetchError, match=r"other\.example:81") as caught:
            await fetcher.fetch(server.url("/to?u=HTTP://Other.Example:81/x"), policy)
        assert caught.value.outcome is Outcome.OFF_SITE
        assert (caught.value.status, asked) == (302, ["other.example:81"])

    with_server(test)


def test_before_hop_is_awaited_for_redirects_only_and_its_wait_is_free() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        hops: list[str] = []

        async def before_hop(url: str) -> None:
            hops.append(url)
            await asyncio.sleep(0.6 * timeout_s)

        # The time of three requests on this machine, many times over. Both waits together take longer.
        without = await fetcher.fetch(server.url("/count?n=2"), POLICY)
        timeout_s = max(0.5, 20 * without.elapsed_s)
        policy = replace(POLICY, page_timeout_s=timeout_s)
        fetched = await fetcher.fetch(server.url("/count?n=2"), policy, before_hop=before_hop)
        assert hops == [server.url("/count?n=1"), server.url("/count?n=0")]
        assert fetched.elapsed_s < timeout_s

    with_server(test)


@pytest.mark.parametrize(
    "error", [DeferredError(5), FetchError(Outcome.ROBOTS_DISALLOWED, "no"), TimeoutError("redis")]
)
def test_what_before_hop_raises_passes_through(error: Exception) -> None:
    async def before_hop(_: str) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        get("/count?n=2", before_hop=before_hop)
    assert caught.value is error


def test_cookies_last_for_the_chain() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        for _ in range(2):
            fetched = await fetcher.fetch(server.url("/cookie-gate"), POLICY)
            assert (fetched.body, fetched.redirects) == (b"inside", 1)
        assert ["cookie" in headers for _, headers in server.requests] == [False, True, False, True]

    with_server(test)


def test_secrets_stay_with_their_host() -> None:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> None:
        server.extra = {
            "/same": redirect(b"/ok", "Set-Cookie: a=1"),
            "/other": redirect(server.url("/ok", "localhost").encode(), "Set-Cookie: a=1"),
        }
        policy = replace(
            POLICY,
            headers={
                "Authorization": "Bearer x",
                "X-Api-Key": "k",
                "Cookie": "c=2",
                "Accept-Language": "de",
            },
        )
        await fetcher.fetch(server.url("/same"), policy)
        await fetcher.fetch(server.url("/other"), policy)
        same, other = server.requests[1][1], server.requests[3][1]
        assert (same["authorization"], same["x-api-key"], same["cookie"]) == (
            "Bearer x",
            "k",
            "c=2; a=1",
        )
        assert not {"authorization", "x-api-key", "cookie"} & set(other)
        assert other["accept-language"] == "de"

    with_server(test, resolver=FakeResolver(["127.0.0.1"]))


def test_a_redirect_whose_body_hangs_is_followed() -> None:
    assert get("/slow-redirect-body").body == b"<h1>fine</h1>"


# robots.txt.


def robots(path_bytes: dict[str, bytes], policy: FetchPolicy = POLICY) -> tuple[int, bytes]:
    async def test(server: HostileServer, fetcher: HttpFetcher) -> tuple[int, bytes]:
        server.extra = path_bytes
        return await fetch_robots(fetcher, server.url("/some/page?x=1"), policy)

    found: tuple[int, bytes] = with_server(test)
    return found


def test_robots_is_fetched_and_means_something() -> None:
    rules = rules_from(*robots({}), POLICY.user_agent)
    assert isinstance(rules, RobotsRules)
    assert not rules.allowed("http://h/private/x") and rules.allowed("http://h/x")
    assert rules.crawl_delay_s == 2


def test_robots_may_redirect_to_other_hosts_but_at_most_five_times() -> None:
    status, body = robots(
        {"/robots.txt": redirect(b"/r2"), "/r2": answer(b"moved")},
        replace(POLICY, allowed=lambda _: False),
    )
    assert (status, body) == (200, b"moved")
    status, body = robots({"/robots.txt": redirect(b"/count?n=9")})
    assert isinstance(rules_from(status, body, "x"), RobotsRules)


def test_robots_that_is_too_long_is_cut() -> None:
    line = b"Disallow: /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
    status, body = robots({"/robots.txt": answer(b"User-agent: *\n" + line * 20_000)})
    assert status == 200 and len(body) == 512_000
    rules = rules_from(status, body, "x")
    assert isinstance(rules, RobotsRules) and rules.allowed("http://h/b")


@pytest.mark.parametrize(
    "raw", [b"", b"garbage\r\n\r\n", answer(b"x", "200 OK", "Content-Encoding: br")]
)
def test_robots_without_an_answer_is_unavailable(raw: bytes) -> None:
    status, body = robots({"/robots.txt": raw}, replace(POLICY, read_timeout_s=0.3))
    assert status == NO_ANSWER
    rules = rules_from(status, body, "x")
    assert isinstance(rules, Unavailable) and rules.reason


def test_robots_at_a_forbidden_address_says_so() -> None:
    with pytest.raises(FetchError) as caught:
        robots({}, GUARDED)
    assert caught.value.outcome is Outcome.FORBIDDEN_ADDRESS
