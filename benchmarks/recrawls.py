"""One site, crawled again and again through the crawler's own steps: what its tables and indexes
grow to, what dies in them, and whether dispatch stays as fast. One product in ten changes each
time.

Crawls follow each other at once, so autovacuum looks for work every few seconds here, not every
minute: by what is dead it decides as ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from benchmarks.cost import cpu_s
from benchmarks.frontiers import PRIORITY, PRODUCTS_A_LISTING, site, url_of
from benchmarks.growth_table import quantile
from benchmarks.sizes import TableSize, index_sizes, sizes_of, wal_bytes
from benchmarks.steps import Crawler, Meter, new_page, new_product
from scraper.coordinator import discover, plan
from scraper.domain import Kind, LeasedPage
from scraper.frontier import sites
from scraper.frontier.pages import NewPage
from scraper.frontier.progress import read_progress
from scraper.infra import migrations
from scraper.plugins.embedded import servers
from scraper.results.products import NewProduct
from scraper.settings import Settings

NAPTIME_S = 5
NAME = "again"


@dataclass(frozen=True)
class Crawl:
    """One pass: milliseconds, microseconds of CPU a page, and the tables as it left them."""

    pages: int
    wall_s: float
    dispatch_ms: float
    dispatch_p95_ms: float
    settle_ms: float
    finish_ms: float
    backend_us: float
    postgres_us: float
    wal_bytes: float
    tables: dict[str, TableSize]
    indexes: dict[str, int]


def measure(
    config: Settings,
    pages: int,
    times: int,
    say: Callable[[str], None],
    *,
    conditional: bool = False,
) -> list[Crawl]:
    server = next(state.pid for state in servers.status(config) if state.name == "postgres")
    with psycopg.connect(
        config.postgres_url.replace("+psycopg", ""), autocommit=True
    ) as connection:
        connection.execute(f"ALTER SYSTEM SET autovacuum_naptime = {NAPTIME_S}")
        connection.execute("SELECT pg_reload_conf()")
    crawler = Crawler(config, config.postgres_url, conditional=conditional)
    try:
        migrations.upgrade(crawler.engine)
        definition = site(NAME, "unlimited")
        with crawler.engine.begin() as connection:
            sites.store_definitions(connection, [definition])
            found = sites.find_site(connection, NAME)
        assert found is not None
        said = []
        for number in range(times):
            said.append(_crawl(crawler, config, found[0], pages, server or 0))
            last = said[-1]
            say(f"crawl {number + 1} of {times}: {last.pages:,} pages in {last.wall_s:.0f} s, pages table "
                f"{last.tables['pages'].table_bytes / 1e6:.0f} MB and {last.tables['pages'].index_bytes / 1e6:.0f} MB of "
                f"indexes, {last.tables['pages'].dead:,} dead rows")  # fmt: skip
        return said
    finally:
        crawler.close()


def _crawl(crawler: Crawler, config: Settings, site_id: int, pages: int, server: int) -> Crawl:
    crawler.meter = meter = Meter()
    cpu, wal, began = cpu_s(server), wal_bytes(crawler.engine), time.monotonic()
    crawl_id = plan.open_now(crawler.engine, NAME).crawl_id
    discover.discover(crawler.engine, config, crawl_id)
    listings = max(1, pages // (PRODUCTS_A_LISTING + 1))

    def answer(page: LeasedPage) -> tuple[Sequence[NewPage], NewProduct | None]:
        if page.kind is Kind.PRODUCT:
            return (), new_product(site_id, page)
        number = int(page.url.rpartition("/")[2])
        first = number * PRODUCTS_A_LISTING
        found = [(Kind.PRODUCT, first + n) for n in range(PRODUCTS_A_LISTING)]
        # the start page names all others
        if page.depth == 0:
            found += [(Kind.LISTING, other) for other in range(1, listings)]
        host = f"{NAME}-0.example"
        return [
            new_page(site_id, crawl_id, kind, host, url_of(host, kind, n), PRIORITY)
            for kind, n in found
        ], None

    crawler.crawl(answer)
    crawler.finish(crawl_id)
    with crawler.engine.connect() as connection:
        (ended,) = read_progress(connection, crawl_id=crawl_id)
    if ended.status != "completed" or ended.done < pages - PRODUCTS_A_LISTING:
        raise RuntimeError(f"the crawl {ended.status} with {ended.done:,} pages: {ended.note}")
    wall_s = time.monotonic() - began
    return Crawl(
        pages=meter.pages,
        wall_s=wall_s,
        dispatch_ms=1e3 * quantile(meter.walls["dispatch"], 0.5),
        dispatch_p95_ms=1e3 * quantile(meter.walls["dispatch"], 0.95),
        settle_ms=1e3 * quantile(meter.walls["settle"], 0.5),
        finish_ms=1e3 * quantile(meter.walls["finish"], 0.5),
        backend_us=1e6 * sum(meter.postgres_s.values()) / meter.pages,
        postgres_us=1e6 * (cpu_s(server) - cpu) / meter.pages,
        wal_bytes=(wal_bytes(crawler.engine) - wal) / meter.pages,
        tables=sizes_of(crawler.engine),
        indexes=index_sizes(crawler.engine),
    )


HEAD = (
    f"{'':>5}{'wall':>6}{'dispatch, ms':>16}{'settle':>8}{'finish':>8}{'PostgreSQL':>11}{'WAL':>7}"
    f"{'pages, MB':>16}{'dead':>9}{'vacuums':>8}{'products, MB':>16}\n"
    f"{'crawl':>5}{'s':>6}{'median':>8}{'95 %':>8}{'ms':>8}{'ms':>8}{'us a page':>11}{'B/page':>7}"
    f"{'table':>8}{'indexes':>8}{'rows':>9}{'':>8}{'table':>8}{'indexes':>8}"
)


def table(found: Sequence[Crawl]) -> str:
    lines = [HEAD]
    for number, crawl in enumerate(found, 1):
        pages, products = crawl.tables["pages"], crawl.tables["products"]
        lines.append(
            f"{number:>5}{crawl.wall_s:>6.0f}{crawl.dispatch_ms:>8.1f}{crawl.dispatch_p95_ms:>8.1f}{crawl.settle_ms:>8.1f}"
            f"{crawl.finish_ms:>8.0f}{crawl.postgres_us:>11.0f}{crawl.wal_bytes:>7,.0f}"
            f"{pages.table_bytes / 1e6:>8.1f}{pages.index_bytes / 1e6:>8.1f}{pages.dead:>9,}{pages.vacuums:>8}"
            f"{products.table_bytes / 1e6:>8.1f}{products.index_bytes / 1e6:>8.1f}"
        )
    if len(found) > 2:
        second, last = found[1].tables, found[-1].tables
        said = ", ".join(
            f"{name} x{_bytes(last[name]) / _bytes(second[name]):.2f}"
            for name in ("pages", "products")
        )
        lines.append(f"From the second crawl to the last, tables with indexes: {said}.")
    return "\n".join(lines)


def _bytes(size: TableSize) -> int:
    return size.table_bytes + size.index_bytes


def as_json(found: Sequence[Crawl]) -> list[dict[str, Any]]:
    return [asdict(crawl) for crawl in found]
