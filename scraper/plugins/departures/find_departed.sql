-- name: find_departed
-- Returns which pages no longer show their product, and whether that is certain: in their crawl few
--   product pages lead elsewhere.
-- parameters: rows (page_id, crawl_id, where the page leads, as in `Departure`; the ids that the
--   page gives now; `seldom`: the worker has seen few such pages in the crawl; `unread`: a second
--   try gave no product)
-- locks: nothing
-- why: a redirect to a listing, or to another product's page, says that the
--   product is gone. An address that products do not have says so only if the name is another one
--   there. A canonical link says less: some shops have the same one on all pages. So it counts only
--   if it names a listing, and the product's name is no longer on the page. A page that says that
--   its product does not exist (`says`) counts if it does not name the product. A worker may see only
--   the last pages of a crawl; then the crawl's counters decide.
SELECT i.page_id,
       bool_or(i.seldom OR c.ok + c.unchanged - c.discovery_total > c.gone + c.invalid) AS certain
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(page_id bigint, crawl_id bigint, target uuid, bare uuid, redirected bool, home bool,
         alike bool, unread bool, seldom bool, ids jsonb, names jsonb, says text, poor bool,
         called jsonb)
  JOIN pages p ON p.id = i.page_id
  JOIN crawls c ON c.id = i.crawl_id
  LEFT JOIN pages t ON t.site_id = p.site_id AND t.id <> p.id
       AND (t.fingerprint = i.target
            OR t.fingerprint = i.bare AND t.kind <> 'product' AND i.alike IS NOT TRUE)
 CROSS JOIN LATERAL (
       SELECT count(*) AS number, coalesce(bool_and(NOT o.data @> i.names), false) AS renamed,
              coalesce(bool_or(jsonb_exists(i.ids, o.external_id)), false) AS own,
              coalesce(bool_or((SELECT bool_or(strpos(lower(i.says), lower(o.data ->> name)) > 0)
                                  FROM jsonb_array_elements_text(i.called) AS name)), false) AS said
         FROM products o WHERE o.page_id = p.id) AS known
 WHERE i.redirected AND (i.home OR t.kind <> 'product')
    OR i.redirected AND t.fetched_at IS NOT NULL AND known.number > 0 AND NOT known.own
    OR i.seldom AND i.redirected AND i.alike IS NOT TRUE
       AND (i.unread OR i.alike IS NOT NULL AND known.own AND known.renamed)
    OR i.seldom AND NOT i.redirected AND t.kind <> 'product' AND known.renamed
    OR i.says <> '' AND NOT known.said AND (i.poor OR known.number > 0)
 GROUP BY i.page_id
