-- name: revert_products
-- Gives products the values of an earlier version as a new version, with a feed entry `reverted`.
-- parameters: id (the crawl), rows (JSON array)
-- locks: nothing; the products are locked before
-- why: the old version and its successor are of one product. Its page is read whole next time.
WITH input AS (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
      AS i(id bigint, data jsonb, content_hash uuid)
), versions AS (
    INSERT INTO product_versions (product_id, version, data, content_hash, valid_from, valid_to,
                                  crawl_id)
    SELECT p.id, p.version, p.data, p.content_hash, p.changed_at, now(), :id
      FROM products p JOIN input i ON i.id = p.id
), written AS (
    UPDATE products p SET data = i.data, content_hash = i.content_hash, version = p.version + 1,
           changed_at = now()
      FROM input i WHERE p.id = i.id RETURNING p.id, p.site_id, p.version, p.page_id
), again AS (
    UPDATE pages SET extractor_hash = NULL, fetched_at = NULL FROM written WHERE pages.id =
    written.page_id
)
INSERT INTO changes (site_id, product_id, crawl_id, version, previous_version, event)
SELECT site_id, id, :id, version, version - 1, 'reverted' FROM written ORDER BY id
