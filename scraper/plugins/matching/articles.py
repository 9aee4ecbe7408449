"""Reads articles: who sells a product, for how much, and for how much in the last days."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from scraper.errors import NotFoundError
from scraper.infra.statements import sql
from scraper.plugins.matching.identity.codes import normalize_mpn, parse_gtin
from scraper.plugins.matching.linking import store
from scraper.plugins.matching.linking.market import rank
from scraper.plugins.matching.linking.store import StoredOffer

LOWEST_DAYS = 30
AT_ONCE = 2000
# The columns of `Article.row`.
ROW_COLUMNS = (
    *("article", "title", "shops", "price", "currency", "at", "in_stock", "lowest_30_days"),
    *("spread_percent", "unit_price", "unit", "gtin", "url"),
)
ARTICLES = sa.text(sql("plugins/matching/articles.sql"))
LOWEST = sa.text(sql("plugins/matching/lowest_prices.sql"))
HISTORY = sa.text(sql("plugins/matching/article_history.sql"))


@dataclass(frozen=True, slots=True)
class Article:
    """One product over all shops. `offers`: the best first, those that are not listed last.
    `lowest`: the lowest price of the last 30 days in the currency of the best offer."""

    id: int
    offers: Sequence[StoredOffer]
    lowest: Decimal | None

    @property
    def best(self) -> StoredOffer | None:
        """The cheapest listed offer with a price that is not sold out, in the currency of most of
        them; None if there is none."""
        usable = [
            stored
            for stored in self.offers
            if stored.listed and (terms := stored.offer.terms).price is not None
            if terms.in_stock is not False
        ]
        usual = Counter(stored.offer.terms.currency for stored in usable)
        return min(usable, key=lambda o: (-usual[o.offer.terms.currency], rank(o)), default=None)

    @property
    def shops(self) -> int:
        return len({stored.offer.site for stored in self.offers if stored.listed})

    @property
    def spread(self) -> Decimal | None:
        """How many percent the highest listed price is above the lowest, in one currency."""
        best = self.best
        if best is None or not best.offer.terms.price:
            return None
        prices = [
            terms.price
            for stored in self.offers
            if stored.listed and (terms := stored.offer.terms).price is not None
            if terms.currency == best.offer.terms.currency
        ]
        return round((max(prices) / best.offer.terms.price - 1) * 100, 1)

    def row(self) -> dict[str, Any]:
        """Returns what commands and the tab show in one line."""
        best = self.best
        terms = None if best is None else best.offer.terms
        return {
            "article": self.id,
            "title": (best or self.offers[0]).offer.identity.title,
            "shops": self.shops,
            "price": None if terms is None else terms.price,
            "currency": None if terms is None else terms.currency,
            "at": None if best is None else best.offer.site,
            "in_stock": sum(
                stored.listed and stored.offer.terms.in_stock is not False for stored in self.offers
            ),
            "lowest_30_days": self.lowest,
            "spread_percent": self.spread,
            "unit_price": None if terms is None else terms.unit_price,
            "unit": None if terms is None else terms.unit,
            "gtin": next((code for o in self.offers if (code := o.offer.identity.gtin)), None),
            "url": None if best is None else best.url,
        }


def describe_offer(stored: StoredOffer) -> dict[str, Any]:
    """Returns one shop's offer as commands and the tab show it."""
    identity, terms = stored.offer.identity, stored.offer.terms
    return {
        "offer": stored.id,
        "site": stored.offer.site,
        "id": stored.external_id,
        "title": identity.title,
        "price": terms.price,
        "currency": terms.currency,
        "unit_price": terms.unit_price,
        "unit": terms.unit,
        "in_stock": terms.in_stock,
        "listed": stored.listed,
        "gtin": identity.gtin_key,
        "mpn": identity.mpn,
        "url": stored.url,
    }


def search_articles(
    connection: sa.Connection, query: str | None = None, *, shops: int = 1, limit: int = 20
) -> list[Article]:
    """Returns the articles whose titles have all words of a query, or whose code it is."""
    gtin = parse_gtin(query) if query else None
    code = gtin.article if gtin else normalize_mpn(query) if query else None
    patterns = [f"%{_escape_pattern(word)}%" for word in query.split()] if query else None
    return _read_articles(connection, patterns, code, None, shops, limit)


def read_article(connection: sa.Connection, id_: int) -> Article:
    """Returns an article. Raises `NotFoundError`."""
    matching = _read_articles(connection, None, None, [id_], 0, 1)
    if not matching:
        raise NotFoundError(f"article {id_} does not exist; `scraper articles` lists articles")
    return matching[0]


def _read_articles(
    connection: sa.Connection,
    patterns: list[str] | None,
    code: str | None,
    ids: list[int] | None,
    shops: int,
    limit: int,
) -> list[Article]:
    values = {"words": patterns, "code": code, "ids": ids, "shops": shops, "most": limit}
    rows = connection.execute(ARTICLES, values).all()
    lowest = _read_lowest(connection, list(dict.fromkeys(row.article_id for row in rows)))
    offers = map(store.stored_offer, rows)
    groups = [(id_, list(group)) for id_, group in groupby(offers, key=lambda o: o.article)]
    articles = []
    for id_, group in groups:
        article = Article(id_, group, None)
        currency = None if article.best is None else article.best.offer.terms.currency
        articles.append(Article(id_, group, lowest.get((id_, currency))))
    return articles


def _read_lowest(
    connection: sa.Connection, ids: list[int]
) -> dict[tuple[int, str | None], Decimal]:
    """Reads some articles at a time: all of a file's would exceed the statement's time."""
    lowest = {}
    for first in range(0, len(ids), AT_ONCE):
        values = {"ids": ids[first : first + AT_ONCE], "days": LOWEST_DAYS}
        for row in connection.execute(LOWEST, values):
            lowest[row.article_id, row.currency] = row.lowest
    return lowest


@dataclass(frozen=True, slots=True)
class PricePoint:
    """A price that a shop asked from a time on."""

    site: str
    id: str
    at: datetime
    price: Decimal
    currency: str | None


def read_history(connection: sa.Connection, article: int) -> list[PricePoint]:
    """Returns the prices of all shops of an article; a price that did not change is left out."""
    points: list[PricePoint] = []
    for row in connection.execute(HISTORY, {"id": article}):
        price = Decimal(row.price)
        point = PricePoint(row.site, row.external_id, row.at, price, row.currency)
        last = points[-1] if points else None
        if last is None or (last.site, last.id, last.price) != (point.site, point.id, point.price):
            points.append(point)
    return points


def shop_series(points: Iterable[PricePoint]) -> dict[str, list[tuple[datetime, Decimal]]]:
    """Returns one line of a chart per shop."""
    series: dict[str, list[tuple[datetime, Decimal]]] = {}
    for point in points:
        series.setdefault(point.site, []).append((point.at, point.price))
    return series


def _escape_pattern(word: str) -> str:
    return re.sub(r"([%_\\])", r"\\\1", word)
