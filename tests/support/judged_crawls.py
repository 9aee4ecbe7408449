"""Crawls of a small shop, page by page and by hand, and what is stored of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from scraper.coordinator.finish import finish
from scraper.domain import (
    Example,
    FieldObservations,
    Outcome,
    Status,
    Verdict,
    content_hash,
)
from scraper.feed import reader as feed
from scraper.quality import report
from scraper.results import products
from scraper.results.products import NewProduct
from scraper.results.transaction import PageResult
from scraper.sites.definition import Site
from tests.support import making
from tests.support.shops.crawled_shop import Shop

HOST = "shop.example"
FIELDS = ("name", "price", "list_price", "brand", "tag", "in_stock", "on_sale")
Data = dict[str, Any]


def shop(**more: object) -> Site:
    fields = {
        "name": {"css": "h1", "required": True},
        "price": {"css": ".p", "type": "price"},
        "brand": ".b",
        "tag": {"css": ".t", "floor": 0},
    }
    return making.a_site(start=f"https://{HOST}/", product={"fields": fields}, **more)


def good(number: int, **more: object) -> Data:
    """A product as it is: everything but a tag."""
    data = {
        "name": f"n{number}",
        "price": Decimal(f"{number}.90"),
        "price_currency": "EUR",
        "brand": f"b{number % 30}",
    }
    return data | more


def without(data: Data, *names: str) -> Data:
    return {key: value for key, value in data.items() if not key.startswith(names)}


class Crawl:
    """A crawl of products, page by page."""

    def __init__(self, engine: sa.Engine, site: Site, numbers: Sequence[int]) -> None:
        self.engine = engine
        self.ids = making.open_crawl(engine, site, refetch=True)
        self.id = self.ids[1]
        self.data: Callable[[int], Data | None] = good
        self.again: set[int] = set()
        self.urls = {f"https://{HOST}/p/{number}": number for number in numbers}
        if numbers:
            making.add(engine, [making.new_page(self.ids, url) for url in self.urls], room=100_000)

    def lease(self, pages: int = 1000) -> list[tuple[int, Any]]:
        """(the product's number, its leased page), of up to this many pages."""
        found = []
        for batch in making.lease_all(self.engine, HOST, pages):
            lease = making.claimed(self.engine, batch)
            assert lease is not None
            found += [(self.urls[page.url], (page, lease.id)) for page in lease.pages]
        return sorted(found, key=lambda one: one[0])

    def page(
        self, number: int, leased: Any, data: Data | None, mistyped: Sequence[str] = ()
    ) -> PageResult:
        """`data` None: the page lacks its required field."""
        page, lease_id = leased
        if data is None:
            verdict, outcome = Verdict(Status.INVALID, 0.0, True), Outcome.NOT_EXTRACTED
            settled = PageResult(
                page.id, self.id, lease_id, outcome, verdict, 200, "name: nothing matched css 'h1'"
            )
            return replace(settled, observations=FieldObservations(1, ("price", "brand")))
        found = tuple(name for name in FIELDS if name in data)
        missing = [name for name in ("name", "price", "brand") if name not in found]
        shown = f"<h1>n{number}</h1> <b class=cost>{number}.90</b>"
        examples = tuple(
            Example(name, page.url, f"nothing matched .{name}", shown) for name in missing
        )
        settled = PageResult(page.id, self.id, lease_id, Outcome.FETCHED, making.OK, 200)
        hashed = content_hash(data)
        product = NewProduct(self.ids[0], str(number), page.id, self.id, page.url, data, hashed)
        reading = FieldObservations(1, found, tuple(mistyped), examples)
        return replace(settled, products=[product], content_hash=hashed, observations=reading)

    def settle(
        self, data: Callable[[int], Data | None], pages: int = 1000, mistyped: Sequence[str] = ()
    ) -> None:
        """Leases this many pages and settles them in groups of ten."""
        self.data = data
        leased = self.lease(pages)
        assert not any(page.again for _, (page, _) in leased)
        for begin in range(0, len(leased), 10):
            group = [
                self.page(number, page, data(number), mistyped)
                for number, page in leased[begin : begin + 10]
            ]
            making.store(self.engine, self.ids, group)

    def end(self, again: Callable[[int], Data | None] | None = None) -> Crawl:
        """Ends the crawl. The pages that it requests again say `again`, by default the same; the
        pages of products that no listing named are gone."""
        if finish(self.engine, self.id):
            with self.engine.begin() as connection:
                connection.execute(sa.text("UPDATE pages SET not_before = now()"))
            again = again or self.data
            for batch in making.lease_all(self.engine, HOST, 1000):
                lease = making.claimed(self.engine, batch)
                assert lease is not None
                assert all(page.again for page in lease.pages)
                gone = [page for page in lease.pages if page.url not in self.urls]
                pages = [making.settled(page.id, self.ids, lease.id, making.GONE) for page in gone]
                for page in lease.pages:
                    number = self.urls.get(page.url)
                    if number is not None:
                        self.again.add(number)
                        pages.append(self.page(number, (page, lease.id), again(number)))
                making.store(self.engine, self.ids, pages)
            assert finish(self.engine, self.id) == []
        return self

    @property
    def row(self) -> Any:
        with self.engine.connect() as connection:
            return connection.execute(
                sa.text("SELECT * FROM crawls WHERE id = :id"), {"id": self.id}
            ).one()

    @property
    def fields(self) -> Mapping[str, report.FieldReport]:
        with self.engine.connect() as connection:
            return {one.field: one for one in report.read_fields(connection, self.id)}

    @property
    def why(self) -> set[tuple[str | None, str]]:
        return {(one["field"], one["what"]) for one in self.row.reasons or ()}


def crawled(
    engine: sa.Engine,
    site: Site,
    numbers: Sequence[int],
    data: Callable[[int], Data | None] = good,
    **more: Any,
) -> Crawl:
    crawl = Crawl(engine, site, numbers)
    crawl.settle(data, **more)
    return crawl.end()


def stored(engine: sa.Engine) -> dict[str, Data]:
    found = making.rows(engine, "SELECT external_id, CAST(data AS text) FROM products")
    return {str(external_id): products.parse_data(str(text)) for external_id, text in found}


def versions(engine: sa.Engine) -> int:
    return int(str(making.rows(engine, "SELECT count(*) FROM product_versions")[0][0]))


NUMBERS = range(60)


ALL = {str(number): good(number) for number in NUMBERS}


def price(number: int, factor: str) -> Data:
    return good(number, price=(good(number)["price"] * Decimal(factor)).quantize(Decimal("0.01")))


def held(engine: sa.Engine) -> list[tuple[object, ...]]:
    query = """SELECT p.external_id, h.field, h.reason FROM held_values h
                 JOIN products p ON p.id = h.product_id ORDER BY CAST(p.external_id AS int), 2"""
    return making.rows(engine, query)


def events(engine: sa.Engine) -> list[tuple[str, str, int]]:
    return [(one.event, one.id, one.version) for one in feed.read(engine, 0)]


PUT_ALL = "INSERT INTO changes (site_id, product_id, crawl_id, version, event) VALUES (1, {product}, 1, 1, 'new')"


def put(connection: sa.Connection, product: int) -> None:
    connection.execute(sa.text(PUT_ALL.format(product=product)))


def priced(shop: Shop, *prices: str, **more: object) -> None:
    for price in prices:
        shop.once(name="A", price=Decimal(price), price_currency="EUR", **more)
