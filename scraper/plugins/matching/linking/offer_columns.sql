-- name: offer_columns
-- The columns from which an offer `o` is made: the names are those of the stored offer's row.
-- parameters: none
-- locks: nothing
-- why: every statement that returns offers names the same ones.
o.id, o.site, o.external_id, o.url, o.title, o.gtin, o.brand, o.mpn, o.attributes, o.words,
       o.price, o.currency, o.unit_price, o.unit, o.in_stock, o.listed, o.article_id
