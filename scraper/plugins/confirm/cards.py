"""What the cards of listings say of prices in doubt: a second source, on another page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.infra.statements import sql

# Cards decide if they say something of this number of prices.
CARDS_LEAST = 3
# They confirm a change if this share of them shows the new prices.
AGREEING = 0.95

STORE = sa.text(sql("plugins/confirm/store_cards.sql"))

READ = sa.text("""
SELECT field, count(*) FILTER (WHERE card) AS new, count(*) FILTER (WHERE NOT card) AS old
  FROM held_values WHERE crawl_id = :id AND since_crawl_id = :id AND card IS NOT NULL
 GROUP BY field
""")


class DoubtingCrawl(NamedTuple):
    """What a worker keeps of a crawl that may request pages again. `prices` are its fields of that
    type."""

    crawl_id: int
    site_id: int
    prices: list[str]


class CardVotes(NamedTuple):
    """How many cards show a field's new prices, and how many still its stored ones."""

    new: int = 0
    old: int = 0

    @property
    def confirm(self) -> bool:
        return self.new >= CARDS_LEAST and self.new >= AGREEING * (self.new + self.old)

    @property
    def deny(self) -> bool:
        return self.old >= CARDS_LEAST and self.old > self.new


def store_cards(
    connection: sa.Connection, crawl: DoubtingCrawl, rows: Sequence[dict[str, Any]]
) -> None:
    values = {"crawl_id": crawl.crawl_id, "site_id": crawl.site_id, "fields": crawl.prices}
    connection.execute(STORE, values | {"rows": dumps(rows)})


def read_votes(connection: sa.Connection, crawl_id: int) -> dict[str, CardVotes]:
    """Returns what the cards that were read say, by field."""
    rows = connection.execute(READ, {"id": crawl_id})
    return {row.field: CardVotes(row.new, row.old) for row in rows}
