"""`dedup: bloom` in whole crawls, in one process: real PostgreSQL, Valkey and worker; the messages
are handed over here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import redis
import sqlalchemy as sa
from redis.backoff import NoBackoff
from redis.retry import Retry

from scraper.coordinator import plan
from scraper.domain import Kind, Message
from scraper.frontier import sites
from scraper.plugins.dedup import filters as dedup
from scraper.plugins.dedup import remembered_links as step
from scraper.plugins.dedup.bloom import PREFIX, FilterStore
from scraper.plugins.dedup.worker_part import finished_pages
from scraper.rules.urls import fingerprint
from scraper.settings import Settings
from scraper.sites import loader
from tests.support.aging import age_filters
from tests.support.broker import Broker
from tests.support.making import (
    OK,
    a_site,
    add,
    at_once,
    claimed,
    give_up,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    urls,
    with_product,
)
from tests.support.shops.odd_shop import OddShop, listing, product

DAY_S = 86_400.0
DEFINITION = """
name: shop
start: [{start}]
rate: unlimited
concurrency: 8
revisit: 7d
dedup: {dedup}
allow_private: true
listing: {{products: a.p}}
product:
  id: {{css: "body::attr(data-id)"}}
  fields: {{title: {{css: h1, required: true}}, price: {{css: .price, type: price}}}}
"""
COUNTS = (
    "SELECT status, discovery_total, discovery_done, product_total, product_done, ok, unchanged, gone, dead, products_new "
    "FROM crawls ORDER BY id DESC LIMIT 1"
)


class Crawling:
    """A shop of two listings, and its crawls."""

    def __init__(self, shop: OddShop, engine: sa.Engine, settings: Settings) -> None:
        self.shop, self.engine, self.settings = shop, engine, settings
        self.deliver: Callable[[Message], list[Message]] = lambda message: [message]
        self.broker = Broker(engine, settings, lambda message: self.deliver(message))
        self.define("bloom")

    def define(self, how: str) -> None:
        start = ", ".join([self.shop.url("/a"), self.shop.url("/b")])
        with self.engine.begin() as connection:
            text = DEFINITION.format(start=start, dedup=how)
            sites.store_definitions(connection, [loader.load_text(text, "shop.yaml")])

    def sell(self, *numbers: int, second: tuple[int, ...] = ()) -> None:
        self.shop.serve("/a", listing([f"/p/{number}" for number in numbers]))
        self.shop.serve("/b", listing([f"/p/{number}" for number in (*second, *numbers)]))
        for number in {*numbers, *second}:
            self.shop.serve(
                f"/p/{number}", product(str(number), f"thing {number}", f"{number}.99 €").encode()
            )

    def crawl(self, *, refetch: bool = False) -> list[int]:
        """Crawls and clears up; returns the products that were fetched, as often as they were."""
        self.shop.requests.clear()
        self.broker.send(plan.open_now(self.engine, "shop", refetch=refetch).messages)
        self.broker.run()
        step.clear(self.engine, self.settings)
        return self.fetched()

    def fetched(self) -> list[int]:
        return sorted(int(target[3:]) for target in self.shop.asked() if target.startswith("/p/"))

    def known(self) -> list[int]:
        return sorted(
            int(str(key)) for (key,) in rows(self.engine, "SELECT external_id FROM products")
        )


@pytest.fixture
def shop() -> Iterator[OddShop]:
    with OddShop() as found:
        yield found


@pytest.fixture
def crawling(shop: OddShop, engine: sa.Engine, environment: Settings) -> Iterator[Crawling]:
    found = Crawling(shop, engine, environment)
    yield found
    found.broker.close()


def frontier(engine: sa.Engine) -> dict[Any, Any]:
    return dict(rows(engine, "SELECT status, count(*) FROM pages GROUP BY status"))  # type: ignore[arg-type]


def test_finished_pages_leave_and_the_next_crawl_fetches_what_is_new(
    crawling: Crawling, engine: sa.Engine
) -> None:
    crawling.sell(*range(40), second=(40, 41))
    assert crawling.crawl() == list(range(42))
    assert rows(engine, COUNTS) == [("completed", 2, 2, 42, 42, 44, 0, 0, 0, 42)]
    assert frontier(engine) == {} and crawling.known() == list(range(42))

    crawling.sell(*range(43))
    assert crawling.crawl() == [42]
    assert rows(engine, COUNTS) == [("completed", 2, 2, 1, 1, 3, 0, 0, 0, 1)]
    assert frontier(engine) == {}
    assert rows(engine, "SELECT missed_crawls, delisted_at FROM products GROUP BY 1, 2") == [
        (0, None)
    ]
    judged = rows(engine, "SELECT suspect, products_listed FROM crawls ORDER BY id")
    assert [suspect for suspect, _ in judged] == [False, False]
    assert all(
        abs(listed - truth) <= 2 for (_, listed), truth in zip(judged, (42, 43), strict=True)
    ), "about"


def test_after_its_time_a_page_is_fetched_again_and_its_product_goes_on(
    crawling: Crawling, engine: sa.Engine
) -> None:
    crawling.sell(*range(10))
    crawling.crawl()
    age_filters(crawling.settings.valkey_url, 6.9 * DAY_S)
    assert crawling.crawl() == []
    age_filters(crawling.settings.valkey_url, 0.2 * DAY_S)
    crawling.shop.serve("/p/3", product("3", "dearer", "19.99 €").encode())
    assert crawling.crawl() == list(range(10))
    assert rows(engine, "SELECT external_id, version FROM products WHERE version > 1") == [("3", 2)]
    assert rows(engine, "SELECT count(*) FROM products") == [(10,)]


def test_an_emptied_redis_loses_no_page(crawling: Crawling, engine: sa.Engine) -> None:
    """Emptied at each message: everything is fetched, at worst more than once."""
    crawling.sell(*range(60), second=tuple(range(60, 90)))

    def emptied(message: Message) -> list[Message]:
        with redis.Redis.from_url(crawling.settings.valkey_url) as client:
            client.flushdb()
        return [message]

    crawling.deliver = emptied
    assert set(crawling.crawl()) == set(range(90))
    ((status, *_, done, total),) = rows(
        engine,
        "SELECT status, product_done + discovery_done, product_total + discovery_total FROM crawls",
    )
    assert status == "completed" and done == total
    assert crawling.known() == list(range(90)) and frontier(engine) == {}
    crawling.deliver = lambda message: [message]
    with redis.Redis.from_url(crawling.settings.valkey_url) as client:
        client.flushdb()
    assert crawling.crawl() == list(range(90)), "what is forgotten is fetched again"


def test_without_redis_pages_stay_rows_and_leave_later(
    crawling: Crawling, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter alone is away: no request is lost, none is made twice, and the crawl goes on."""
    crawling.sell(*range(20), second=(20,))
    with monkeypatch.context() as patch:
        away = redis.Redis(unix_socket_path="/nonexistent.sock", retry=Retry(NoBackoff(), 0))
        patch.setattr(step, "connect", lambda url: away)
        assert crawling.crawl() == list(range(21))
        assert frontier(engine) == {"ok": 23}
        assert rows(engine, "SELECT cleared_at FROM crawls") == [(None,)]
    step.clear(engine, crawling.settings)
    assert frontier(engine) == {} and rows(
        engine, "SELECT count(*) FROM crawls WHERE cleared_at IS NULL"
    ) == [(0,)]
    worker = crawling.broker.worker
    part = worker.services.parts["dedup"]
    part.links.close()
    part.links = step.RememberedLinks(crawling.settings)
    assert crawling.crawl() == []


def test_a_redis_that_refuses_keeps_pages_where_they_are(
    crawling: Crawling, engine: sa.Engine, tiny_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawling.sell(*range(5))
    monkeypatch.setattr(step, "connect", lambda url: redis.Redis.from_url(tiny_url))
    assert crawling.crawl() == list(range(5))
    assert frontier(engine) == {"ok": 7}
    crawling.broker.worker.services.parts["dedup"].links._away_until = 0
    assert crawling.crawl() == [], "their rows tell them apart"


def test_refetch_forgets_everything_first(crawling: Crawling, engine: sa.Engine) -> None:
    crawling.sell(*range(5))
    crawling.crawl()
    assert crawling.crawl(refetch=True) == list(range(5))
    assert crawling.crawl() == []
    with redis.Redis.from_url(crawling.settings.valkey_url) as client:
        filters = {key.split(b":")[3] for key in client.scan_iter(match=f"{PREFIX}*")}
    assert len(filters) == 1, "the old one is deleted"


def test_a_site_that_was_exact_takes_its_rows_along(crawling: Crawling, engine: sa.Engine) -> None:
    crawling.define("exact")
    crawling.sell(*range(6))
    assert crawling.crawl() == list(range(6)) and frontier(engine) == {"ok": 8}
    # three days ago, and four
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE pages SET fetched_at = fetched_at - interval '3 days' WHERE url LIKE '%/p/1'"
            )
        )
        connection.execute(
            sa.text(
                "UPDATE pages SET fetched_at = fetched_at - interval '4 days' WHERE url LIKE '%/p/2'"
            )
        )
        connection.execute(
            sa.text(
                "UPDATE pages SET fetched_at = fetched_at - interval '8 days' WHERE url LIKE '%/p/3'"
            )
        )
    crawling.define("bloom")
    assert crawling.crawl() == [3]
    assert [url for (url,) in rows(engine, "SELECT url FROM pages")] == [crawling.shop.url("/p/2")]
    assert crawling.crawl() == []
    crawling.define("exact")
    assert crawling.crawl() == [0, 1, 3, 4, 5], "and back: fetched once more"


def test_a_product_that_is_no_longer_listed_is_delisted_after_two_lives(
    crawling: Crawling, engine: sa.Engine
) -> None:
    crawling.sell(1, 2)
    crawling.crawl()
    crawling.sell(1)
    late = "UPDATE products SET fetched_at = fetched_at - interval '{}'"
    delisted = "SELECT external_id, missed_crawls FROM products WHERE missed_crawls > 0"
    with engine.begin() as connection:
        connection.execute(sa.text(late.format("8 days")))
    age_filters(crawling.settings.valkey_url, 8 * DAY_S)
    assert crawling.crawl() == [1] and rows(engine, delisted) == []
    with engine.begin() as connection:
        connection.execute(sa.text(late.format("7 days")))
    crawling.crawl()
    assert rows(engine, delisted) == [("2", 1)]
    crawling.crawl()
    assert rows(engine, "SELECT external_id FROM products WHERE delisted_at IS NOT NULL") == [
        ("2",)
    ]
    told = "SELECT p.external_id FROM changes c JOIN products p ON p.id = c.product_id WHERE c.event = 'delisted'"
    assert rows(engine, told) == [("2",)]
    crawling.sell(1, 2)
    assert crawling.crawl() == [2]
    assert rows(
        engine, "SELECT count(*) FROM products WHERE delisted_at IS NULL AND missed_crawls = 0"
    ) == [(2,)]


def test_a_product_that_a_rejected_crawl_delisted_is_delisted_once(
    crawling: Crawling, engine: sa.Engine
) -> None:
    crawling.sell(1, 2)
    crawling.crawl()
    crawling.sell(1)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE products SET fetched_at = fetched_at - interval '15 days', "
                "delisted_at = now() WHERE external_id = '2'"
            )
        )
    age_filters(crawling.settings.valkey_url, 8 * DAY_S)
    for missed in (1, 2):
        crawling.crawl()
        assert rows(engine, "SELECT missed_crawls FROM products WHERE delisted_at < now()") == [
            (missed,)
        ]
    assert rows(engine, "SELECT FROM changes WHERE event = 'delisted'") == []


def test_listings_that_name_far_fewer_products_make_a_crawl_suspect(
    crawling: Crawling, engine: sa.Engine
) -> None:
    """Though hardly anything is fetched in either: what the listings name is counted."""
    crawling.sell(*range(80))
    for _ in range(4):
        crawling.crawl()
    crawling.sell(1, 2)
    crawling.crawl()
    assert rows(engine, "SELECT suspect FROM crawls ORDER BY id") == [*[(False,)] * 4, (True,)]


def test_gone_and_dead_pages(crawling: Crawling, engine: sa.Engine) -> None:
    """Neither is remembered: a gone page is asked again by the next crawl, a dead one stays in the
    frontier."""
    from tests.support.shops.odd_shop import Answer

    crawling.sell(*range(4))
    crawling.shop.serve("/p/1", Answer(b"gone", 404))
    crawling.shop.serve("/p/2", Answer(b"no", 451))
    crawling.crawl()
    assert rows(engine, "SELECT status, url FROM pages") == [("dead", crawling.shop.url("/p/2"))]
    assert rows(engine, "SELECT ok, gone, dead, product_total, product_done FROM crawls") == [
        (4, 1, 1, 4, 4)
    ]
    assert crawling.crawl() == [1, 2]
    assert rows(engine, "SELECT status FROM crawls ORDER BY id") == [("completed",)] * 2, (
        "the others are known to be good"
    )


# The order of the steps, one by one.


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    return open_crawl(engine, a_site(dedup="bloom"))


@pytest.fixture
def filters(environment: Settings) -> Iterator[FilterStore]:
    client = step.connect(environment.valkey_url)
    yield FilterStore(client)
    client.close()


def a_filter(engine: sa.Engine, crawl: tuple[int, int]) -> Any:
    with engine.connect() as connection:
        return dedup.find_filter(connection, crawl[1], crawl[0], a_site(dedup="bloom"))


def filtered(one: Any, url: str | None = None) -> dict[str, step.FilterUse]:
    """What a worker keeps of a page of a crawl with that filter."""
    return {"dedup": step.FilterUse(one, fingerprint(url) if url is not None else None)}


def settle_all(engine: sa.Engine, crawl: tuple[int, int], pages: int = 100) -> list[Any]:
    """Good verdicts for what is due, committed. Returns what may leave the frontier."""
    one = a_filter(engine, crawl)
    finished = []
    for batch in lease_all(engine, "shop.example", pages):
        lease = claimed(engine, batch)
        assert lease is not None
        group = [
            settled(page.id, crawl, lease.id, extras=filtered(one, page.url))
            for page in lease.pages
        ]
        finished += finished_pages(store(engine, crawl, group))
    return finished


def test_a_crash_after_the_verdict_leaves_a_row_that_is_taken_out_later(
    engine: sa.Engine, environment: Settings, crawl: tuple[int, int], filters: FilterStore
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(30)])
    assert len(settle_all(engine, crawl)) == 30
    one = a_filter(engine, crawl)
    assert frontier(engine) == {"ok": 30} and filters.read_state(one).urls == 0
    end(engine, crawl)
    step.clear(engine, environment)
    assert frontier(engine) == {} and filters.read_state(one).urls == 30
    assert all(filters.lookup(one, [fingerprint(url) for url in urls(30)])[0])


def test_a_crash_before_the_verdict_is_committed_remembers_nothing(
    engine: sa.Engine, environment: Settings, crawl: tuple[int, int], filters: FilterStore
) -> None:
    """A worker that lost its lease has nothing to remember either."""
    add(engine, [new_page(crawl, url) for url in urls(3)])
    (batch,) = lease_all(engine, "shop.example")
    lease = claimed(engine, batch)
    assert lease is not None
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM leases"))
    one = a_filter(engine, crawl)
    group = [
        settled(page.id, crawl, lease.id, extras=filtered(one, page.url)) for page in lease.pages
    ]
    assert finished_pages(store(engine, crawl, group)) == []


def test_a_page_that_was_taken_up_again_stays(
    engine: sa.Engine, environment: Settings, crawl: tuple[int, int]
) -> None:
    """Remembered, and the worker dies; the next crawl has the page when the old worker's deletion
    comes late."""
    add(engine, [new_page(crawl, url) for url in urls(4)])
    finished = settle_all(engine, crawl)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE pages SET status = 'due' WHERE id <= :id"), {"id": finished[1].page_id}
        )
    worker = step.RememberedLinks(environment)
    worker.remember_pages(engine, finished)
    worker.close()
    assert frontier(engine) == {"due": 2}


def test_two_workers_and_two_coordinators_at_once(
    engine: sa.Engine, environment: Settings, crawl: tuple[int, int], filters: FilterStore
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(400)])
    halves = [settle_all(engine, crawl, 200), settle_all(engine, crawl, 200)]
    workers = [step.RememberedLinks(environment), step.RememberedLinks(environment)]
    at_once(
        [
            lambda worker=worker, half=half: worker.remember_pages(engine, half[:150])
            for worker, half in zip(workers, halves, strict=True)
        ]  # type: ignore[misc]
    )
    for worker in workers:
        worker.close()
    assert frontier(engine) == {"ok": 100}
    end(engine, crawl)
    at_once([lambda: step.clear(engine, environment)] * 2)
    assert frontier(engine) == {} and filters.read_state(a_filter(engine, crawl)).urls == 400
    assert rows(engine, "SELECT product_total, product_done, ok FROM crawls") == [(400, 400, 400)]


def test_links_that_are_remembered_are_left_out_and_others_kept(
    engine: sa.Engine, environment: Settings, crawl: tuple[int, int], filters: FilterStore
) -> None:
    one = a_filter(engine, crawl)
    old, new = urls(10)[:5], urls(10)[5:]
    filters.add(one, [fingerprint(url) for url in old])
    links = [new_page(crawl, url) for url in urls(10)]
    links.append(new_page(crawl, old[0] + "?list", Kind.LISTING))
    filters.add(one, [links[-1].fingerprint])
    worker = step.RememberedLinks(environment)
    page = settled(1, crawl, UUID(int=1), links=links, extras=filtered(one))
    (asked,) = worker.drop_remembered([page])
    assert [link.url for link in asked.links] == [*new, old[0] + "?list"], (
        "listings are read in every crawl"
    )
    exact = settled(1, crawl, UUID(int=1), links=links)
    assert worker.drop_remembered([exact]) == [exact]
    worker.close()


def test_dead_pages_stay_for_a_replay(
    engine: sa.Engine, environment: Settings, crawl: tuple[int, int]
) -> None:
    give_up(engine, crawl, urls(2))
    end(engine, crawl)
    step.clear(engine, environment)
    assert frontier(engine) == {"dead": 2}


def test_a_page_that_shares_an_id_takes_over_only_when_it_is_due(
    engine: sa.Engine, environment: Settings, crawl: tuple[int, int]
) -> None:
    """The page that a product is read from has left; another one has the same id."""
    one = a_filter(engine, crawl)

    def give(url: str, title: str) -> None:
        add(engine, [new_page(crawl, url)])
        (batch,) = lease_all(engine, "shop.example")
        lease = claimed(engine, batch)
        assert lease is not None
        page = with_product(
            settled(lease.pages[0].id, crawl, lease.id, OK), crawl, "7", {"title": title}
        )
        product = page.products[0]
        page = replace(
            page,
            products=[
                type(product)(
                    product.site_id,
                    "7",
                    product.page_id,
                    crawl[1],
                    url,
                    product.data,
                    product.content_hash,
                )
            ],
            extras=filtered(one, url),
        )
        worker = step.RememberedLinks(environment)
        worker.remember_pages(engine, finished_pages(store(engine, crawl, [page])))
        worker.close()

    first, second = urls(2)
    give(first, "A")
    assert frontier(engine) == {}
    read = """SELECT coalesce(h.value, p.data) ->> 'title', p.url
                FROM products p LEFT JOIN held_values h ON h.product_id = p.id"""
    give(second, "B")
    assert rows(engine, read) == [("A", first)]
    give(first, "A2")
    assert rows(engine, read) == [("A2", first)]
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE products SET fetched_at = now() - interval '2 days'"))
    give(second, "B")
    assert rows(engine, read) == [("B", second)]


def end(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE crawls SET status = 'completed', finished_at = now() WHERE id = :id"),
            {"id": crawl[1]},
        )
