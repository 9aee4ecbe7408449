"""Crawls the sites, compares what is stored with what was ever true, and prints a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.results.products import parse_data
from scraper.settings import Settings
from scraper.sites.definition import Site
from tests.acceptance.lies.shop import Pages, Shop, pages_of
from tests.acceptance.lies.ways import Way
from tests.support.broker import Broker
from tests.support.shops.odd_shop import OddShop

GOOD_CRAWLS = 2
CRAWLS_AFTER = 3

PUBLISHED = sa.text("""
SELECT p.url, p.external_id, p.delisted_at IS NOT NULL AS delisted, CAST(p.data AS text) AS data,
       true AS newest
  FROM products p JOIN sites s ON s.id = p.site_id WHERE s.name = :site
UNION ALL
SELECT p.url, p.external_id, false, CAST(v.data AS text), false
  FROM product_versions v JOIN products p ON p.id = v.product_id JOIN sites s ON s.id = p.site_id
 WHERE s.name = :site
""")
DELISTED = sa.text("""
SELECT p.url FROM changes c JOIN products p ON p.id = c.product_id JOIN sites s ON s.id = c.site_id
 WHERE s.name = :site AND c.event = 'delisted'
""")
CRAWL = sa.text("""
SELECT status, suspect, note, reasons FROM crawls WHERE id = :id
""")


def plain(path: str) -> str:
    """Where a product was before its shop moved."""
    return path.removeprefix("/new")


@dataclass
class Result:
    """What came of one way. `late`: how many crawls more than it takes a true change came;
    None: it never did."""

    way: Way
    wrong: int = 0
    delisted: int = 0
    late: int | None = 0
    verdicts: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)


class LyingSite:
    """A site, the truth about it now and before."""

    def __init__(self, way: Way, server: OddShop, port: int, products: int, seed: str) -> None:
        self.way, self.server, self.port = way, server, port
        self.name = f"site-{port:02}"
        self.random = Random(f"{seed} {way.name}")
        self.shop = Shop.of(products, self.random)
        self.before: Pages = {}
        self.has_ids = True
        # By path: each value that was ever true, by field; and whether it was ever gone.
        self.true: dict[str, dict[str, list[object]]] = defaultdict(lambda: defaultdict(list))
        self.gone: set[str] = set()
        self.served: set[str] = set()

    def serve(self, *, lies: bool) -> None:
        honest = pages_of(self.shop)
        for path in self.true.keys() - {plain(path) for path in honest}:
            self.gone.add(path)
        for item in self.shop.items.values():
            truth = item.truth
            for name in (
                "name",
                "price",
                "price_currency",
                "brand",
                "in_stock",
                "stock",
                "sku",
                "text",
            ):
                self.true[item.path][name].append(truth.get(name))
        pages = dict(honest)
        if lies and self.way.lie is not None:
            self.way.lie(self.shop, pages, self.before, self.random)
        for path in self.served - pages.keys():
            self.server.forget(path, self.port)
        for path, page in pages.items():
            self.server.serve(path, page, self.port)
        self.served = set(pages)
        self.before = self.before or honest

    @property
    def definition(self) -> Site:
        fields: dict[str, Any] = {
            "name": {"css": "h1", "required": True},
            "price": {"css": ".price", "type": "price"},
            "brand": ".brand",
            "in_stock": {"css": ".there", "type": "bool"},
            "stock": {"css": ".stock", "type": "int"},
            "sku": ".sku",
            "text": ".text",
        }
        return Site.model_validate(
            {
                "name": self.name,
                "start": self.server.url("/", self.port),
                "allow_private": True,
                "robots": False,
                "rate": "unlimited",
                "revisit": "0",
                "limits": {"attempts": 2},
                "listing": {"products": "a.p", "listings": "a.c", "next": "a.next"},
                "product": ({"id": ".sku"} if self.has_ids else {}) | {"fields": fields},
            }
        )

    def compare(self, connection: sa.Connection, result: Result) -> int:
        """Adds what is wrong to the result. Returns how many values and products are not what they
        are now."""
        result.wrong = result.delisted = behind = 0
        now = {item.path: item.truth for item in self.shop.items.values()}
        listed = set()
        for row in connection.execute(PUBLISHED, {"site": self.name}):
            path = plain(row.url.removeprefix(self.server.url("", self.port)))
            data, ever = parse_data(row.data), self.true[path]
            for name in ever.keys() | data.keys():
                if data.get(name) not in ever[name]:
                    result.wrong += 1
                    result.examples.append(f"{path} {name}: {data.get(name)!r}"[:90])
            if row.newest and not row.delisted:
                listed.add(path)
                truth = now.get(path, {})
                behind += path in now and any(
                    data.get(name) != truth.get(name) for name in data.keys() | truth.keys()
                )
        behind += len(now.keys() ^ listed)
        for row in connection.execute(DELISTED, {"site": self.name}):
            path = plain(row.url.removeprefix(self.server.url("", self.port)))
            result.delisted += path not in self.gone
        return behind


@contextmanager
def broker_of(engine: sa.Engine, settings: Settings) -> Iterator[Broker]:
    broker = Broker(engine, settings, lambda message: [message])
    try:
        yield broker
    finally:
        broker.worker.close()


def run(
    engine: sa.Engine,
    settings: Settings,
    ways: Sequence[Way],
    products: int,
    seed: str,
    good_crawls: int = GOOD_CRAWLS,
) -> list[Result]:
    """Crawls a site for each way: well, then wrongly, then well again. A site whose crawls are done
    is left alone while others' lies last longer."""
    results = [Result(way) for way in ways]
    with OddShop(ports=len(ways)) as server:
        every = [LyingSite(way, server, n, products, seed) for n, way in enumerate(ways)]
        for place in every:
            # The cards of every other shop show prices.
            place.shop.cards = Random(f"{seed} {place.name}").random() < 0.5
        longest = max(way.crawls for way in ways)
        for number in range(good_crawls + longest + CRAWLS_AFTER):
            at = number - good_crawls
            places = [place for place in every if at < place.way.crawls + CRAWLS_AFTER]
            theirs = [result for result in results if at < result.way.crawls + CRAWLS_AFTER]
            for place in places:
                if place.way.surprise is not None and at == 0:
                    place.way.surprise(place.shop, place.random)
                elif number > 0 and (at < 0 or (at == 0 and place.way.lie is not None)):
                    place.shop.night()
                place.serve(lies=0 <= at < place.way.crawls)
            _crawl(engine, settings, places, theirs, judged=at >= 0)
            with engine.connect() as connection:
                for place, result in zip(places, theirs, strict=True):
                    result.examples.clear()
                    behind = place.compare(connection, result)
                    _note_lateness(place.way, result, at, behind)
    return results


def _note_lateness(way: Way, result: Result, at: int, behind: int) -> None:
    """A product that is gone is missed twice before it is delisted, which is not late."""
    if way.surprise is None or at < 0:
        return
    if behind == 0:
        result.late = result.late if result.late is not None else max(0, at - way.delists)
    else:
        result.late = None


def _crawl(
    engine: sa.Engine,
    settings: Settings,
    places: Sequence[LyingSite],
    results: Sequence[Result],
    *,
    judged: bool,
) -> None:
    with broker_of(engine, settings) as broker:
        opened = []
        with engine.begin() as connection:
            sites.store_definitions(connection, [place.definition for place in places])
        for place in places:
            crawl = plan.open_now(engine, place.name, refetch=True)
            opened.append(crawl.crawl_id)
            broker.send(crawl.messages)
        broker.run(rounds=4000)
    with engine.connect() as connection:
        for crawl_id, result in zip(opened, results, strict=True):
            row = connection.execute(CRAWL, {"id": crawl_id}).one()
            if judged:
                result.verdicts.append(verdict(row))
            elif row.suspect:
                result.verdicts.append(f"FALSE ALARM {row.reasons}")


def verdict(row: Any) -> str:
    """As the exit code says it: 0, 4 or 5."""
    if row.suspect:
        return "5"
    return "0" if row.status == "completed" else "4"


def table(results: Sequence[Result]) -> str:
    """For people."""
    lines = [f"{'way':40} {'wrong':>6} {'delisted':>8} {'late':>5}  exit codes"]
    for result in results:
        late = (
            "" if result.way.surprise is None else "never" if result.late is None else result.late
        )
        lines.append(
            f"{result.way.name:40} {result.wrong:6} {result.delisted:8} {late!s:>5}  "
            f"{' '.join(result.verdicts)}"
        )
        if result.wrong or result.delisted:
            lines += [f"    {example}" for example in result.examples[:2]]
    wrong = sum(result.wrong for result in results)
    delisted = sum(result.delisted for result in results)
    lines.append(f"{'in all':40} {wrong:6} {delisted:8}")
    return "\n".join(lines)
