"""Blocked pages in whole crawls: which proxies and which workers asked for them is read from the
shop's own log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
import redis
import redis.asyncio as aredis
import sqlalchemy as sa

from scraper.domain import ProxySignal
from scraper.frontier import host_tiers
from scraper.frontier.host_tiers import TierKey, TierSignal
from scraper.proxies.health import ProxyHealth
from scraper.proxies.proxy_list import parse_list
from scraper.rules import escalation
from scraper.rules.escalation import HOST_PAGES, PAGE_TRIES
from tests.integration.conftest import Start
from tests.support.making import rows
from tests.support.servers.proxies import DIRECT, Field, TestProxy

STEPS = ("datacenter", "residential", "browser")
PAGES_AT_ONCE = 8  # the definition's concurrency


def two_classes() -> tuple[list[TestProxy], list[TestProxy]]:
    return [TestProxy(n) for n in range(1, 7)], [TestProxy(n) for n in (11, 12)]


def addresses(proxies: list[TestProxy]) -> set[str]:
    return {proxy.address for proxy in proxies}


def listed(field: Field, cheap: list[TestProxy], dear: list[TestProxy]) -> str:
    return field.lines("class=datacenter", cheap) + field.lines("class=residential", dear)


def routes(engine: sa.Engine) -> list[Any]:
    return rows(engine, "SELECT start, level, why FROM host_routes")


def complete(engine: sa.Engine, products: int) -> None:
    assert rows(engine, "SELECT status, dead, invalid FROM crawls ORDER BY id DESC LIMIT 1") == [
        ("completed", 0, 0)
    ]
    assert rows(engine, "SELECT count(*) FROM products") == [(products,)]
    assert rows(engine, "SELECT sum(host_attempts), max(attempts) FROM pages") == [(0, 1)], (
        "nobody is charged"
    )


def ban_by_status(field: Field, peers: set[str]) -> None:
    field.banned = peers


def ban_by_challenge(field: Field, peers: set[str]) -> None:
    field.challenged = peers


@pytest.mark.parametrize("ban", [ban_by_status, ban_by_challenge])
def test_a_host_that_bans_a_class_is_asked_through_the_next(
    start: Start, engine: sa.Engine, ban: Callable[[Field, set[str]], None]
) -> None:
    cheap, dear = two_classes()
    with Field(*cheap, *dear, products=60) as field:
        ban(field, addresses(cheap))
        start(field, listed(field, cheap, dear), "datacenter", "escalate: residential\n").run()
        complete(engine, 60)
        pages = [hit for hit in field.hits if "robots.txt" not in hit.target]
        wasted = [hit for hit in pages if hit.peer in addresses(cheap)]
        most = (HOST_PAGES + PAGES_AT_ONCE) * (PAGE_TRIES + 1)
        assert 0 < len(wasted) <= most, "three pages by three proxies each, and what was under way"
        assert set() < {hit.peer for hit in pages} - addresses(cheap) <= addresses(dear)
        assert DIRECT not in field.peers()
        ((start_level, level, why),) = routes(engine)
        assert (start_level, level) == ("datacenter", "residential")
        assert why in ("status-403", "cloudflare-page", "proxies-banned")


def test_where_all_that_would_do_are_banned_none_asks_and_the_reason_is_kept(
    start: Start, engine: sa.Engine, valkey_url: str
) -> None:
    cheap, dear = two_classes()
    with Field(*cheap, *dear, products=20) as field:
        text = listed(field, cheap, dear)
        asyncio.run(
            _ban(valkey_url, f"127.0.0.1:{field.port}", field.lines("class=datacenter", cheap))
        )
        start(field, text, "datacenter", "escalate: residential\n").run()
        complete(engine, 20)
        assert routes(engine) == [("datacenter", "residential", "proxies-banned")]
        assert not {hit.peer for hit in field.hits} & addresses(cheap)


async def _ban(valkey_url: str, host: str, text: str) -> None:
    async with aredis.Redis.from_url(valkey_url) as client:
        health = ProxyHealth(client)
        for proxy in parse_list(text, "list"):
            await health.strike(host, proxy.id, ProxySignal.BLOCKED.value, least_s=600)


def test_the_host_comes_down_again_by_probes(
    start: Start, engine: sa.Engine, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Banned in the first crawl, not any more in the second: one page after the other tries the
    cheap way first."""
    monkeypatch.setattr(escalation, "PROBE_NEXT_S", 0.0)
    cheap, dear = two_classes()
    with Field(*cheap, *dear, products=120) as field:
        field.banned = addresses(cheap)
        more = "escalate: residential\n"
        start(field, listed(field, cheap, dear), "datacenter", more).run()
        assert routes(engine)[0][1] == "residential"
        field.banned = set()
        field.hits.clear()
        # the proxies' own quarantines are over
        with redis.Redis.from_url(valkey_url) as client:
            client.flushdb()
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE host_routes SET probe_at = now()"))
        # a process looks with each batch, and when it prolongs its leases
        for _ in range(4):
            start(field, listed(field, cheap, dear), "datacenter", more).run()
            complete(engine, 120)
            if [level for _, level, _ in routes(engine)] in ([], ["datacenter"]):
                break
        else:
            pytest.fail(f"still at {routes(engine)}")
        by_class = [
            hit.peer in addresses(cheap) for hit in field.hits if hit.target.startswith("/p/")
        ]
        assert by_class.count(True) >= 3 and not by_class[0]


def test_a_probe_that_is_blocked_costs_its_page_nothing(start: Start, engine: sa.Engine) -> None:
    cheap, dear = two_classes()
    with Field(*cheap, *dear, products=40) as field:
        field.banned = addresses(cheap)
        more = "escalate: residential\n"
        start(field, listed(field, cheap, dear), "datacenter", more).run()
        field.hits.clear()
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE host_routes SET probe_at = now()"))
        start(field, listed(field, cheap, dear), "datacenter", more).run()
        complete(engine, 40)
        wasted = [hit for hit in field.hits if hit.peer in addresses(cheap)]
        assert len({hit.target for hit in wasted} - {"/robots.txt"}) <= 1, "one page is the probe"
        ((every_s, waits),) = rows(
            engine,
            "SELECT probe_every_s, probe_at > now() + interval '15 minutes' FROM host_routes",
        )
        assert every_s == 2 * escalation.PROBE_FIRST_S and waits


def test_one_page_that_is_forbidden_to_all_moves_no_other(start: Start, engine: sa.Engine) -> None:
    cheap, dear = two_classes()
    with Field(*cheap, *dear, products=40) as field:
        more = "escalate: residential\n"
        broker = start(field, listed(field, cheap, dear), "datacenter", more)
        field.forbidden = {"/p/3"}
        broker.run()
        assert rows(engine, "SELECT status, dead FROM crawls") == [("completed", 1)]
        assert rows(
            engine, "SELECT url LIKE '%/p/3', last_outcome FROM pages WHERE status = 'dead'"
        ) == [(True, "refused")]
        assert {hit.target for hit in field.hits if hit.peer in addresses(dear)} <= {
            "/p/3",
            "/robots.txt",
        }
        assert [level for _, level, _ in routes(engine)] in ([], ["datacenter"])


@pytest.mark.usefixtures("installed_chromium")
def test_without_proxies_a_blocked_page_goes_to_other_workers(
    start: Start, engine: sa.Engine
) -> None:
    """The shop cannot distinguish the workers of this test: it lets a page through at the sixth
    time."""
    with Field(products=12) as field:
        field.stubborn = {"/p/5": 5}
        broker = start(field, "", "none", "escalate: [residential, browser]\n")
        broker.run()
        complete(engine, 12)
        assert len([hit for hit in field.hits if hit.target == "/p/5"]) == 6
        assert rows(engine, "SELECT queue, level FROM pages WHERE url LIKE '%/p/5'") == [
            ("browser", "browser")
        ]
        assert rows(engine, "SELECT DISTINCT queue FROM pages WHERE url NOT LIKE '%/p/5'") == [
            ("datacenter",)
        ]


def test_without_another_way_it_is_dead_in_the_end(start: Start, engine: sa.Engine) -> None:
    with Field(products=6) as field:
        field.stubborn = {"/p/5": 100}
        start(field, "", "none").run()
        assert rows(
            engine, "SELECT last_outcome, host_attempts, error FROM pages WHERE status = 'dead'"
        ) == [("blocked", 4, "blocked (cloudflare-page): Cloudflare, known by its page")]
        assert len([hit for hit in field.hits if hit.target == "/p/5"]) == 5
        assert rows(engine, "SELECT count(*) FROM products") == [(5,)]


def test_what_lacks_what_it_used_to_have_is_looked_at_through_another_proxy(
    start: Start, engine: sa.Engine, valkey_url: str
) -> None:
    cheap, _ = two_classes()
    with Field(*cheap, products=30) as field:
        start(field, field.lines()).run()
        complete(engine, 30)
        before = rows(engine, "SELECT external_id, data FROM products ORDER BY 1")
        field.starves_first = True
        field.hits.clear()
        start(field, field.lines()).run()
        complete(engine, 30)
        assert rows(engine, "SELECT external_id, data FROM products ORDER BY 1") == before
        (starved_peer,) = field.starved
        starved = [
            hit.target
            for hit in field.hits
            if hit.peer == starved_peer and hit.target.startswith("/p/")
        ]
        again = [hit.target for hit in field.hits if hit.peer != starved_peer]
        assert starved and set(starved) <= set(again)


def test_a_redesign_is_not_a_block(start: Start, engine: sa.Engine) -> None:
    """Everybody gets the page without its title: a second look, and then it is what it is."""
    cheap, dear = two_classes()
    with Field(*cheap, *dear, products=10) as field:
        more = "escalate: residential\n"
        start(field, listed(field, cheap, dear), "datacenter", more).run()
        field.starved = addresses(cheap) | addresses(dear)
        start(field, listed(field, cheap, dear), "datacenter", more).run()
        assert rows(
            engine, "SELECT last_outcome, count(*) FROM pages WHERE kind = 'product' GROUP BY 1"
        ) == [("not_extracted", 10)]
        assert not {hit.peer for hit in field.hits} & addresses(dear), (
            "no suspicion takes a whole host up"
        )
        assert routes(engine) == []


def test_the_sites_own_marker(start: Start, engine: sa.Engine) -> None:
    cheap, dear = two_classes()
    with Field(*cheap, *dear, products=20) as field:
        field.starved = addresses(cheap)
        more = "escalate: residential\nblocked: Sorry, something is missing here\n"
        start(field, listed(field, cheap, dear), "datacenter", more).run()
        complete(engine, 20)
        assert [level for _, level, _ in routes(engine)] == ["residential"]


# --- the rows
# ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def key(engine: sa.Engine) -> TierKey:
    with engine.begin() as connection:
        site_id = connection.execute(
            sa.text(
                "INSERT INTO sites (name, definition, definition_hash) VALUES ('s', '{}', '') RETURNING id"
            )
        ).scalar_one()
    return TierKey(site_id, "shop.example", "datacenter")


def blocked(
    key: TierKey, page: int, level: str = "datacenter", *, probe: bool = False
) -> TierSignal:
    return TierSignal(key, STEPS, level, page, "status-403", probe)


def good(key: TierKey, level: str = "datacenter", *, probe: bool = False) -> TierSignal:
    return TierSignal(key, STEPS, level, 99, None, probe)


def tell(engine: sa.Engine, *news: TierSignal) -> None:
    with engine.begin() as connection:
        host_tiers.apply_signals(connection, news)


def test_a_host_that_serves_its_pages_has_no_row(engine: sa.Engine, key: TierKey) -> None:
    tell(engine, good(key), good(key))
    assert routes(engine) == []
    tell(engine, blocked(key, 1))
    assert rows(engine, "SELECT blocked_pages FROM host_routes") == [([1],)]
    tell(engine, good(key))
    assert routes(engine) == [], "and nothing is left of a block that was one page's"


def test_processes_at_once_lose_no_news(engine: sa.Engine, key: TierKey) -> None:
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda page: tell(engine, blocked(key, page)), (1, 2, 3)))
    assert routes(engine) == [("datacenter", "residential", "status-403")]


def test_one_process_alone_sends_a_probe(engine: sa.Engine, key: TierKey) -> None:
    tell(engine, *(blocked(key, page) for page in (1, 2, 3)))

    def begin(_: int) -> bool:
        with engine.begin() as connection:
            return host_tiers.begin_probe(connection, key, STEPS)

    assert not begin(0), "ten minutes from now"
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE host_routes SET probe_at = now()"))
    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(begin, range(4))) == [False, False, False, True]


def test_what_is_stored_is_what_was_meant(engine: sa.Engine, key: TierKey) -> None:
    tell(engine, *(blocked(key, page) for page in (1, 2, 3)), blocked(key, 4, "residential"))
    with engine.begin() as connection:
        found, now = host_tiers.read_routes(connection)
        route = found[key]
        assert (route.level, route.blocked_pages, route.probe_every_s) == (
            "residential",
            (4,),
            600.0,
        )
        assert route.probe_at is not None and 590 < route.probe_at - now <= 600
        assert abs(now - route.changed_at) < 30


def test_no_request_goes_directly(start: Start, engine: sa.Engine) -> None:
    """No proxy is left in either class: the pages wait."""
    cheap, dear = two_classes()
    with Field(*cheap, *dear, products=10) as field:
        field.banned = addresses(cheap) | addresses(dear)
        start(field, listed(field, cheap, dear), "datacenter", "escalate: residential\n").run(
            rounds=12
        )
        assert DIRECT not in field.peers()
        times = [hit.at for hit in field.hits]
        assert all(b >= a for a, b in pairwise(times))
        assert rows(engine, "SELECT count(*) FROM products") == [(0,)]
