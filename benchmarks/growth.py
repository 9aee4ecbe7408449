"""Does a page cost the same in a large frontier? And does one site that is crawled again and again
leave bloat?

    python -m benchmarks.growth                                      frontiers of 10,000, 1 M and 5 M pages: 10 minutes, 10 GB
    python -m benchmarks.growth --pages 10000,100000 --rounds 3      smaller, in a minute
    python -m benchmarks.growth --recrawls 10 --site 50000           the same site ten times over

On an embedded PostgreSQL and Valkey of its own, in the system's folder for temporary files
($TMPDIR), removed at the end. Pages are inserted in bulk, as a crawl in its first third leaves them
(see `benchmarks/frontiers.py`); from then on it is the crawler's own code that works on them (see
`benchmarks/steps.py`), by turns on each size, so that what else the machine does meets all of them.
Progress goes to stderr, the table to stdout.

First a fiftieth of each frontier is crawled unmeasured. Where a page's entry is in the unique index
its hash says, and who is the first to write to a block after a checkpoint writes the whole block
into the log: in a small frontier that is over after some hundred pages, in one of 5 M after
100,000, which are a few minutes of the quarter of an hour between two checkpoints.

PostgreSQL gets the `shared_buffers` that docs/explanation/capacity.md advises, a quarter of the memory, but no
more than 4 GB. With less than the unique index of `pages` takes, 54 bytes a page, a block has to be
read and another evicted for each page that is leased: `--buffers 160MB` shows what that costs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import explained, frontiers, growth_table, recrawls
from benchmarks.__main__ import say
from benchmarks.frontier_options import make_parser, parse_options, run_until_interrupted
from benchmarks.frontiers import PRIORITY, PRODUCTS_A_LISTING, Filled, url_of
from benchmarks.growth_table import Size
from benchmarks.rig import servers
from benchmarks.sizes import sizes_of, wal_bytes
from benchmarks.steps import Crawler, Meter, daily, new_page, new_product
from scraper.domain import Kind, LeasedPage
from scraper.frontier import pages as frontier
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.pages import NewPage, Room
from scraper.infra import logs, migrations
from scraper.infra.database import make_engine
from scraper.plugins.embedded import servers as embedded
from scraper.results.products import NewProduct
from scraper.settings import Settings

# of the smallest frontier's pages that all rounds together settle
SHARE = 0.5
SMALLEST = 10_000
ROUND_PAGES = 1000  # At most.
# One in this number of pages of each frontier is crawled before anything is measured.
WARM = 50
EMPTY_ROOM = 100_000_000


class Frontier:
    """One size: its database, its crawler, and what its sites have yet to be asked for."""

    def __init__(self, config: Settings, name: str, sizes: Sequence[int]) -> None:
        """`name`: of the database; `sizes`: the pages of each of its sites."""
        self.pages = sum(sizes)
        url = config.postgres_url.replace("/scraper?", f"/{name}?")
        _upgrade(url)
        self.crawler = Crawler(config, url)
        self.sites = frontiers.filled(self.crawler.engine, sizes)
        self.active = [site for site in self.sites if not site.whole]
        self._site_of = {site.crawl_id: site for site in self.sites}
        self._listings = {site.site_id: site.listings() for site in self.active}
        self._unreached = {site.site_id: site.unreached() for site in self.active}
        self._turn = 0
        self.wal = 0

    def round(self, pages: int) -> None:
        """This many pages are found, leased and settled: a listing and its products, of one site
        after the other."""
        began = wal_bytes(self.crawler.engine)
        self._discover(max(1, pages // (PRODUCTS_A_LISTING + 1)))
        self.crawler.crawl(self._answer, pages)
        self.wal += wal_bytes(self.crawler.engine) - began

    def warm(self, pages: int) -> None:
        """Crawls a part first, this many pages at a time: until statements are prepared, and most
        blocks of the indexes that every page writes to have been written since the checkpoint."""
        left = self.pages // WARM
        while left > 0:
            self.round(min(left, pages))
            left -= pages
        self.crawler.meter = Meter()
        self.wal = 0

    def finish(self, number: int) -> None:
        """Ends the crawl of one of the sites that have been read whole."""
        self.crawler.finish([site for site in self.sites if site.whole][number].crawl_id)

    def _discover(self, listings: int) -> None:
        found: list[NewPage] = []
        for _ in range(listings):
            site = self.active[self._turn % len(self.active)]
            self._turn += 1
            found.append(_page_of(site, Kind.LISTING, next(self._listings[site.site_id])))
        rooms = [
            Room(crawl_id, EMPTY_ROOM, EMPTY_ROOM) for crawl_id in {page.crawl_id for page in found}
        ]
        with self.crawler.timed("discover"), self.crawler.engine.begin() as connection:
            counts = CountsByCrawl()
            for change in frontier.add_pages(connection, found, rooms).pages:
                counts[change.crawl_id].count_added(change)
            add_counts(connection, counts)

    def _answer(self, page: LeasedPage) -> tuple[Sequence[NewPage], NewProduct | None]:
        site = self._site_of[page.crawl_id]
        if page.kind is Kind.PRODUCT:
            return (), new_product(site.site_id, page)
        numbers = self._unreached[site.site_id]
        return [
            _page_of(site, Kind.PRODUCT, number) for number in islice(numbers, PRODUCTS_A_LISTING)
        ], None


def _upgrade(url: str) -> None:
    """With connections of its own: the crawler's stays the same, since its CPU time is counted."""
    engine = make_engine(url, pool_size=1)
    try:
        migrations.upgrade(engine)
    finally:
        engine.dispose()


def _page_of(site: Filled, kind: Kind, number: int) -> NewPage:
    host = site.host(number)
    return new_page(site.site_id, site.crawl_id, kind, host, url_of(host, kind, number), PRIORITY)


def _database(config: Settings, pages: int, *, kept: bool) -> str:
    """The name of a database with a frontier of this size: filled now, or, where the folder is
    kept, a copy of the one that was filled first."""
    filled, copy = f"filled_{pages}", f"copy_{pages}"
    with psycopg.connect(plain(config.postgres_url), autocommit=True) as connection:
        query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)"
        if connection.execute(query, [filled]).fetchone() == (False,):
            say(f"{pages:,} pages: inserting")
            _fill(config, connection, pages, filled)
        if not kept:
            return filled
        say(f"{pages:,} pages: copying")
        connection.execute(f"DROP DATABASE IF EXISTS {copy} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {copy} TEMPLATE {filled} STRATEGY file_copy")
        return copy


def _fill(config: Settings, connection: psycopg.Connection[Any], pages: int, name: str) -> None:
    connection.execute("DROP DATABASE IF EXISTS filling WITH (FORCE)")
    connection.execute("CREATE DATABASE filling")
    engine = make_engine(config.postgres_url.replace("/scraper?", "/filling?"), pool_size=1)
    try:
        migrations.upgrade(engine)
        for site in frontiers.fill(engine, frontiers.even(pages)):
            if site % 10 == 0 and pages >= 100_000:
                say(f"{pages:,} pages: {site} of {frontiers.SITES} sites inserted")
    finally:
        engine.dispose()
    connection.execute(f"ALTER DATABASE filling RENAME TO {name}")


def with_buffers(config: Settings, buffers: str) -> None:
    """Starts PostgreSQL again with such `shared_buffers`."""
    with psycopg.connect(plain(config.postgres_url), autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET shared_buffers = '{buffers}'")
    embedded.down(config)
    embedded.up(config)


def measure(
    config: Settings, sizes: Sequence[int], rounds: int, plans: Path | None, *, kept: bool
) -> list[Size]:
    """Fills every frontier, then works on them in turn."""
    with ExitStack() as stack:
        places = []
        for pages in sizes:
            name = _database(config, pages, kept=kept)
            place = Frontier(config, name, frontiers.even(pages))
            stack.callback(place.crawler.close)
            places.append(place)
        inserted = {place.pages: sizes_of(place.crawler.engine) for place in places}
        each = min(ROUND_PAGES, int(min(sizes) * SHARE) // rounds)
        for place in places:
            place.warm(each)
            say(
                f"{place.pages:,} pages: crawled so far that its indexes have been written since the checkpoint"
            )
        for round_ in range(rounds):
            for turn in range(len(places)):
                places[(turn + round_) % len(places)].round(each)
            say(
                f"round {round_ + 1} of {rounds}: {each:,} pages of each, load {os.getloadavg()[0]:.1f}"
            )
        if plans:
            with explained.statements(places[-1].crawler.engine) as found:
                places[-1].round(each // 5)
                places[-1].finish(0)
            plans.write_text(explained.text(found))
            say(f"plans of {len(found)} statements at {places[-1].pages:,} pages: {plans}")
        # plans made, caches as warm as they get
        for place in places:
            place.finish(0)
            place.crawler.meter.walls.pop("finish")
        for number in range(1, frontiers.READ_WHOLE):
            for place in places:
                place.finish(number)
        return [
            Size(
                place.pages,
                place.pages // frontiers.SITES,
                place.crawler.meter,
                inserted[place.pages],
                place.wal,
            )
            for place in places
        ]


def plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://").replace("/scraper?", "/postgres?")


def _arguments() -> argparse.Namespace:
    parser = make_parser("python -m benchmarks.growth", __doc__, "10000,1000000,5000000", 5)
    parser.add_argument(
        "--recrawls", type=int, metavar="N", help="instead: one site, crawled so often"
    )
    parser.add_argument(
        "--site", type=int, default=50_000, metavar="N", help="with --recrawls: its pages"
    )
    parser.add_argument(
        "--conditional",
        action="store_true",
        help="with --recrawls: pages have validators, and answer 304 unless changed",
    )
    args = parse_options(parser, SMALLEST)
    if (args.recrawls or 1) < 1 or args.site < 100:
        parser.error("--recrawls is 1 or more, --site 100 or more")
    return args


def _run(args: argparse.Namespace) -> None:
    about: dict[str, Any] = {
        "machine": {
            "system": platform.platform(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        },
        "load_before": os.getloadavg()[0],
        "shared_buffers": args.buffers,
    }
    with servers(args.home) as config, daily():
        logs.configure(config)
        if args.recrawls:
            found = recrawls.measure(
                config, args.site, args.recrawls, say, conditional=args.conditional
            )
            print(recrawls.table(found))
            about["recrawls"] = recrawls.as_json(found)
        else:
            with_buffers(config, args.buffers)
            sizes = measure(
                config, args.sizes, args.rounds, args.explain, kept=args.home is not None
            )
            print(growth_table.table(sizes))
            about["sizes"] = [growth_table.as_json(size) for size in sizes]
    if args.json:
        args.json.write_text(
            json.dumps(about | {"load_after": os.getloadavg()[0]}, indent=2) + "\n"
        )


def main() -> None:
    args = _arguments()
    run_until_interrupted(lambda: _run(args))


if __name__ == "__main__":
    main()
