"""Cards and sitemaps' dates in PostgreSQL, and the pages that they signal.

A card signals its page if it has changed since the last look at the page, and does not show the
price that is stored. It is compared with what it said before, not with the product alone: a shop
may list prices without tax. A date signals its page if a sitemap has moved it to a time after the
last look; a date without a time of day means the end of that day.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.plugins.freshness.rules.stored_plan import StoredPlan
from scraper.sites.definition import Site

# A card or date that no crawl has read for this long is forgotten.
FORGOTTEN_DAYS = 30
TABLES = ("page_cards", "page_dates")

# The same product may be on several listings of a group.
STORE_CARDS = sa.text("""
INSERT INTO page_cards AS c (site_id, fingerprint, prices, available, changed_at, quiet_until,
                             read_at)
SELECT DISTINCT ON (fingerprint) :site_id, fingerprint, prices, available, now(), now(), now()
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS r(fingerprint uuid, prices numeric[], available boolean)
 ORDER BY fingerprint
    ON CONFLICT (site_id, fingerprint) DO UPDATE
   SET prices = excluded.prices, available = coalesce(excluded.available, c.available),
       stock_changed = CASE WHEN excluded.prices = c.prices
                            THEN c.stock_changed OR excluded.available <> c.available
                            ELSE excluded.available <> c.available END IS TRUE,
       changed_at = CASE WHEN excluded.prices <> c.prices OR excluded.available <> c.available
                         THEN now() ELSE c.changed_at END,
       quiet_until = CASE WHEN excluded.prices <> c.prices OR excluded.available <> c.available
                          THEN c.read_at ELSE c.quiet_until END,
       read_at = now()
""")
# The first visits of a round are those that were signalled.
SIGNAL = sa.text("""
UPDATE page_visits v
   SET signalled = true, next_visit = CASE WHEN :moves THEN 'epoch' ELSE v.next_visit END
  FROM page_cards c JOIN pages p ON p.site_id = c.site_id AND p.fingerprint = c.fingerprint
 WHERE c.site_id = :site_id AND v.page_id = p.id AND NOT v.signalled
   AND c.changed_at > v.looked_at
   AND (c.stock_changed OR NOT EXISTS (
        SELECT FROM products pr
         WHERE pr.page_id = p.id AND pr.delisted_at IS NULL
           AND CASE WHEN jsonb_typeof(pr.data -> :price) = 'number'
                    THEN CAST(pr.data ->> :price AS numeric) = ANY (c.prices) END))
""")
# The same page may be in several sitemaps of a group.
STORE_DATES = sa.text("""
INSERT INTO page_dates AS d (site_id, fingerprint, lastmod, moved_at, quiet_until, read_at)
SELECT :site_id, fingerprint, max(lastmod), now(), now(), now()
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(fingerprint uuid, lastmod timestamptz)
 GROUP BY fingerprint ORDER BY fingerprint
    ON CONFLICT (site_id, fingerprint) DO UPDATE
   SET lastmod = excluded.lastmod,
       moved_at = CASE WHEN excluded.lastmod <> d.lastmod THEN now() ELSE d.moved_at END,
       quiet_until = CASE WHEN excluded.lastmod <> d.lastmod THEN d.read_at
                          ELSE d.quiet_until END,
       read_at = now()
""")
SIGNAL_DATES = sa.text("""
UPDATE page_visits v
   SET dated = true, next_visit = CASE WHEN :moves THEN 'epoch' ELSE v.next_visit END
  FROM page_dates d JOIN pages p ON p.site_id = d.site_id AND p.fingerprint = d.fingerprint
 WHERE d.site_id = :site_id AND v.page_id = p.id AND NOT v.dated AND d.moved_at > v.looked_at
   AND d.lastmod + CASE WHEN d.lastmod = date_trunc('day', d.lastmod, 'UTC')
                        THEN interval '1 day' ELSE interval '0' END > v.looked_at
""")


def store_cards(connection: sa.Connection, site_id: int, rows: Sequence[dict[str, Any]]) -> None:
    connection.execute(STORE_CARDS, {"site_id": site_id, "rows": dumps(rows)})


def store_dates(connection: sa.Connection, site_id: int, rows: Sequence[dict[str, Any]]) -> None:
    connection.execute(STORE_DATES, {"site_id": site_id, "rows": dumps(rows)})


def signal_pages(connection: sa.Connection, site_id: int, site: Site, stored: StoredPlan) -> None:
    """Marks the pages that a card or a date signals. Those of a sensor that has its say are visited
    first."""
    values = {"site_id": site_id, "moves": stored.cards.has_say, "price": _price_field(site)}
    connection.execute(SIGNAL, values)
    connection.execute(SIGNAL_DATES, {"site_id": site_id, "moves": stored.dates.has_say})


def forget(connection: sa.Connection, site_id: int) -> None:
    for table in TABLES:
        query = f"""DELETE FROM {table}
            WHERE site_id = :site_id AND read_at < now() - :days * interval '1 day'"""
        connection.execute(sa.text(query), {"site_id": site_id, "days": FORGOTTEN_DAYS})


def _price_field(site: Site) -> str:
    """Returns the field that a card's price is compared with; "" without a price."""
    fields = site.product.fields.items()
    return next((name for name, spec in fields if spec.type == "price"), "")
