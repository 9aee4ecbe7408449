"""Frontiers of any size, inserted in bulk: sites, crawls, pages and products as years of crawls
would have left them.

One in 25 of a site's pages is a listing, the others are products, on two hosts.
The present crawl goes through most sites in the order of their listings, as the crawls before did,
and has just begun. So of a hundred of their pages, in that order

    the first 10 are settled by the present crawl
    the next 20 have been found by it: listings are settled, products are due
    the last 70 wait for it to reach them: they are ok, unchanged, and some gone or dead, by the crawl before

The last few sites have been read whole by their present crawl: what is left to do is to end it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import md5
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import Kind
from scraper.frontier import crawls, sites
from scraper.rules.routing import page_priority
from scraper.sites.definition import Site

SITES = 50
READ_WHOLE = 5  # of them
PRODUCTS_A_LISTING = 24
# sites: one without a rate, the others with RATE
UNLIMITED_EVERY = 5
RATE = "10/s"
# due pages: one that failed when it was tried
TROUBLED_EVERY = 100
QUEUE = "datacenter"
PRIORITY = 5

# As `url_of` says it. Ids, rows and the times since which pages are due follow the order in which a
# crawl finds the pages; what one listing links to is found at one time. The last columns are what a
# page of its place holds: the crawl before has left one of a hundred products gone or dead.
PAGES = sa.text(f"""
INSERT INTO pages (id, site_id, crawl_id, fingerprint, url, kind, host, queue, priority, depth, status, attempts,
                   content_hash, last_outcome, http_status, error, discovered_at, fetched_at, settled_at, not_before)
OVERRIDING SYSTEM VALUE
SELECT :first_id + n, :site, CASE WHEN reached THEN CAST(:present AS bigint) ELSE :before END,
       CAST(md5(url) AS uuid), url, kind, host, '{QUEUE}', CASE WHEN kind = 'product' THEN :products ELSE :listings END,
       CASE WHEN kind = 'product' THEN 2 ELSE 1 END, status, CAST(status <> 'due' AS int),
       CASE WHEN kind = 'product' THEN CAST(md5(url) AS uuid) END,
       CASE status WHEN 'gone' THEN 'not_found' WHEN 'dead' THEN 'refused' ELSE 'fetched' END,
       CASE status WHEN 'gone' THEN 404 WHEN 'dead' THEN 403 ELSE 200 END,
       CASE WHEN status = 'dead' THEN 'the shop answered 403'
            WHEN status = 'due' AND n % {TROUBLED_EVERY} = 1 THEN 'no answer within 30 s' END,
       now() - interval '30 days', at, at, at
  FROM (SELECT n, kind, host, now() - interval '20 hours' + n / {PRODUCTS_A_LISTING + 1} * interval '25 milliseconds' AS at,
               format('https://%s/%s/%s', host, CASE WHEN kind = 'product' THEN 'p' ELSE 'l' END, n) AS url,
               :whole OR n < :reached AS reached,
               CASE WHEN kind <> 'product' THEN 'ok'
                    WHEN NOT :whole AND n >= :settled AND n < :reached THEN 'due'
                    WHEN n % 200 = 199 THEN 'gone' WHEN n % 200 = 99 THEN 'dead'
                    WHEN n % 4 < 2 THEN 'ok' ELSE 'unchanged' END AS status
          FROM (SELECT n, CASE WHEN n % {PRODUCTS_A_LISTING + 1} = 0 THEN 'listing' ELSE 'product' END AS kind,
                       :host || (n % 2) || '.example' AS host
                  FROM generate_series(0, :pages - 1) n) numbered) described
""")

PRODUCTS = sa.text("""
INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash, first_seen_at, changed_at,
                      fetched_at)
SELECT site_id, 'sku-' || id, id, crawl_id, url,
       jsonb_build_object('name', 'Pan no. ' || id, 'price', (id % 9999) / 100.0, 'brand', 'Brand ' || id % 40,
                          'sku', 'sku-' || id, 'stock', id % 50, 'available', id % 7 <> 0, 'category', 'Kitchen',
                          'description', repeat(md5(url) || ' ', 12)),
       CAST(md5(url) AS uuid), discovered_at, discovered_at, settled_at
  FROM pages WHERE site_id = :site AND kind = 'product' AND status <> 'dead' ORDER BY id
""")

COUNTERS = sa.text("""
UPDATE crawls c
   SET product_total = p.products, discovery_total = p.pages - p.products, product_done = p.products - p.due,
       discovery_done = p.pages - p.products, ok = p.ok, unchanged = p.unchanged, gone = p.gone, dead = p.dead
  FROM (SELECT count(*) AS pages, count(*) FILTER (WHERE kind = 'product') AS products,
               count(*) FILTER (WHERE status = 'due') AS due, count(*) FILTER (WHERE status = 'ok') AS ok,
               count(*) FILTER (WHERE status = 'unchanged') AS unchanged,
               count(*) FILTER (WHERE status = 'gone') AS gone, count(*) FILTER (WHERE status = 'dead') AS dead
          FROM pages WHERE site_id = :site AND crawl_id = :crawl) p
 WHERE c.id = :crawl
""")


def url_of(host: str, kind: Kind, number: int) -> str:
    return f"https://{host}/{'p' if kind is Kind.PRODUCT else 'l'}/{number}"


def fingerprint_of(url: str) -> UUID:
    """Not the crawler's own: PostgreSQL can make this one too, for millions of rows at once."""
    return UUID(bytes=md5(url.encode(), usedforsecurity=False).digest())


def settled(pages: int) -> int:
    """How many of a site's pages, the first ones, are settled by the present crawl."""
    return pages // 10


def reached(pages: int) -> int:
    """How many of a site's pages, the first ones, the present crawl has found."""
    return 3 * pages // 10


@dataclass(frozen=True)
class Filled:
    """One site of a frontier: its present crawl, and its pages, which are numbered from 0."""

    site_id: int
    name: str
    crawl_id: int
    pages: int
    whole: bool

    def host(self, number: int) -> str:
        return f"{self.name}-{number % 2}.example"

    def listings(self) -> Iterator[int]:
        """Numbers of the listings that its present crawl has yet to reach."""
        return (number for number in self._unreached() if number % (PRODUCTS_A_LISTING + 1) == 0)

    def unreached(self) -> Iterator[int]:
        """Numbers of the products that its present crawl has yet to reach, and that were good
        before."""
        return (n for n in self._unreached() if n % (PRODUCTS_A_LISTING + 1) != 0 and n % 100 != 99)

    def _unreached(self) -> range:
        return range(reached(self.pages), self.pages)


def site(name: str, rate: str) -> Site:
    return Site.model_validate({
        "name": name, "start": f"https://{name}-0.example/l/0", "rate": rate, "revisit": "0s",
        "schedule": "0 6 * * *", "listing": {"products": "a"}, "product": {"fields": {"name": "h1"}},
    })  # fmt: skip


def even(pages: int) -> list[int]:
    """The pages of each site, where all have the same number."""
    return [pages // SITES] * SITES


def fill(engine: sa.Engine, sizes: Sequence[int]) -> Iterator[int]:
    """Inserts the sites one after the other, each with its number of pages, then analyses. Yields
    how many sites are there."""
    for place, pages in enumerate(sizes):
        whole = place >= len(sizes) - READ_WHOLE
        _fill_site(engine, place, pages, first_id=sum(sizes[:place]) + 1, whole=whole)
        yield place + 1
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM (ANALYZE)"))
        connection.execute(sa.text("CHECKPOINT"))


def _fill_site(engine: sa.Engine, place: int, pages: int, *, first_id: int, whole: bool) -> None:
    definition = site(f"shop{place:03}", "unlimited" if place % UNLIMITED_EVERY == 0 else RATE)
    with engine.begin() as connection:
        # no look at each foreign key
        connection.execute(sa.text("SET LOCAL session_replication_role = replica"))
        sites.store_definitions(connection, [definition])
        found = sites.find_site(connection, definition.name)
        assert found is not None
        before, present = (
            _open(connection, found[0], definition, ended=ended) for ended in (True, False)
        )
        values = {
            "first_id": first_id,
            "site": found[0],
            "before": before,
            "present": present,
            "products": page_priority(PRIORITY, Kind.PRODUCT),
            "listings": page_priority(PRIORITY, Kind.LISTING),
            "host": f"{definition.name}-",
            "whole": whole,
            "settled": settled(pages),
            "reached": reached(pages),
            "pages": pages,
        }
        connection.execute(PAGES, values)
        connection.execute(PRODUCTS, {"site": found[0]})
        for crawl_id in (before, present):
            connection.execute(COUNTERS, {"site": found[0], "crawl": crawl_id})
        connection.execute(
            sa.text(
                "SELECT setval(pg_get_serial_sequence('pages', 'id'), (SELECT max(id) FROM pages))"
            )
        )


def filled(engine: sa.Engine, sizes: Sequence[int]) -> list[Filled]:
    """The sites that `fill` inserted, in its order."""
    query = "SELECT s.id, s.name, c.id AS crawl FROM sites s JOIN crawls c ON c.site_id = s.id AND c.status = 'running'"
    with engine.connect() as connection:
        rows = connection.execute(sa.text(query + " ORDER BY s.name")).all()
    whole = len(rows) - READ_WHOLE
    return [
        Filled(row.id, row.name, row.crawl, sizes[place], place >= whole)
        for place, row in enumerate(rows)
    ]


def _open(connection: sa.Connection, site_id: int, definition: Site, *, ended: bool) -> int:
    crawl_id = crawls.open_crawl(connection, site_id, definition, slot=None, trigger="manual")
    assert crawl_id is not None
    query = "UPDATE crawls SET status = 'completed', started_at = now(), finished_at = now() WHERE id = :id"
    if ended:
        connection.execute(sa.text(query), {"id": crawl_id})
    else:
        crawls.start_crawl(connection, crawl_id)
    return crawl_id
