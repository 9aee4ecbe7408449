"""Sites, crawls, pages and leases made by hand, for the tests of the stores."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from scraper.coordinator.finish import finish
from scraper.domain import Blame, Kind, Lease, Outcome, Status, Verdict, content_hash
from scraper.frontier import (
    crawls,
    leases,
    sites,
)
from scraper.frontier import (
    pages as frontier,
)
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.due import due_hosts, due_pages
from scraper.frontier.pages import NewPage, Room
from scraper.results.products import NewProduct
from scraper.results.transaction import (
    CrawlLimits,
    PageResult,
    StoredGroup,
    settle_pages,
)
from scraper.rules.urls import fingerprint, host_of
from scraper.sites.definition import Site

LIMITS = CrawlLimits(listings=1000, products=1000)
OK = Verdict(Status.OK, 0.0, True)
AGAIN = Verdict(Status.DUE, 30.0, True)


def a_site(name: str = "shop", **more: object) -> Site:
    return Site.model_validate(
        {
            "name": name,
            "start": f"https://{name}.example/",
            "listing": {"products": "a"},
            "product": {"fields": {"title": "h1"}},
            "revisit": "1d",
        }
        | more
    )


def open_crawl(engine: sa.Engine, site: Site, **more: bool) -> tuple[int, int]:
    """A running crawl of a site, with no page yet: (site id, crawl id)."""
    with engine.begin() as connection:
        sites.store_definitions(connection, [site])
        found = sites.find_site(connection, site.name)
        assert found is not None
        crawl_id = crawls.open_crawl(
            connection, found[0], site, slot=None, trigger="manual", **more
        )
        assert crawl_id is not None
        crawls.start_crawl(connection, crawl_id)
    return found[0], crawl_id


def new_page(
    crawl: tuple[int, int], url: str, kind: Kind = Kind.PRODUCT, **more: object
) -> NewPage:
    values = {"queue": "datacenter", "priority": 10, "depth": 1} | more
    return NewPage(crawl[0], crawl[1], fingerprint(url), url, kind, host_of(url), **values)  # type: ignore[arg-type]


def add(engine: sa.Engine, pages: list[NewPage], room: int = 1000) -> frontier.AddedPages:
    with engine.begin() as connection:
        rooms = [Room(crawl_id, room, room) for crawl_id in {page.crawl_id for page in pages}]
        added = frontier.add_pages(connection, pages, rooms)
        counts = CountsByCrawl()
        for change in added.pages:
            counts[change.crawl_id].count_added(change)
        add_counts(connection, counts)
    return added


def lease_all(
    engine: sa.Engine, host: str, pages: int = 100, lease_s: float = 60
) -> list[leases.LeasedBatch]:
    with engine.begin() as connection:
        return lease_some(connection, host, pages, lease_s)


def lease_some(
    connection: sa.Connection, host: str, pages: int = 100, lease_s: float = 60
) -> list[leases.LeasedBatch]:
    while not leases.try_lock_dispatch(connection):
        time.sleep(0.001)
    hosts = [one for one in due_hosts(connection) if (one.queue, one.host) == ("datacenter", host)]
    due = due_pages(connection, "datacenter", hosts, {host: pages}, crawls.hold_running(connection))
    return leases.lease_pages(
        connection, "datacenter", [[one for each in due.values() for one in each[host]]], lease_s
    )


def claimed(
    engine: sa.Engine, batch: leases.LeasedBatch | UUID, *, alone: bool = False
) -> Lease | None:
    with engine.begin() as connection:
        return leases.claim_lease(
            connection, batch if isinstance(batch, UUID) else batch.id, "test", 60, alone=alone
        )


def settled(
    page_id: int,
    crawl: tuple[int, int],
    lease_id: UUID,
    verdict: Verdict = OK,
    **effects: Any,
) -> PageResult:
    outcome = Outcome.FETCHED if verdict is OK else Outcome.TIMEOUT
    return PageResult(page_id, crawl[1], lease_id, outcome, verdict, 200, **effects)


def with_product(
    one: PageResult, crawl: tuple[int, int], external_id: str, data: dict[str, object]
) -> PageResult:
    hashed = content_hash(data)
    product = NewProduct(
        crawl[0], external_id, one.page_id, crawl[1], "https://shop.example/p", data, hashed
    )
    return replace(one, products=[product], content_hash=hashed)


def store(engine: sa.Engine, crawl: tuple[int, int], pages: list[PageResult]) -> StoredGroup:
    with engine.begin() as connection:
        return settle_pages(connection, pages, {crawl[1]: LIMITS})


GONE = Verdict(Status.GONE, 0.0, True)


def end(engine: sa.Engine, crawl: tuple[int, int], host: str = "shop.example") -> None:
    """Ends a crawl. The pages of products that it asks for before are gone."""
    if not finish(engine, crawl[1]):
        return
    for batch in lease_all(engine, host, 1000):
        lease = claimed(engine, batch)
        assert lease is not None
        store(engine, crawl, [settled(page.id, crawl, lease.id, GONE) for page in lease.pages])
    assert finish(engine, crawl[1]) == []


def give_up(
    engine: sa.Engine,
    crawl: tuple[int, int],
    found: list[str],
    outcome: Outcome = Outcome.REFUSED,
    kind: Kind = Kind.PRODUCT,
    *,
    error: str = "no",
    excerpt: str = "<h1>",
    head: dict[str, str] | None = None,
    depth: int = 1,
) -> None:
    """Adds pages of one host to a crawl and settles them as dead, or as invalid where the parser is
    to blame."""
    add(engine, [new_page(crawl, url, kind, depth=depth) for url in found], room=1_000_000)
    verdict = Verdict(Status.INVALID if outcome.blame is Blame.PARSER else Status.DEAD, 0.0, True)
    for batch in lease_all(engine, host_of(found[0]), len(found)):
        lease = claimed(engine, batch)
        assert lease is not None
        pages = [
            PageResult(
                page.id,
                crawl[1],
                lease.id,
                outcome,
                verdict,
                403,
                error,
                excerpt,
                head or {"a": "b"},
            )
            for page in lease.pages
        ]
        store(engine, crawl, pages)


def rows(engine: sa.Engine, query: str) -> list[tuple[object, ...]]:
    """Returns what a query finds. It may not write: nothing would be committed."""
    with engine.connect() as connection:
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        return [tuple(row) for row in connection.execute(sa.text(query))]


def standing(engine: sa.Engine) -> dict[object, object]:
    """How many pages there are of each status, those that are out on leases as `leased`."""
    query = """SELECT CASE WHEN l.lease_id IS NULL THEN p.status ELSE 'leased' END, count(*)
                 FROM pages p LEFT JOIN leased_pages l ON l.page_id = p.id GROUP BY 1"""
    return dict(rows(engine, query))  # type: ignore[arg-type]


def expire(engine: sa.Engine, lease_id: UUID) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE leases SET until = now() WHERE id = :id"), {"id": lease_id}
        )


def urls(count: int, host: str = "shop.example") -> list[str]:
    return [f"https://{host}/p/{number}" for number in range(count)]


def at_once(works: list[Callable[[], None]]) -> None:
    """Runs all at the same time, each on a connection of its own, and passes on what they raise."""
    barrier, errors = threading.Barrier(len(works)), []

    def run(work: Callable[[], None]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors


def keep(engine: sa.Engine, site: object, products: dict[str, dict[str, object]]) -> None:
    """Stores these products of one crawl, each on a page of its own."""
    crawl = open_crawl(engine, site)  # type: ignore[arg-type]
    add(
        engine,
        [new_page(crawl, f"https://shop.example/p/{number}") for number in range(len(products))],
        len(products),
    )
    (batch,) = lease_all(engine, "shop.example", len(products))
    lease = claimed(engine, batch)
    assert lease is not None
    pages = [
        with_product(settled(page.id, crawl, lease.id), crawl, external_id, data)
        for page, (external_id, data) in zip(lease.pages, products.items(), strict=True)
    ]
    store(engine, crawl, pages)
