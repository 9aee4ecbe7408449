"""The events of articles, for alerts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

import sqlalchemy as sa

from scraper.feed.market import MarketEvent, OfferKey, ShopOffer

# The lock of matching is held until its commit, so events become visible in the order of their ids.
READ = sa.text("""
SELECT id, at, article_id, crawl_id, CAST(before AS text) AS before, CAST(after AS text) AS after
  FROM article_events
 WHERE id > :after ORDER BY id LIMIT :most
""")
LAST = sa.text("SELECT coalesce(max(id), 0) FROM article_events")
RIVAL = sa.text("""
SELECT r.site, r.external_id AS id, r.url, r.title, r.price, r.currency, r.in_stock
  FROM offers o JOIN offers r USING (article_id)
 WHERE o.site = :site AND o.external_id = :id AND r.site <> o.site AND r.listed
   AND r.in_stock IS NOT FALSE AND r.price IS NOT NULL
   AND r.currency IS NOT DISTINCT FROM CAST(:currency AS text)
 ORDER BY r.price, r.site LIMIT 1
""")


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

    def find_rival(self, connection: sa.Connection, key: OfferKey) -> ShopOffer | None:
        values = dict(zip(("site", "id", "currency"), key, strict=True))
        row = connection.execute(RIVAL, values).mappings().one_or_none()
        return None if row is None else ShopOffer(**row)


def _read_offers(text: str) -> list[ShopOffer]:
    return [ShopOffer(**row) for row in json.loads(text, parse_float=Decimal, parse_int=Decimal)]


EVENTS = StoredEvents()
