-- A site that was deleted since then keeps nothing.
INSERT INTO product_pictures (site_id, url_hash, media_type, body, size, problem)
SELECT id, :url_hash, :media_type, :body, :size, :problem FROM sites WHERE id = :site_id
ON CONFLICT (site_id, url_hash) DO UPDATE
   SET media_type = excluded.media_type, body = excluded.body, size = excluded.size,
       problem = excluded.problem, fetched_at = now()
