"""Chromium against a server that misbehaves, on 127.0.0.1: bounds, guard, crashes, and what is left
behind."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from scraper.domain import Outcome
from scraper.errors import DeferredError, FetchError
from scraper.http.account_session import AccountSession
from scraper.http.cookies import AccountJar, CookieJar
from scraper.http.page_browser import BrowserPermits
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.http.transport.guard import PrivateAccess
from scraper.plugins.browser import processes, steps
from scraper.plugins.browser.chromium import list_processes
from scraper.plugins.browser.keys import Rendering
from scraper.plugins.browser.pool import Browsers
from scraper.rules.proxies import Proxy
from tests.support.browsers import (
    BROWSER_POLICY,
    QUICK,
    Case,
    failed,
    shared_browsers,
    using,
)
from tests.support.fetching import GUARDED, FakeResolver
from tests.support.servers.proxies import Field, TestProxy
from tests.support.shops.js_shop import Echo, Heard, JsShop
from tests.support.shops.odd_shop import (
    Answer,
    bomb,
    drip,
    endless,
    garbage,
    redirect,
    reset,
    reset_in_body,
)

Shared = Callable[[Case], Any]
# A page that writes its title last.
TITLED = Rendering(wait_for="title:not(:empty)")


@pytest.fixture(scope="module")
def shop(installed_chromium: str) -> Iterator[JsShop]:
    with JsShop() as found:
        found.open()
        yield found


@pytest.fixture(scope="module")
def shared(installed_chromium: str) -> Iterator[Shared]:
    with shared_browsers() as found:
        yield found


@pytest.mark.parametrize(("path", "rendering"), [
    ("/all", {"click": "button.more"}), ("/endless", {"scroll": 30}),
    ("/all", {"script": "while (!document.querySelector('button.more').hidden) await load();"}),
])  # fmt: skip
def test_everything_that_a_listing_has_is_brought(
    shop: JsShop, path: str, rendering: dict[str, Any], shared: Shared
) -> None:
    page = shared(
        lambda b: b.fetch(shop.url(path), BROWSER_POLICY, Rendering.model_validate(rendering))
    )
    assert page.status == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.body.count(b'class="p"') == len(shop.truth)
    assert shop.asked_for("/picture.png") == []


def test_answers_are_captured_and_what_is_not_html_is_given_as_it_is(
    shop: JsShop, shared: Shared
) -> None:
    async def case(b: Browsers) -> None:
        page = await b.fetch(
            shop.url("/p/3"), BROWSER_POLICY, Rendering(responses={"api": "/api/product/"})
        )
        assert "Thing nº 3".encode() in page.body and b"3.90" in page.captured["api"][0]
        page = await b.fetch(shop.url("/api/product/3"), BROWSER_POLICY, QUICK)
        assert page.body.startswith(b"{") and page.headers["content-type"] == "application/json"
        page = await b.fetch(shop.url("/nothing"), BROWSER_POLICY, QUICK)
        assert page.status == 404 and b"no such page" in page.body
        shop.serve("/empty", Answer(b"", 404))
        page = await b.fetch(shop.url("/empty"), BROWSER_POLICY, QUICK)
        assert page.status == 404 and page.body == b""

    shared(case)


def test_every_hop_and_every_xhr_of_the_sites_waits_for_its_turn(
    shop: JsShop, shared: Shared
) -> None:
    hops: list[str] = []
    subs: list[str] = []

    async def before_hop(url: str) -> None:
        hops.append(url)

    async def before_sub(url: str) -> None:
        subs.append(url)

    async def refused(url: str) -> None:
        raise FetchError(Outcome.ROBOTS_DISALLOWED, "robots.txt says no", url=url)

    shop.serve("/r1", redirect("/r2"))
    shop.serve("/r2", redirect("/p/1"))
    shop.serve("/js", b"<script>location = '/p/2'</script>")
    shop.serve("/circle", redirect("/circle"))
    shop.serve("/again", b"<script>location.reload()</script>")
    shop.serve("/away", redirect("http://other.example/"))

    async def case(b: Browsers) -> None:
        permits = BrowserPermits(before_hop, before_sub)
        page = await b.fetch(shop.url("/r1"), BROWSER_POLICY, QUICK, permits=permits)
        assert (
            page.url == shop.url("/p/1")
            and page.redirects == 2
            and "Thing nº 1".encode() in page.body
        )
        assert hops == [shop.url("/r2"), shop.url("/p/1")] and subs == [shop.url("/api/product/1")]
        page = await b.fetch(
            shop.url("/js"),
            BROWSER_POLICY,
            Rendering(wait_for=".price:not(:empty)"),
            permits=permits,
        )
        assert page.url == shop.url("/p/2") and hops[2:] == [shop.url("/p/2")]
        for path in ("/circle", "/again"):
            assert (await failed(b.fetch(shop.url(path), BROWSER_POLICY, QUICK)))[
                0
            ] is Outcome.REDIRECT_LOOP
        own = replace(BROWSER_POLICY, allowed=lambda host: host.startswith("127.0.0.1"))
        assert (await failed(b.fetch(shop.url("/away"), own, QUICK)))[0] is Outcome.OFF_SITE
        asked = len(shop.asked_for("/r2"))
        outcome, _ = await failed(
            b.fetch(shop.url("/r1"), BROWSER_POLICY, QUICK, permits=BrowserPermits(refused))
        )
        assert outcome is Outcome.ROBOTS_DISALLOWED and len(shop.asked_for("/r2")) == asked, (
            "it was never sent"
        )

    shared(case)


@pytest.mark.parametrize("own_host", [False, True], ids=["guarded", "allow_private"])
def test_what_a_page_asks_of_the_inside_never_arrives(shop: JsShop, own_host: bool) -> None:
    """By address, by a name that leads there, by a name that is rebound, by frame, image, WebSocket
    and WebRTC; from a site that may have a private address itself, too."""
    policy = GUARDED
    if own_host:
        port_of_shop = urlsplit(shop.url("/")).port
        policy = replace(GUARDED, private=PrivateAccess(frozenset({("127.0.0.1", port_of_shop)})))
    inside = socket.create_server(("127.0.0.1", 0))
    came: list[Any] = []

    def accept() -> None:
        while True:
            try:
                came.append(inside.accept())
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(0.2)
    port, stun = inside.getsockname()[1], udp.getsockname()[1]
    places = [f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", f"rebound.example:{port}", "169.254.169.254",
              f"0x7f.1:{port}", f"127.1:{port}", f"[::ffff:127.0.0.1]:{port}"]  # fmt: skip
    evil = "<div id=out></div><script>" + "".join(
        f"fetch('http://{at}/x', {{mode: 'no-cors'}}).catch(() => 0); new Image().src = 'http://{at}/i';"
        f"try {{ new WebSocket('ws://{at}/w') }} catch (e) {{}}"
        f"document.body.append(Object.assign(document.createElement('iframe'), {{src: 'http://{at}/f'}}));"
        for at in places
    ) + (
        f"try {{ const rtc = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{stun}'}}]}});"
        "rtc.createDataChannel('x'); rtc.createOffer().then(o => rtc.setLocalDescription(o)); } catch (e) {}"
        "</script>"
    )  # fmt: skip

    # public at the first look, and then not
    resolver = FakeResolver(["93.184.216.34"], ["127.0.0.1"])

    async def case(b: Browsers) -> None:
        # each look-up is one of its own
        b._proxy._dns_ttl_s = 0.0
        if own_host:
            shop.serve("/evil", f"<body>{evil}</body>".encode())
            assert (await b.fetch(shop.url("/evil"), policy, Rendering(wait="2s"))).status == 200
        async with b.page(
            policy, Rendering(block=("font",)), permits=BrowserPermits(paid=False)
        ) as page:
            await page.set_content(f"<body>{evil}</body>")
            await asyncio.sleep(2)

    using(case, resolver=resolver)
    inside.close()
    assert came == [], "somebody inside was reached"
    with pytest.raises(TimeoutError):
        udp.recv(10)
    udp.close()
    assert "rebound.example" in resolver.asked


def test_the_loopback_proxy_serves_its_pages_alone(shop: JsShop, shared: Shared) -> None:
    async def case(b: Browsers) -> None:
        address = await b._proxy.start()
        port = int(address.rpartition(":")[2])
        for login in ("", "Proxy-Authorization: Basic eDp5\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {shop.url('/all')} HTTP/1.1\r\n{login}\r\n".encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 407")
            writer.close()

    count = len(shop.requests)
    shared(case)
    assert len(shop.requests) == count


BOUNDS: list[tuple[Any, Outcome, str]] = [
    (lambda _: bomb(60_000_000), Outcome.TOO_LARGE, "unpack to more"),
    (endless, Outcome.TOO_LARGE, "larger than"),
    (b"<script>document.write('x'.repeat(3e6))</script>", Outcome.TOO_LARGE, "document is larger"),
    (b"<script>while (true) {}</script>", Outcome.TIMEOUT, "not complete"),
    (b"<script>for (;;) alert('again')</script>", Outcome.TIMEOUT, "not complete"),
    (drip, Outcome.TIMEOUT, "not complete"),
    (garbage, Outcome.MALFORMED, "HTTP"),
    (reset, Outcome.UNREACHABLE, "127.0.0.1"),
    (reset_in_body, Outcome.UNREACHABLE, "broke off"),
    (Answer(b"PK", kind="application/zip", headers=("Content-Disposition: attachment; filename=a.zip",)),
     Outcome.MALFORMED, "a download"),
]  # fmt: skip


def test_what_is_without_bounds_is_bounded(shop: JsShop, shared: Shared) -> None:
    urls = [shop.serve(f"/bad/{n}", page) for n, (page, _, _) in enumerate(BOUNDS)]

    async def case(b: Browsers) -> None:
        for url, (_, outcome, words) in zip(urls, BOUNDS, strict=True):
            within_s = 2 if outcome is Outcome.TIMEOUT else 30
            policy = replace(BROWSER_POLICY, page_timeout_s=within_s)
            found, text = await failed(b.fetch(url, policy, QUICK))
            assert found is outcome and words in text, (url, words, found, text)
            assert (await b.fetch(shop.url("/p/1"), BROWSER_POLICY, QUICK)).status == 200, (
                f"the next page is well after {url} ({words})"
            )

    shared(case)


def test_a_page_has_the_bytes_of_all_its_resources(shop: JsShop, shared: Shared) -> None:
    text = random.Random(1).randbytes(150_000).hex().encode()
    shop.serve("/large.js", b"/*" + text + b"*/")
    url = shop.serve("/with", b"<script src=/large.js></script><h1>one</h1>")
    page = shared(lambda b: b.fetch(url, BROWSER_POLICY, QUICK))
    assert len(page.body) < 1000 and page.wire_bytes is not None
    assert 300_000 < page.wire_bytes < 310_000


def test_dialogs_and_windows_do_not_stop_a_page(shop: JsShop, shared: Shared) -> None:
    shop.serve(
        "/talks",
        b"<script>alert(1); confirm(2); prompt(3); open('/p/1'); document.title = 'done'</script>",
    )
    count = len(shop.asked_for("/p/1"))
    page = shared(lambda b: b.fetch(shop.url("/talks"), BROWSER_POLICY, QUICK))
    assert b"<title>done</title>" in page.body
    assert len(shop.asked_for("/p/1")) == count, "a window's page is never asked for"


def test_windows_of_windows_end_with_their_page(shop: JsShop) -> None:
    """The next page of the same identity is alone in its context."""
    many = "function more(w, n) { for (let i = 0; i < 3 && n; i++) more(w.open('about:blank'), n - 1) }"
    shop.serve("/windows", f"<script>{many} more(window, 3)</script>".encode())
    hosts = frozenset({shop.url().removeprefix("http://")})

    async def case(b: Browsers) -> None:
        jane = AccountSession("shop", "jane", 1, AccountJar(secure_only=False), {}, hosts)
        for path in ("/windows", "/p/1"):
            await b.fetch(shop.url(path), BROWSER_POLICY, QUICK, visitor=jane)
            opened = [context.pages for r in b._processes.running for context in r.browser.contexts]
            assert not any(opened), opened

    using(case)


@pytest.mark.parametrize("maker", [
    "{}", "new Worker(URL.createObjectURL(new Blob(['const origin = \"' + origin + '\"; ' + `{}`])))",
])  # fmt: skip
def test_a_flood_of_requests_ends_its_page(shop: JsShop, maker: str, shared: Shared) -> None:
    # None is answered, and all are in flight, however quick the machine is.
    shop.serve("/held", drip)
    flood = "for (let n = 0; n < 1200; n++) fetch(origin + '/held#' + n, {cache: 'no-store'})"
    url = shop.serve("/flood", f"<script>{maker.format(flood)}</script><h1>a</h1>".encode())

    async def case(b: Browsers) -> None:
        policy = replace(BROWSER_POLICY, page_timeout_s=120)
        found, text = await failed(b.fetch(url, policy, Rendering(wait_for="h2", wait="100s")))
        assert found is Outcome.TOO_LARGE and "requests in flight" in text, (found, text)
        assert (await b.fetch(shop.url("/p/1"), BROWSER_POLICY, QUICK)).status == 200

    shared(case)


def test_a_page_has_no_shared_worker(shop: JsShop, shared: Shared) -> None:
    """Nothing would hold back its requests."""
    url = shop.serve("/shares", b"<script>document.title = typeof SharedWorker</script>")
    page = shared(lambda b: b.fetch(url, BROWSER_POLICY, QUICK))
    assert b"<title>undefined</title>" in page.body


def test_a_page_that_kept_its_renderer_busy_is_not_idle_at_once(
    shop: JsShop, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its script runs between the document's last byte and the end of loading, for longer than what
    counts as idle; its first request follows. Likewise after a click, which shows a spinner first."""
    for name in ("QUIET_S", "SETTLED_S"):
        monkeypatch.setattr(steps, name, 1.0)
    busy = "() => { for (const end = Date.now() + 1300; Date.now() < end;); }"
    later = "setTimeout(() => fetch('/api/product/3').then(() => document.title = 'brought'), 100)"
    script = f"addEventListener('DOMContentLoaded', {busy}); onload = () => {later}"
    shop.serve("/busy-first", f"<title></title><script>{script}</script>".encode())
    spinner = "document.body.append(document.createElement('i'))"
    page = f'''<title></title><button onclick="{spinner}; {later}">more</button>'''
    shop.serve("/spins", page.encode())

    async def case(b: Browsers) -> None:
        page = await b.fetch(shop.url("/busy-first"), BROWSER_POLICY, Rendering())
        assert b"<title>brought</title>" in page.body
        click = Rendering.model_validate({"click": {"css": "button", "max": 1}})
        page = await b.fetch(shop.url("/spins"), BROWSER_POLICY, click)
        assert b"<i></i>" in page.body and b"<title>brought</title>" in page.body

    shared(case)


def test_a_page_that_leaves_for_an_address_inside_is_not_a_page(
    shop: JsShop, shared: Shared
) -> None:
    """Not the browser's own page about it, with the status of the page before."""
    leave = b"<meta http-equiv=refresh content='0;url=http://169.254.169.254/latest/'>"
    shop.serve("/leaves", leave)

    async def case(b: Browsers) -> None:
        found, text = await failed(b.fetch(shop.url("/leaves"), BROWSER_POLICY, QUICK))
        assert found is Outcome.FORBIDDEN_ADDRESS and "169.254.169.254" in text, (found, text)

    shared(case)


def test_a_ready_page_for_code_of_ones_own_is_bounded_too(shop: JsShop, shared: Shared) -> None:
    url = shop.serve("/bomb", bomb(60_000_000))
    hops: list[str] = []

    async def before_hop(url: str) -> None:
        hops.append(url)

    async def too_much(b: Browsers) -> None:
        async with b.page(BROWSER_POLICY) as page:
            await page.goto(url)
            await page.wait_for_timeout(5000)

    async def case(b: Browsers) -> None:
        async with b.page(BROWSER_POLICY, permits=BrowserPermits(before_hop, paid=False)) as page:
            for number in (1, 2):
                await page.goto(shop.url(f"/p/{number}"))
                await page.wait_for_function("document.querySelector('h1').textContent")
                assert await page.inner_text("h1") == f"Thing nº {number}"
        assert hops == [shop.url("/p/1"), shop.url("/p/2")], "each navigation has its turn"
        with pytest.raises(FetchError, match="unpack to more"):
            await too_much(b)

    shared(case)


def test_a_page_whose_renderer_dies_is_free_at_first_and_charged_in_the_end(shop: JsShop) -> None:
    async def crashed(b: Browsers, url: str) -> None:
        async with b.slot(asyncio.get_running_loop().time() + 5, 7):
            work = asyncio.ensure_future(
                b.fetch(url, BROWSER_POLICY, Rendering(wait_for=".never"), page_id=7)
            )
            while not (
                visits := [
                    v for r in b._processes.running for v in r.open_pages if v.main is not None
                ]
            ):
                await asyncio.sleep(0.02)
            page = visits[0].tab
            session = await page.context.new_cdp_session(page)
            asyncio.ensure_future(session.send("Page.crash")).add_done_callback(
                lambda done: done.exception()
            )
            await work

    async def case(b: Browsers) -> None:
        for _ in range(2):
            with pytest.raises(DeferredError):
                await crashed(b, shop.url("/p/1"))
        outcome, text = await failed(crashed(b, shop.url("/p/1")))  # type: ignore[arg-type]
        assert outcome is Outcome.CRASHED and "renderer died" in text
        assert (await b.fetch(shop.url("/p/1"), BROWSER_POLICY, QUICK, page_id=7)).status == 200

    using(case)


def test_a_browser_that_is_killed_or_hangs_is_replaced_and_its_pages_are_not_charged(
    shop: JsShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = replace(BROWSER_POLICY, page_timeout_s=60)

    async def case(b: Browsers) -> None:
        for number in (signal.SIGKILL, signal.SIGSTOP):
            work = asyncio.ensure_future(
                b.fetch(shop.url("/p/1"), policy, Rendering(wait_for=".never", wait="60s"))
            )
            while not any(v.main is not None for r in b._processes.running for v in r.open_pages):
                await asyncio.sleep(0.02)
            # A healthy browser has the usual time to answer.
            with monkeypatch.context() as patch:
                patch.setattr(processes, "ANSWER_S", 2.0)
                os.kill(next(iter(b._processes.running)).root, number)
                with pytest.raises(DeferredError):
                    await work
            assert (await b.fetch(shop.url("/p/1"), BROWSER_POLICY, QUICK)).status == 200

    using(case)


def test_browsers_are_recycled_and_identities_keep_their_cookies(shop: JsShop) -> None:
    shop.serve(
        "/login",
        Answer(
            b"<script>document.cookie = 'js=1'</script>", headers=("Set-Cookie: who=me; Path=/",)
        ),
    )
    shop.serve("/who", b"<script>document.title = document.cookie</script>")

    async def case(b: Browsers) -> None:
        keeping = replace(BROWSER_POLICY, cookies="shop")
        roots = set()
        for at in range(4):
            await b.fetch(shop.url("/login"), keeping, QUICK)
            page = await b.fetch(shop.url("/who"), keeping, QUICK)
            assert b"who=me" in page.body and b"js=1" in page.body, at
            page = await b.fetch(shop.url("/who"), BROWSER_POLICY, QUICK)
            assert b"who=me" not in page.body, "without an identity each page is somebody new"
            roots |= {running.root for running in b._processes.running}
        assert len(roots) > 2, "restarted after so many pages"

    using(case, settings={"browser_restart_pages": 4, "browser_context_pages": 2})


@pytest.mark.usefixtures("installed_chromium")
def test_pages_of_an_identity_that_end_together_leave_one_context() -> None:
    async def case(b: Browsers) -> None:
        policy = replace(BROWSER_POLICY, cookies="shop")
        pages = [b.page(policy, QUICK) for _ in range(2)]
        for page in pages:
            await page.__aenter__()
        await asyncio.gather(*(page.__aexit__(None, None, None) for page in pages))
        (running,) = b._processes.running
        assert len(running.browser.contexts) == len(b._proxy._users) == len(running.idle) == 1

    using(case)


@pytest.mark.usefixtures("installed_chromium")
def test_a_start_that_is_cancelled_leaves_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(b: Browsers) -> None:
        launched: asyncio.Queue[Any] = asyncio.Queue()

        async def stall(browser: Any) -> None:
            launched.put_nowait(browser)
            await asyncio.Event().wait()

        monkeypatch.setattr(processes, "_read_browser", stall)
        start = asyncio.ensure_future(b._processes.get(stealth=False))
        browser = await launched.get()
        start.cancel()
        await asyncio.wait([start])
        await asyncio.gather(*b._processes._ending)
        assert start.cancelled() and not browser.is_connected()

    using(case)


@pytest.mark.usefixtures("installed_chromium")
def test_an_account_alone_has_its_cookies_and_headers(shared: Shared) -> None:
    with Echo(ports=2) as shop:
        jar = AccountJar(secure_only=False)
        jar.add_cookie("127.0.0.1", "session", "s3cret")
        jar.mark_saved()
        host = shop.url().removeprefix("http://")
        somebody = AccountSession("shop", "jane", 1, jar, {"X-Token": "t0ken"}, frozenset({host}))

        async def case(b: Browsers) -> None:
            page = await b.fetch(shop.url("/a"), BROWSER_POLICY, QUICK, visitor=somebody)
            assert b"cookie=[session=s3cret] token=[t0ken]" in page.body
            assert jar.changed and "seen" in jar.cookie_names(), (
                "what the page has set is the account's"
            )
            page = await b.fetch(shop.url("/b"), BROWSER_POLICY, QUICK)
            assert b"cookie=[] token=[]" in page.body
            page = await b.fetch(shop.url("/c", 1), BROWSER_POLICY, QUICK, visitor=somebody)
            assert b"token=[]" in page.body, "a host where it is not logged in"

        shared(case)


def test_an_identity_leaves_nothing_to_the_next_one(shop: JsShop, shared: Shared) -> None:
    """Cookies, storage, caches, databases, service workers: of the same host, in one browser."""
    stored = """
        document.cookie = 'who=me; path=/'; localStorage.who = sessionStorage.who = 'me';
        Promise.allSettled([
            caches.open('me'), new Promise(ended => { indexedDB.open('me').onsuccess = ended }),
            navigator.serviceWorker.register('/sw.js')
        ]).then(all => document.title = all.map(one => one.status))"""
    shown = """
        Promise.all([
            caches.keys(), indexedDB.databases(), navigator.serviceWorker.getRegistrations()
        ]).then(all => document.title = [
            document.cookie, localStorage.who, sessionStorage.who, ...all.map(list => list.length)
        ])"""
    shop.serve("/store", f"<script>{stored}</script>".encode())
    shop.serve("/show", f"<script>{shown}</script>".encode())
    shop.serve("/sw.js", Answer(b"1", kind="text/javascript"))
    hosts = frozenset({shop.url().removeprefix("http://")})

    async def case(b: Browsers) -> None:
        async def visit(path: str, name: str | None) -> str:
            account = AccountSession("shop", name, 1, jars[name], {}, hosts) if name else None
            page = await b.fetch(shop.url(path), BROWSER_POLICY, TITLED, visitor=account)
            return page.body.decode().partition("<title>")[2].partition("</title>")[0]

        jars = {name: AccountJar(secure_only=False) for name in ("jane", "joe")}
        assert await visit("/store", "jane") == "fulfilled,fulfilled,fulfilled"
        assert await visit("/show", "joe") == await visit("/show", None) == ",,,0,0,0"
        assert await visit("/show", "jane") == "who=me,me,,1,1,0"

    shared(case)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.usefixtures("installed_chromium")
def test_a_page_goes_through_its_own_proxy_and_no_other_way(scheme: str, shared: Shared) -> None:
    proxy = TestProxy(1, scheme)
    with Field(proxy, products=3) as field:
        route = ProxyRoute(_proxy(proxy), CookieJar())

        async def case(b: Browsers) -> None:
            page = await b.fetch(
                f"{field.url}/p/1", replace(BROWSER_POLICY, proxied=True), QUICK, route=route
            )
            assert b"Product /p/1" in page.body
            with pytest.raises(RuntimeError, match="has no proxy"):
                await b.fetch(f"{field.url}/p/1", replace(BROWSER_POLICY, proxied=True), QUICK)
            proxy.user = "wrong"
            outcome, text = await failed(
                b.fetch(
                    f"{field.url}/p/2", replace(BROWSER_POLICY, proxied=True), QUICK, route=route
                )
            )
            assert (
                outcome is Outcome.PROXY_FAILED and "login" in text and proxy.password not in text
            )

        shared(case)
        assert set(field.peers()) == {proxy.address}


def _proxy(proxy: TestProxy) -> Proxy:
    return Proxy(
        "p1", proxy.scheme, "127.0.0.1", proxy.port, f"{proxy.user}{proxy.number}", proxy.password
    )


def test_stealth_is_off_unless_asked_for(shop: JsShop, shared: Shared) -> None:
    shop.serve(
        "/me", b"<script>document.title = navigator.webdriver + ' ' + navigator.userAgent</script>"
    )

    async def case(b: Browsers) -> None:
        plain = await b.fetch(shop.url("/me"), BROWSER_POLICY, QUICK)
        assert b"true Mozilla/5.0 (compatible; testbot/1.0)" in plain.body
        hidden = await b.fetch(shop.url("/me"), BROWSER_POLICY, Rendering(wait="2s", stealth=True))
        assert b"false Mozilla/5.0 (X11" in hidden.body and b"Headless" not in hidden.body

    shared(case)


def test_a_function_of_the_sites_own_prepares_each_context(
    shop: JsShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.serve(
        "/me",
        b"<script>document.title = navigator.hardwareConcurrency + ' ' + window.mark</script>",
    )
    (tmp_path / "plugged.py").write_text(
        "async def setup(context):\n"
        "    await context.add_init_script(\"Object.defineProperty(Navigator.prototype, 'hardwareConcurrency', \"\n"
        "                                  \"{get: () => 77}); window.mark = 'plugged'\")\n"
        "async def broken(context):\n"
        "    raise LookupError('no such plug-in')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    allowed = {"settings": {"site_functions": "plugged"}}

    async def case(b: Browsers) -> None:
        plugged = await b.fetch(
            shop.url("/me"), BROWSER_POLICY, Rendering(wait="2s", setup="plugged:setup")
        )
        assert b"77 plugged" in plugged.body
        for name, told in (
            ("plugged:broken", "no such plug-in"),
            ("plugged:absent", "has no function 'absent'"),
            ("os:system", "'os' may not be imported"),
        ):
            with pytest.raises(FetchError, match=told) as failed:
                await b.fetch(shop.url("/me"), BROWSER_POLICY, Rendering(wait="2s", setup=name))
            assert failed.value.outcome is Outcome.FUNCTION_FAILED
        assert b"plugged" not in (await b.fetch(shop.url("/me"), BROWSER_POLICY, QUICK)).body

    using(case, **allowed)


@pytest.mark.usefixtures("installed_chromium")
def test_with_stealth_nothing_that_a_page_reads_contradicts_itself(shared: Shared) -> None:
    """What every browser has is there, though no script writes it: the document, its scripts and its
    frames see the same."""
    with Heard() as shop:
        shop.serve(
            "/me",
            b"""<body><script>(async () => {
            const frame = document.body.appendChild(document.createElement('iframe')).contentWindow;
            const getter = name => Object.getOwnPropertyDescriptor(Navigator.prototype, name).get.toString();
            const told = {
              webdriver: [navigator.webdriver, frame.navigator.webdriver], own: Object.getOwnPropertyNames(navigator),
              agent: [navigator.userAgent, frame.navigator.userAgent], platform: navigator.platform,
              brands: navigator.userAgentData.brands.map(one => one.brand), system: navigator.userAgentData.platform,
              languages: navigator.languages, locale: Intl.DateTimeFormat().resolvedOptions().locale,
              chrome: typeof chrome, plugins: navigator.plugins.length, asks: Notification.permission,
              may: (await navigator.permissions.query({name: 'notifications'})).state,
              getters: ['webdriver', 'platform', 'languages', 'plugins', 'userAgent'].map(getter) };
            await fetch('/xhr');
            document.title = JSON.stringify(told); })()</script>""",
        )

        async def case(b: Browsers) -> dict[str, Any]:
            page = await b.fetch(
                shop.url("/me"),
                replace(BROWSER_POLICY, region="de"),
                TITLED.model_copy(update={"stealth": True}),
            )
            found: dict[str, Any] = json.loads(
                unescape(page.body.decode().partition("<title>")[2].partition("</title>")[0])
            )
            return found

        told = shared(case)
        assert told["webdriver"] == [False, False] and told["own"] == []
        assert told["agent"][0] == told["agent"][1] and "Headless" not in "".join(
            [*told["agent"], *told["brands"]]
        )
        assert told["system"] in told["platform"] and told["system"] in told["agent"][0]
        assert told["languages"] == ["de-DE", "de", "en"] and told["locale"] == "de-DE"
        assert told["chrome"] == "object" and told["plugins"] > 0
        assert (told["asks"], told["may"]) == ("default", "prompt"), (
            "headless browsers of old had denied, and prompt"
        )
        assert all("[native code]" in text for text in told["getters"])
        heads = {head["path"]: head for head in shop.heads}
        for path in ("/me", "/xhr"):
            assert heads[path]["accept-language"] == "de-DE,de;q=0.9,en;q=0.8"
            assert (
                heads[path]["user-agent"] == told["agent"][0]
                and "Headless" not in heads[path]["sec-ch-ua"]
            )


def test_a_browser_shows_no_pages_of_its_own(shop: JsShop) -> None:
    """Its address bar would have two in each window, which cost more than the page. Playwright's list
    of features stays."""

    async def case(b: Browsers) -> None:
        async with b.page(BROWSER_POLICY) as page:
            await page.goto(shop.url("/p/1"))
            (running,) = b._processes.running
            listed = await running.session.send("Target.getTargets", {"filter": [{}]})
            urls = {target["url"] for target in listed["targetInfos"]}
            assert urls == {shop.url("/p/1")}
            kinds = [kind for kind, _ in await list_processes(running.session)]
            assert kinds.count("renderer") == 1, "none waits for a next page"
        words = psutil.Process(running.root).cmdline()
        (features,) = (word for word in words if word.startswith("--disable-features="))
        assert features.count(",") > 2 and features.endswith("WebUIOmniboxAimPopup")

    using(case)


def test_a_page_that_asks_too_much_of_a_slow_host_ends(shop: JsShop, shared: Shared) -> None:
    async def never(_: str) -> None:
        await asyncio.sleep(60)

    # The page itself has this long, too, until it makes the request.
    policy: FetchPolicy = replace(BROWSER_POLICY, page_timeout_s=10)
    outcome, text = shared(
        lambda b: failed(
            b.fetch(shop.url("/p/1"), policy, QUICK, permits=BrowserPermits(None, never))
        )
    )
    assert outcome is Outcome.TIMEOUT and "rate is too low" in text


def test_throttled_xhr_is_reported_and_rests_its_host(shop: JsShop, shared: Shared) -> None:
    shop.serve("/busy", b"<script>fetch('/api/busy')</script><h1>half</h1>")
    shop.serve("/api/busy", Answer(b"{}", 429, headers=("Retry-After: 7",)))

    async def case(b: Browsers) -> None:
        with pytest.raises(FetchError) as caught:
            await b.fetch(shop.url("/busy"), BROWSER_POLICY, QUICK)
        assert caught.value.outcome is Outcome.THROTTLED and caught.value.retry_after_s == 7

    shared(case)
