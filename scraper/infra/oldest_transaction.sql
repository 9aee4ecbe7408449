-- :key: the lock of migrations, whose holder is excluded.
SELECT format('%s, pid %s, for %s s', coalesce(nullif(application_name, ''), usename::text), pid,
              extract(epoch FROM now() - xact_start)::int)
  FROM pg_stat_activity a
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
   AND NOT EXISTS (SELECT FROM pg_locks l
                    WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.objid = :key)
 ORDER BY xact_start LIMIT 1
