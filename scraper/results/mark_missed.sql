-- name: mark_missed
-- Counts a complete crawl's misses, delists products and lists others again, with feed entries.
--   Returns how many became delisted, and how many are missed for the first time.
-- parameters: crawl_id, site_id, delisted_after, doubted, moving, several (a page gives several
--   products), confirmed (products were requested by this very count), alive_share
-- locks: the products it changes
-- why: a product is listed if this crawl reached its page and did not find it gone. Products of an
--   interface (`moving`) are listed where they were written. If a page has several products, those
--   are listed that it gave when it was last read; a product that it did not give then
--   (`absent_since`) is missed by a crawl that has read the page, or got a 304 for it. A requested
--   product is delisted if its page does not give it, unless it is missed for the first time. If
--   enough of the requested pages still give their products (`alive_share`), the others take one
--   miss more. Products of pages with `several` count by their share of the page. The site is named twice, so that the pages of other sites are not read.
WITH seen AS MATERIALIZED (
    SELECT pr.id, pg.crawl_id = :crawl_id AND pg.status <> 'gone' AND pr.asked_by IS DISTINCT FROM
                  CAST(:crawl_id AS bigint) AND pr.absent_since IS NULL
                  AND (pr.crawl_id = :crawl_id OR NOT :moving OR pg.kind <> 'listing') AS listed,
           pg.crawl_id = :crawl_id AND pg.status = 'gone' AS gone,
           pr.absent_since IS NOT NULL AS absent,
           pr.asked_by IS NOT DISTINCT FROM CAST(:crawl_id AS bigint) AS asked,
           pg.status NOT IN ('gone', 'invalid') OR pg.last_outcome = 'doubtful' AS alive,
           pr.missed_crawls + CASE WHEN
           -- include: results/missed_twice.sql
           THEN 2 ELSE 1 END AS misses, pr.missed_crawls,
           pr.missed_crawls = 0 AS first, pr.delisted_at IS NOT NULL AS was_delisted,
           pr.missed_crawls = 0 AND :confirmed AND CAST(:doubted AS bigint) IS NULL AND
           pr.asked_by IS NOT DISTINCT FROM CAST(:crawl_id AS bigint) AS first_asked
      FROM products pr JOIN pages pg ON pg.id = pr.page_id
     WHERE pr.site_id = :site_id AND pg.site_id = :site_id
       AND (pr.absent_since IS NULL OR pg.crawl_id < :crawl_id OR pg.status = 'gone'
            OR pg.fetched_at >= (SELECT started_at FROM crawls WHERE id = :crawl_id))
), sample AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE alive) >= CAST(:alive_share AS numeric) * count(*)
           AND count(*) > 0 AS alive
      FROM seen WHERE asked
), decided AS (
    SELECT seen.*,
           CASE WHEN listed THEN 0 WHEN NOT asked OR first_asked THEN misses WHEN :confirmed
                THEN greatest(misses, :delisted_after) ELSE 1 END AS counted,
           CASE WHEN listed THEN false WHEN was_delisted THEN true
                WHEN first_asked THEN false WHEN asked THEN NOT seen.alive
                WHEN misses < :delisted_after THEN false
                ELSE missed_crawls >= :delisted_after OR absent OR NOT (gone OR sample.alive)
           END AS delists
      FROM seen CROSS JOIN sample
), marked AS (
    UPDATE products pr
       SET missed_crawls = least(counted, 1000),
           delisted_at = CASE WHEN delists THEN coalesce(pr.delisted_at, now()) END
      FROM decided
     WHERE pr.id = decided.id AND (NOT listed OR pr.missed_crawls > 0 OR pr.delisted_at IS NOT NULL)
    RETURNING pr.id, pr.page_id, pr.version, coalesce(pr.delisted_at = now(), false) AS delisted,
              NOT decided.listed AND decided.first AS newly_missed,
              decided.was_delisted AND pr.delisted_at IS NULL AS relisted
), fed AS (
    INSERT INTO changes (site_id, product_id, crawl_id, version, event)
    SELECT :site_id, id, :crawl_id, version, CASE WHEN delisted THEN 'delisted' ELSE 'relisted' END
      FROM marked WHERE delisted OR relisted ORDER BY id
)
SELECT count(*) FILTER (WHERE delisted) AS delisted,
       CAST(CASE WHEN :several
                 THEN ceil(coalesce(sum(1.0 / (SELECT count(*) FROM products o
                                                WHERE o.page_id = marked.page_id))
                                    FILTER (WHERE newly_missed), 0))
                 ELSE count(*) FILTER (WHERE newly_missed) END AS bigint) AS missed
  FROM marked
