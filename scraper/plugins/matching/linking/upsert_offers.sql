-- name: upsert_offers
-- Inserts or updates offers. A new offer is an article of its own until it is linked.
-- parameters: rows (JSON array of site, external_id, url, title, gtin, brand, mpn, attributes, words,
--   price, currency, unit_price, unit, in_stock, listed)
-- locks: the rows of these offers; the caller holds the advisory lock of matching
-- why: the id is drawn before the insert, since a new offer's article is its own id. Later columns
--   never change the article: that is left to linking.
WITH numbered AS (
    SELECT nextval(pg_get_serial_sequence('offers', 'id')) AS id, r.*
      FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
           site text, external_id text, url text, title text, gtin text, brand text, mpn text,
           attributes jsonb, words text[], price numeric, currency text, unit_price numeric,
           unit text, in_stock bool, listed bool)
)
INSERT INTO offers AS o (id, site, external_id, url, title, gtin, brand, mpn, attributes, words, price,
                         currency, unit_price, unit, in_stock, listed, article_id)
OVERRIDING SYSTEM VALUE
SELECT i.id, i.site, i.external_id, i.url, i.title, i.gtin, i.brand, i.mpn, i.attributes, i.words,
       i.price, i.currency, i.unit_price, i.unit, i.in_stock, i.listed, i.id
  FROM numbered i
ON CONFLICT (site, external_id) DO UPDATE SET
       url = excluded.url, title = excluded.title, gtin = excluded.gtin, brand = excluded.brand,
       mpn = excluded.mpn, attributes = excluded.attributes, words = excluded.words,
       price = excluded.price, currency = excluded.currency, unit_price = excluded.unit_price,
       unit = excluded.unit, in_stock = excluded.in_stock, listed = excluded.listed,
       proposed_at = CASE WHEN o.title = excluded.title THEN o.proposed_at END, updated_at = now()
RETURNING o.id, o.site, o.external_id
