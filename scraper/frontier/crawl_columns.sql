-- name: crawl_columns
-- The columns of a locked crawl that those who end and judge it may read.
-- why: `SELECT *` fails once on each connection that has prepared it when a column is added.
id, site_id, slot, trigger, status, definition, filter_id, asking, holds_new, created_at, started_at,
discovery_total, discovery_done, product_total, product_done, ok, unchanged, gone, dead, invalid,
dropped, fresh, not_modified, fetches, retries, links_cut, links_fruitless, links_disallowed,
products_new, products_changed, products_repriced, products_listed
