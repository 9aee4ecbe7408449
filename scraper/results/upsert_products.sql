-- name: upsert_products
-- Stores products with their versions and feed entries. Returns a row for each product that was
--   written or strayed.
-- parameters: rows (JSON array of `NewProduct`), holding (ids of the crawls whose new products
--   wait)
-- locks: the known products in the order of their ids, then the inserted ones in the order of their
--   keys
-- why: `locked` comes first, so that the content that becomes a version is the content that is
--   replaced. A row that appears between the two (same id, another page) fails the last WHERE. New
--   products of a crawl that holds them wait in `held_products`, and so does a product that another
--   page gives while its own page has not been reached. Unchanged products are rewritten at most
--   once an hour.
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS i(site_id int, external_id text, page_id bigint, crawl_id bigint, url text, data jsonb,
             content_hash uuid, moves boolean)
), input AS MATERIALIZED (
    SELECT DISTINCT ON (site_id, external_id) * FROM given ORDER BY site_id, external_id, page_id
), locked AS MATERIALIZED (
    SELECT p.id, p.site_id, p.external_id, p.page_id, p.version, p.data, p.content_hash,
           p.changed_at, p.fetched_at,
           p.missed_crawls, p.delisted_at, p.absent_since, p.url, p.crawl_id
      FROM products p JOIN input i ON i.site_id = p.site_id AND i.external_id = p.external_id
     ORDER BY p.id FOR UPDATE OF p
), compared AS MATERIALIZED (
    SELECT i.*, l.id, l.version, l.data AS old_data, l.content_hash AS old_hash, l.changed_at,
           l.id IS NULL AND i.crawl_id = ANY (:holding) AS waits,
           l.id IS NULL OR (
           -- include: results/may_write.sql
           ) AS may_write,
           l.content_hash <> i.content_hash OR l.fetched_at < now() - interval '1 hour'
           OR l.page_id <> i.page_id OR (i.moves AND l.crawl_id < i.crawl_id)
           OR l.delisted_at IS NOT NULL OR l.absent_since IS NOT NULL AS differs,
           l.page_id <> i.page_id AND owner.crawl_id < i.crawl_id AS elsewhere
      FROM input i
      LEFT JOIN locked l ON l.site_id = i.site_id AND l.external_id = i.external_id
      LEFT JOIN pages owner ON owner.id = CASE WHEN l.page_id <> i.page_id THEN l.page_id END
), waiting AS (
    INSERT INTO held_products AS h (site_id, external_id, page_id, crawl_id, since_crawl_id, url,
                                    data, content_hash)
    SELECT site_id, external_id, page_id, crawl_id, crawl_id, url, data, content_hash
      FROM compared WHERE waits OR (NOT may_write AND elsewhere)
     ORDER BY site_id, external_id
    ON CONFLICT (site_id, external_id) DO UPDATE
       SET page_id = excluded.page_id, crawl_id = excluded.crawl_id, url = excluded.url,
           data = excluded.data, content_hash = excluded.content_hash, reason = NULL,
           since_crawl_id = CASE WHEN h.content_hash = excluded.content_hash THEN h.since_crawl_id
                                 ELSE excluded.since_crawl_id END,
           seen_at = CASE WHEN h.content_hash = excluded.content_hash THEN h.seen_at
                          ELSE now() END
     WHERE h.crawl_id < excluded.crawl_id OR h.page_id = excluded.page_id
), writable AS MATERIALIZED (
    SELECT * FROM compared WHERE may_write AND NOT waits AND (id IS NULL OR differs)
), versions AS (
    INSERT INTO product_versions (product_id, version, data, content_hash, valid_from, valid_to,
                                  crawl_id)
    SELECT id, version, old_data, old_hash, changed_at, now(), crawl_id
      FROM writable WHERE id IS NOT NULL AND old_hash <> content_hash
), written AS (
    INSERT INTO products AS p (site_id, external_id, page_id, crawl_id, url, data, content_hash)
    SELECT site_id, external_id, page_id, crawl_id, url, data, content_hash FROM writable
     ORDER BY site_id, external_id
    ON CONFLICT (site_id, external_id) DO UPDATE
       SET page_id = excluded.page_id, crawl_id = excluded.crawl_id, url = excluded.url,
           data = excluded.data,
           content_hash = excluded.content_hash, fetched_at = now(), missed_crawls = 0,
           delisted_at = NULL, absent_since = NULL,
           version = p.version + CAST(p.content_hash <> excluded.content_hash AS int),
           changed_at = CASE WHEN p.content_hash <> excluded.content_hash THEN now()
                             ELSE p.changed_at END
     WHERE p.page_id = excluded.page_id OR EXISTS (SELECT FROM locked l WHERE l.id = p.id)
    RETURNING p.id, p.site_id, p.crawl_id, p.version, p.data, (p.xmax = 0) AS inserted,
              (p.changed_at = now() AND p.version > 1) AS changed,
              p.id = ANY (ARRAY(SELECT id FROM locked WHERE delisted_at IS NOT NULL)) AS relisted
), fed AS (
    INSERT INTO changes (site_id, product_id, crawl_id, version, previous_version, event)
    SELECT site_id, id, crawl_id, version, CASE WHEN changed THEN version - 1 END,
           CASE WHEN inserted THEN 'new' WHEN relisted THEN 'relisted' ELSE 'changed' END
      FROM written WHERE inserted OR changed OR relisted
)
SELECT w.crawl_id, w.inserted, w.changed, false AS strayed,
       w.changed AND EXISTS (
           SELECT FROM jsonb_each(o.old_data) f
            WHERE jsonb_typeof(f.value) = 'number' AND o.old_data ? (f.key || '_currency')
              AND jsonb_typeof(w.data -> f.key) = 'number' AND w.data -> f.key <> f.value
              AND w.data -> (f.key || '_currency') = o.old_data -> (f.key || '_currency')
       ) AS repriced
  FROM written w LEFT JOIN writable o ON o.id = w.id
UNION ALL
SELECT g.crawl_id, false, false, true, false
  FROM given g JOIN locked l ON l.site_id = g.site_id AND l.external_id = g.external_id
 WHERE l.page_id <> g.page_id AND l.delisted_at IS NULL AND NOT coalesce(g.moves, false)
   AND EXISTS (SELECT FROM products o WHERE o.page_id = g.page_id AND o.delisted_at IS NULL
                  AND o.external_id <> g.external_id)
