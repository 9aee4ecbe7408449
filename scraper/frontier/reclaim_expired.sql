-- name: reclaim_expired
-- Deletes the leases that have expired, and returns their pages.
-- parameters: grace_s (after the start of PostgreSQL), is_back (whether this process has just missed
--   PostgreSQL for long)
-- locks: the leases that no other transaction has locked
-- why: no worker could extend a lease while PostgreSQL was away, or behind a network that swallowed
--   everything. Leases that were claimed before get a moment once it is back.
DELETE FROM leases WHERE id IN (
    SELECT id FROM leases
     WHERE until <= now()
       AND NOT (started_at IS NOT NULL
                AND (:is_back OR (started_at < pg_postmaster_start_time()
                     AND now() < pg_postmaster_start_time() + :grace_s * interval '1 second')))
     ORDER BY id FOR UPDATE SKIP LOCKED)
RETURNING page_ids, started_at IS NOT NULL AS started, alone
