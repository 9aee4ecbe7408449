-- name: single_prices
-- Returns pages with a single price that is not believed, though a second reading may confirm it.
-- parameters: id (the crawl), prices (names of fields), each (pages of one value), most (pages)
-- locks: nothing
-- why: the price leaps, or many products share it. Either the page shows the stored price as the
--   former one, or a listing may have a card; cards say nothing of a decimal point that moved.
WITH single AS (
    SELECT pg.id, pg.settled_at, row_number() OVER of_value AS nth
      FROM held_values h JOIN products p ON p.id = h.product_id JOIN pages pg ON pg.id = p.page_id
     CROSS JOIN LATERAL (SELECT CAST(h.value ->> h.field AS numeric)
                              / nullif(CAST(p.data ->> h.field AS numeric), 0) AS factor) f
     WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.reason IN ('leap', 'shared')
       AND h.field = ANY (:prices) AND NOT h.contradicted
       AND (f.factor < 1 AND EXISTS (
            SELECT FROM held_values o
             WHERE o.product_id = h.product_id AND o.crawl_id = :id AND o.field <> h.field
               AND o.value -> o.field = p.data -> h.field)
            OR f.factor NOT IN (0.001, 0.01, 0.1, 10, 100, 1000) AND EXISTS (
            SELECT FROM pages l WHERE l.id = pg.found_on AND l.kind = 'listing'))
    WINDOW of_value AS (PARTITION BY h.field, h.reason, h.value ORDER BY pg.settled_at, pg.id)
)
SELECT id FROM single WHERE nth <= :each ORDER BY settled_at, id LIMIT :most
