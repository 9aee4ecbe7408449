"""The events of articles, for alerts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

import sqlalchemy as sa

from scraper.feed.market import MarketEvent, ShopOffer

# The lock of matching is held until its commit, so events become visible in the order of their ids.
READ = sa.text("""
SELECT id, at, article_id, crawl_id, CAST(before AS text) AS before, CAST(after AS text) AS after
  FROM article_events
 WHERE id > :after ORDER BY id LIMIT :most
""")
LAST = sa.text("SELECT coalesce(max(id), 0) FROM article_events")


class StoredEvents:
    """`MarketEvents` of the table `article_events`."""

    def read_events(
        self, connection: sa.Connection, after: int, most: int
    ) -> Sequence[MarketEvent]:
        return [
            MarketEvent(
                row.id,
                row.at,
                row.article_id,
                row.crawl_id,
                _read_offers(row.before),
                _read_offers(row.after),
            )
            for row in connection.execute(READ, {"after": after, "most": most})
        ]

    def last_event(self, connection: sa.Connection) -> int:
        return int(connection.execute(LAST).scalar_one())


def _read_offers(text: str) -> list[ShopOffer]:
    return [ShopOffer(**row) for row in json.loads(text, parse_float=Decimal, parse_int=Decimal)]


EVENTS = StoredEvents()
