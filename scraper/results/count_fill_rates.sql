-- name: count_fill_rates
-- Adds what a group of pages says of their crawls' fields to the sums of these crawls.
-- parameters: rows (JSON array of `FieldCounts.row_of`), fades (what a new record leaves of the
--   weight of earlier ones in `recent`)
-- locks: the rows of the crawls, in the order of their ids; other transactions wait for them
-- why: the mappings of fields are added key by key. Most groups add nothing to most of them.
UPDATE crawl_quality q
   SET records = q.records + i.records, strayed = q.strayed + i.strayed,
       found = CASE WHEN i.found = '{}' THEN q.found ELSE (
           SELECT coalesce(jsonb_object_agg(key, n), '{}') FROM (
               SELECT key, sum(n) AS n FROM (
                   SELECT key, CAST(value AS float8) AS n FROM jsonb_each(q.found)
                   UNION ALL SELECT key, CAST(value AS float8) FROM jsonb_each(i.found)) AS both_of
                GROUP BY key) AS summed) END,
       mistyped = CASE WHEN i.mistyped = '{}' THEN q.mistyped ELSE (
           SELECT coalesce(jsonb_object_agg(key, n), '{}') FROM (
               SELECT key, sum(n) AS n FROM (
                   SELECT key, CAST(value AS float8) AS n FROM jsonb_each(q.mistyped)
                   UNION ALL
                   SELECT key, CAST(value AS float8) FROM jsonb_each(i.mistyped)) AS both_of
                GROUP BY key) AS summed) END,
       vanished = CASE WHEN i.vanished = '{}' THEN q.vanished ELSE (
           SELECT coalesce(jsonb_object_agg(key, n), '{}') FROM (
               SELECT key, sum(n) AS n FROM (
                   SELECT key, CAST(value AS float8) AS n FROM jsonb_each(q.vanished)
                   UNION ALL
                   SELECT key, CAST(value AS float8) FROM jsonb_each(i.vanished)) AS both_of
                GROUP BY key) AS summed) END,
       votes = CASE WHEN i.votes = '{}' THEN q.votes ELSE (
           SELECT coalesce(jsonb_object_agg(key, n), '{}') FROM (
               SELECT key, sum(n) AS n FROM (
                   SELECT key, CAST(value AS float8) AS n FROM jsonb_each(q.votes)
                   UNION ALL SELECT key, CAST(value AS float8) FROM jsonb_each(i.votes)) AS both_of
                GROUP BY key) AS summed) END,
       recent_records = q.recent_records * f.faded + i.records,
       recent = (
           SELECT coalesce(jsonb_object_agg(key, n), '{}') FROM (
               SELECT key, sum(n) AS n FROM (
                   SELECT key, CAST(value AS float8) * f.faded AS n FROM jsonb_each(q.recent)
                   UNION ALL SELECT key, CAST(value AS float8) FROM jsonb_each(i.found)) AS both_of
                GROUP BY key) AS summed)
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(crawl_id bigint, records int, found jsonb, mistyped jsonb, vanished jsonb,
         votes jsonb, strayed int)
 CROSS JOIN LATERAL (SELECT power(CAST(:fades AS float8), least(i.records, 1000)) AS faded) f
 WHERE q.crawl_id = i.crawl_id
