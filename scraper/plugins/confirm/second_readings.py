"""Second readings: before a crawl ends, it requests some pages again whose changes are in doubt.

An error that comes and goes (a route, a minute, an overloaded server) says something else the
second time; what someone at the shop has decided says the same. The pages are taken evenly from the
time of the crawl, once, and become due after a pause. A held value that a page gives twice in one
crawl is `confirmed`; a value that it gives no longer is forgotten, as after any reading.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import sqlalchemy as sa

from scraper.domain import Kind, Status
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.pages import PageChange
from scraper.infra.statements import sql
from scraper.plugins.confirm.shapes import REPEATED

# At most this number of pages, and this share of a crawl's product pages, are requested again; and
# more for a field that has too few among them.
PAGES_MAX, SHARE_MAX, FIELD_LEAST = 30, 0.1, 2
# This share of the pages are listings, if cards may say something.
LISTINGS_SHARE = 1 / 6

REQUEST = sa.text(sql("plugins/confirm/request_again.sql"))
SINGLE = sa.text(sql("plugins/confirm/single_prices.sql"))

ANSWERS = sa.text("""
SELECT a.key AS field, CAST(a.value AS int) AS asked,
       (SELECT count(*) FROM held_values h
         WHERE h.crawl_id = q.crawl_id AND h.field = a.key AND h.confirmed) AS repeated
  FROM crawl_quality q CROSS JOIN jsonb_each(q.asked) a WHERE q.crawl_id = :id
""")

# Pages that are requested again; others are only asked whether they still give a product.
REQUESTED = sa.text("""
SELECT DISTINCT p.page_id FROM products p JOIN held_values h ON h.product_id = p.id
 WHERE p.page_id = ANY (:pages) AND h.crawl_id = ANY (:crawls)
""")


@dataclass(frozen=True, slots=True)
class Answers:
    """How many values of each field were requested again, and how many of them came again."""

    by_field: Mapping[str, tuple[int, int]]

    def confirm(self, name: str) -> bool:
        asked, repeated = self.by_field.get(name, (0, 0))
        return asked > 0 and repeated >= REPEATED * asked

    def deny(self, name: str) -> bool:
        return name in self.by_field and not self.confirm(name)

    def describe(self, name: str) -> str:
        """Returns what to add to a reason; "" if nothing was requested again."""
        asked, repeated = self.by_field.get(name, (0, 0))
        return f"; requested again, {repeated} of {asked} were the same" if asked else ""


def read_answers(connection: sa.Connection, crawl_id: int) -> Answers:
    """Returns what a crawl's second readings have said so far."""
    rows = connection.execute(ANSWERS, {"id": crawl_id})
    return Answers({row.field: (row.asked, row.repeated) for row in rows})


def limit_pages(products: int) -> int:
    """Returns how many pages a crawl of these products requests again at most."""
    return min(PAGES_MAX, max(1, round(SHARE_MAX * products)))


def find_single(
    connection: sa.Connection, crawl: sa.Row[Any], prices: Collection[str]
) -> list[int]:
    """Returns pages with single prices that a judgement has marked and that may be right."""
    values = {"id": crawl.id, "prices": list(prices), "each": FIELD_LEAST}
    values["most"] = limit_pages(crawl.product_total)
    return list(connection.execute(SINGLE, values).scalars())


def request_again(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    fields: Collection[str],
    pages: Collection[int],
    *,
    cards: bool,
) -> int:
    """Takes pages with changes of these fields, and these pages, into the crawl again, and some
    listings for their `cards`. Returns how many."""
    most = limit_pages(crawl.product_total)
    listings = ceil(LISTINGS_SHARE * most) if cards else 0
    values = {"id": crawl.id, "fields": list(fields), "pages": list(pages), "each": FIELD_LEAST}
    values |= {"most": max(1, most - listings), "listings": listings}
    counts, again = CountsByCrawl(), connection.execute(REQUEST, values).all()
    for row in again:
        counts[crawl.id].uncount_settled(Kind(row.kind), row.status)
        counts[crawl.id].count_added(PageChange(crawl.id, Kind(row.kind), Status.DUE))
    add_counts(connection, counts)
    return len(again)


def requested_pages(
    connection: sa.Connection, crawls: Sequence[int], pages: Sequence[int]
) -> set[int]:
    """Returns which of these pages were requested again by one of these crawls."""
    if not crawls:
        return set()
    values = {"crawls": list(crawls), "pages": list(pages)}
    return set(connection.execute(REQUESTED, values).scalars())
