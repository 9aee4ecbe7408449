"""Whole crawls through real proxies, some dead, some banned, some slow; what happened is read from
the shop's log."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from scraper.http.proxy_route import ProxyRoute
from scraper.proxies import health as store
from scraper.proxies.pool import ProxyPool
from tests.integration.conftest import Start
from tests.support.making import rows
from tests.support.servers.hostile_server import self_signed
from tests.support.servers.proxies import DIRECT, SECRET, Field, TestProxy


def outcomes(engine: sa.Engine) -> dict[str, Any]:
    return dict(rows(engine, "SELECT last_outcome, count(*) FROM pages GROUP BY 1"))  # type: ignore[arg-type]


def complete(engine: sa.Engine, products: int) -> None:
    assert rows(engine, "SELECT status, dead, invalid FROM crawls") == [("completed", 0, 0)]
    assert rows(engine, "SELECT count(*) FROM products") == [(products,)]
    assert rows(engine, "SELECT sum(host_attempts), max(attempts) FROM pages") == [(0, 1)], (
        "nobody is charged"
    )


def known(valkey_url: str) -> dict[str, dict[str, Any]]:
    with redis.Redis.from_url(valkey_url) as client:
        return store.read_all_stats(client)  # type: ignore[return-value]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_every_request_goes_through_a_proxy_and_datacenter_ones_rotate(
    start: Start, engine: sa.Engine, scheme: str
) -> None:
    proxies = [TestProxy(n, scheme) for n in range(1, 5)]
    with Field(*proxies, products=80) as field:
        start(field, field.lines()).run()
        complete(engine, 80)
        assert set(field.peers()) == {proxy.address for proxy in proxies}
        assert len(field.peers("/robots.txt")) == len(field.peers("/sitemap.xml")) == 1
        assert sum(field.peers("moved=1").values()) == 8, "redirects are followed"
        for hit in field.hits:
            # a redirect leaves by the same proxy
            if "moved=1" in hit.target:
                assert any(
                    h.peer == hit.peer
                    for h in field.hits
                    if h.target == hit.target.partition("?")[0]
                )
        assert min(field.peers("/p/").values()) > 5
        assert all("cookie" not in hit.headers for hit in field.hits if "moved" not in hit.target)
        assert all("compatible; scraper" in hit.headers["user-agent"] for hit in field.hits), (
            "honest unless the site says otherwise"
        )


def test_residential_proxies_stay_with_their_identity(start: Start, engine: sa.Engine) -> None:
    proxies = [TestProxy(n) for n in range(1, 5)]
    with Field(*proxies, products=60) as field:
        text = field.lines("class=residential region=de") + "http://unused:1 class=datacenter\n"
        more = "region: de\nuser_agent: browser\n"
        broker = start(field, text, "{pool: residential, requests: 20}", more)
        assert not rows(engine, "SELECT FROM pages WHERE queue <> 'datacenter.de'")
        broker.run()
        complete(engine, 60)
        pages = [
            hit for hit in field.hits if hit.target != "/robots.txt" and "moved" not in hit.target
        ]
        changes = sum(one.peer != two.peer for one, two in pairwise(pages))
        assert 3 <= len(pages) // 20 <= changes <= 12, (
            "a handful of changes, for pages under way overlap"
        )
        for proxy in proxies:
            mine = [hit for hit in pages if hit.peer == proxy.address]
            assert len({hit.headers["user-agent"] for hit in mine}) <= 1
            assert {hit.headers.get("cookie") for hit in mine} <= {None, f"visitor={proxy.address}"}
            assert len(mine) <= 8 or any("cookie" in hit.headers for hit in mine)
        assert DIRECT not in field.peers()


def test_what_a_crawl_took_is_counted_by_queue_region_and_class_of_proxies(
    start: Start, engine: sa.Engine
) -> None:
    """Failed tries too; sizes are of unpacked bodies, times of the last request."""
    with Field(TestProxy(1), TestProxy(2, mode="closed"), products=30) as field:
        text = field.lines("class=residential region=de")
        broker = start(field, text, "residential", "region: de\n")
        broker.run()
        complete(engine, 30)
        by = "SELECT DISTINCT worker, queue, proxy FROM throughput WHERE outcome = 'fetched'"
        assert rows(engine, by) == [(broker.worker.name, "datacenter.de", "residential")]
        ((tries, done, seconds, size),) = rows(
            engine,
            "SELECT sum(tries), sum(done), sum(seconds), sum(bytes) FROM throughput WHERE outcome = 'fetched'",
        )
        ((fetches, pages),) = rows(
            engine, "SELECT fetches, discovery_done + product_done FROM crawls"
        )
        assert tries == fetches and done == pages and 0 < seconds < 60 and size > 30 * 100  # type: ignore[operator]
        ((host,),) = rows(engine, "SELECT DISTINCT host FROM pages")
        assert rows(engine, "SELECT host, worker, tries FROM crawl_hosts") == [(host, "", tries)]


def test_dead_banned_and_hanging_proxies_cost_no_page_anything(
    start: Start,
    engine: sa.Engine,
    valkey_url: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each failing proxy is found out within a few requests, and rests from then on; every product
    is had."""
    *rules, quarantines = store._RULES
    _, *longer = str(quarantines).split(",")
    # No quarantine ends while a slow machine crawls.
    monkeypatch.setattr(store, "_RULES", (*rules, ",".join(["600000000", *longer])))
    caplog.set_level(logging.DEBUG)
    good, banned = [TestProxy(n) for n in (1, 2, 3)], [TestProxy(n, "socks5") for n in (4, 5)]
    dead, deaf = TestProxy(6, mode="closed"), TestProxy(7, mode="hang")
    broken, stranger = TestProxy(8, mode="502"), TestProxy(9, "socks5", mode="403")
    with Field(*good, *banned, dead, deaf, broken, stranger, products=150) as field:
        field.banned = {proxy.address for proxy in banned}
        start(field, field.lines(), timeout_s=2).run()
        complete(engine, 150)
        peers = field.peers()
        assert DIRECT not in peers
        assert all(peers[proxy.address] <= 10 for proxy in banned), peers
        assert deaf.connections <= 25 and len(broken.asked) <= 25 and len(stranger.asked) <= 10
        assert min(peers[proxy.address] for proxy in good) > 20
    found = known(valkey_url)
    host = next(name for name in found if name != store.EVERYWHERE)
    whys = sorted(one.why for one in found[host].values() if one.free_at > 0)
    assert whys.count("blocked") == 2 and "denied" in whys
    assert [one.why for one in found[store.EVERYWHERE].values() if one.free_at > 0] == ["unusable"]
    dump = rows(engine, "SELECT t::text FROM pages t UNION ALL SELECT c::text FROM crawls c")
    with redis.Redis.from_url(valkey_url) as client:
        memory = [repr(key) + repr(client.dump(key)) for key in client.scan_iter()]
    for text in [caplog.text, *capsys.readouterr(), *map(str, dump), *memory]:
        assert SECRET not in text and "user4" not in text


def test_a_page_that_is_forbidden_to_all_is_refused_and_its_proxies_are_not_blamed(
    start: Start, engine: sa.Engine, valkey_url: str
) -> None:
    with Field(*(TestProxy(n) for n in range(1, 6)), products=40) as field:
        broker = start(field, field.lines())
        while not rows(engine, "SELECT FROM pages WHERE kind = 'product' AND url LIKE '%/p/30'"):
            broker.handle(broker.waiting.pop(0)) if broker.waiting else broker.tick()
        with engine.begin() as connection:
            connection.execute(
                sa.text(
                    "UPDATE pages SET url = replace(url, '/p/30', '/forbidden') WHERE url LIKE '%/p/30'"
                )
            )
        broker.run()
        assert outcomes(engine)["refused"] == 1
        assert rows(engine, "SELECT status, dead, ok FROM crawls") == [("completed", 1, 41)]
        assert all(one.free_at < 0 for at in known(valkey_url).values() for one in at.values())


def test_with_every_proxy_banned_the_pages_wait_and_say_why(
    start: Start, engine: sa.Engine
) -> None:
    """Nothing is given up, nothing is charged, nothing is asked directly; once the ban is over the
    crawl goes on."""
    proxies = [TestProxy(n) for n in range(1, 4)]
    with Field(*proxies, products=10) as field:
        field.banned = {proxy.address for proxy in proxies}
        broker = start(field, field.lines())
        with pytest.raises(pytest.fail.Exception, match="does not end"):
            broker.run(rounds=12)
        assert set(outcomes(engine)) == {"no_proxy"}
        ((error,),) = rows(engine, "SELECT DISTINCT error FROM pages")
        assert "all 3 are in quarantine (3 blocked)" in str(error)
        assert rows(engine, "SELECT sum(attempts), sum(host_attempts) FROM pages") == [(0, 0)]
        assert rows(engine, "SELECT fetches, status FROM crawls") == [(0, "running")]
        assert DIRECT not in field.peers() and sum(field.peers().values()) < 40
        field.banned = set()
        with redis.Redis.from_url(broker.settings.valkey_url) as client:
            # the quarantine's end, without waiting for it
            client.delete(*client.scan_iter(match="scraper:proxies:*"))
        broker.worker._loop.call_soon_threadsafe(broker.worker.services.proxies._hosts.clear)
        broker.run()
        complete(engine, 10)


@pytest.mark.parametrize("text", ["", "http://10.0.0.1:1 class=residential\n"])
def test_without_a_proxy_of_its_pool_nothing_is_asked_at_all(
    start: Start, engine: sa.Engine, text: str
) -> None:
    with Field() as field:
        with pytest.raises(pytest.fail.Exception, match="does not end"):
            start(field, text).run(rounds=5)
        assert outcomes(engine) == {"no_proxy": 2}
        assert rows(engine, "SELECT DISTINCT error FROM pages") == [
            ("no datacenter proxy is on the list",)
        ]
        assert field.hits == []


@pytest.mark.slow
def test_a_throttled_proxy_rests_with_its_host(
    start: Start, engine: sa.Engine, valkey_url: str
) -> None:
    proxies = [TestProxy(n) for n in (1, 2)]
    with Field(*proxies, products=20) as field:
        field.throttled = {proxies[0].address}
        start(field, field.lines()).run()
        assert rows(engine, "SELECT status, dead FROM crawls") == [("completed", 0)]
        assert field.peers()[proxies[0].address] <= 10
    assert {one.why for at in known(valkey_url).values() for one in at.values()} & {
        "throttled",
        "blocked",
    }


def test_kinds_may_go_different_ways(start: Start, engine: sa.Engine) -> None:
    one, two = TestProxy(1), TestProxy(2)
    with Field(one, two, products=10) as field:
        text = field.lines(proxies=[one]) + field.lines("class=residential", [two])
        definition = field.definition
        field.definition = lambda proxy, more="": definition(proxy, more).replace(  # type: ignore[method-assign]
            "listing: {", "listing: {proxy: residential, "
        )
        start(field, text).run()
        complete(engine, 10)
        assert set(field.peers("/p/")) == {one.address}
        assert {hit.peer for hit in field.hits if hit.target in ("/", "/sitemap.xml")} == {
            two.address
        }


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_host_that_is_down_is_not_its_proxies_fault(
    start: Start, engine: sa.Engine, valkey_url: str, scheme: str
) -> None:
    """All proxies say the same: the host's account is charged, the crawl ends, and no proxy
    rests for it."""
    proxies = [TestProxy(n, scheme) for n in range(1, 5)]
    with Field(*proxies) as field:
        definition = field.definition
        field.definition = lambda proxy, more="": definition(proxy, more).replace(  # type: ignore[method-assign]
            f":{field.port}/", ":1/"
        )
        start(field, field.lines()).run()
        assert rows(engine, "SELECT status, dead FROM crawls") == [("failed", 2)]
        assert rows(engine, "SELECT DISTINCT last_outcome, attempts, host_attempts FROM pages") == [
            ("unreachable", 0, 8)
        ]
    assert all(one.free_at < 0 for at in known(valkey_url).values() for one in at.values())


def test_a_site_through_tls_proxies_and_tunnels(
    start: Start, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    proxies = [
        TestProxy(n, scheme, tls=context)
        for n, scheme in enumerate(("http", "https", "socks5", "socks5h"), 1)
    ]
    with Field(*proxies, tls=context, products=60) as field:
        start(
            field,
            field.lines("class=residential"),
            "{pool: residential, requests: 3}",
            "user_agent: browser\n",
        ).run()
        complete(engine, 60)
        assert (
            set(field.peers()) <= {proxy.address for proxy in proxies} and len(field.peers()) >= 3
        )
        agents = {
            hit.peer: hit.headers
            for hit in field.hits
            if "moved" not in hit.target and hit.target != "/robots.txt"
        }
        assert all("sec-fetch-mode" in headers for headers in agents.values())
        assert all(
            line.startswith(("CONNECT", "SOCKS")) for proxy in proxies for line in proxy.asked
        )


def test_a_worker_that_loses_its_lease_asks_no_further_proxy(
    start: Start, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page whose first proxy failed belongs to another worker by then, which asks the others."""
    doubts = []

    def lost(pool: ProxyPool, route: ProxyRoute, host: str) -> None:
        doubts.append(tuple(brokers[0].worker.keeper.batches))
        for batch in brokers[0].worker.keeper.batches.values():
            batch.lost = True

    monkeypatch.setattr(ProxyPool, "record_doubt", lost)
    with Field(*(TestProxy(n, mode="502") for n in range(1, 5))) as field:
        brokers = [start(field, field.lines())]
        with pytest.raises(pytest.fail.Exception, match="does not end"):
            brokers[0].run(rounds=3)
        assert (
            len(doubts) == len(set(doubts)) == sum(len(proxy.asked) for proxy in field.proxies) > 0
        )


def test_a_redirect_through_a_proxy_goes_on_while_its_worker_hands_back(
    start: Start, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Field(*(TestProxy(n) for n in range(1, 4)), products=40) as field:
        broker, answer = start(field, field.lines()), field._answer

        def handed_back(target: str, *others: Any) -> bytes:
            if target.endswith("7"):
                for batch in list(broker.worker.keeper.batches.values()):
                    batch.handed_back = True
            return answer(target, *others)

        monkeypatch.setattr(field, "_answer", handed_back)
        broker.run()
        complete(engine, 40)
        products = [hit.target for hit in field.hits if hit.target.startswith("/p/")]
        assert len(products) == len(set(products)) == 40 + 4, "nothing is asked twice"


def test_a_proxy_that_gives_one_product_for_all_is_found_out(
    start: Start, engine: sa.Engine
) -> None:
    proxies = [TestProxy(1), TestProxy(2), TestProxy(3), TestProxy(4, mode="twin")]
    with Field(*proxies, products=100) as field:
        start(field, field.lines()).run()
        # Nothing is wrong with the first of them.
        assert rows(engine, "SELECT count(DISTINCT data->>'title') FROM products") >= [(99,)]
        assert len(proxies[3].asked) < 20
