"""the views `prices` and `price_changes`"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op
from scraper.errors import ConfigError

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

VIEWS = ("prices", "price_changes")

# The product's price: the field `price`, or the first other field with a currency. A value that is
# not a number is no price.
PRODUCT_PRICE = """
CREATE FUNCTION product_price(data jsonb) RETURNS TABLE (price numeric, currency text)
IMMUTABLE LANGUAGE sql AS $$
SELECT CASE WHEN jsonb_typeof(data -> field.name) = 'number'
            THEN CAST(data ->> field.name AS numeric) END,
       data ->> (field.name || '_currency')
  FROM (SELECT CASE WHEN data ? 'price' THEN 'price' ELSE
                    (SELECT min(key) FROM jsonb_object_keys(data) AS key
                      WHERE data ? (key || '_currency')) END AS name) AS field
$$
"""

# Views would forbid later migrations to change the columns that they read; text in a function does
# not. PostgreSQL merges both into the query, so that conditions on a site or product use indexes.
CHANGE_ROWS = """
CREATE FUNCTION price_change_rows()
RETURNS TABLE (product_id bigint, version integer, site text, id text, title text, price numeric,
               currency text, before numeric, percent numeric, at timestamptz)
STABLE LANGUAGE sql AS $$
SELECT h.product_id, h.version, h.site, h.id, coalesce(h.data ->> 'name', h.data ->> 'title'),
       n.price, n.currency, b.price, round((n.price - b.price) / nullif(b.price, 0) * 100, 2), h.at
  FROM (SELECT v.product_id, v.version, s.name AS site, p.external_id AS id, v.data,
               v.valid_from AS at
          FROM product_versions v JOIN products p ON p.id = v.product_id
                                  JOIN sites s ON s.id = p.site_id
        UNION ALL
        SELECT p.id, p.version, s.name, p.external_id, p.data, p.changed_at
          FROM products p JOIN sites s ON s.id = p.site_id) AS h
 CROSS JOIN LATERAL product_price(h.data) AS n
 CROSS JOIN LATERAL (SELECT o.price, o.currency
                       FROM product_versions v CROSS JOIN LATERAL product_price(v.data) AS o
                      WHERE v.product_id = h.product_id AND v.version < h.version
                        AND o.price IS NOT NULL
                      ORDER BY v.version DESC LIMIT 1) AS b
 WHERE n.price <> b.price AND n.currency IS NOT DISTINCT FROM b.currency
$$
"""

PRICE_ROWS = """
CREATE FUNCTION price_rows()
RETURNS TABLE (site text, id text, title text, price numeric, currency text, before numeric,
               percent numeric, at timestamptz)
STABLE LANGUAGE sql AS $$
SELECT s.name, p.external_id, coalesce(p.data ->> 'name', p.data ->> 'title'), n.price, n.currency,
       c.before, c.percent, coalesce(c.at, p.first_seen_at)
  FROM products p JOIN sites s ON s.id = p.site_id
 CROSS JOIN LATERAL product_price(p.data) AS n
  LEFT JOIN LATERAL (SELECT l.price, l.currency, l.before, l.percent, l.at
                       FROM price_change_rows() AS l WHERE l.product_id = p.id
                      ORDER BY l.version DESC LIMIT 1) AS c
         ON c.price = n.price AND c.currency IS NOT DISTINCT FROM n.currency
 WHERE p.delisted_at IS NULL AND n.price IS NOT NULL
$$
"""

COLUMNS = "site, id, title, price, currency, before, percent, at"


def upgrade() -> None:
    for view in VIEWS:
        taken = sa.text("SELECT to_regclass(:view) IS NOT NULL")
        found = op.get_bind().execute(taken, {"view": view})
        # Alembic that only prints the statements has no answer.
        if found is not None and found.scalar():
            raise ConfigError(
                f"the database has a table or view {view!r} of yours (fix: rename it, or "
                "SCRAPER_PLUGINS_OFF=prices)"
            )
    for function in (PRODUCT_PRICE, CHANGE_ROWS, PRICE_ROWS):
        op.execute(sa.text(function.replace(":", r"\:")))
    op.execute(f"CREATE VIEW prices AS SELECT {COLUMNS} FROM price_rows()")
    op.execute(f"CREATE VIEW price_changes AS SELECT {COLUMNS} FROM price_change_rows()")


def downgrade() -> None:
    for view in VIEWS:
        op.execute(f"DROP VIEW {view}")
    for function in ("price_rows()", "price_change_rows()", "product_price(jsonb)"):
        op.execute(f"DROP FUNCTION {function}")
