-- Indexes that were not built to the end. Of those that are being built the table is locked, so that
-- dropping them waits. (A partitioned table's own index holds nothing.)
SELECT c.oid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
 WHERE NOT i.indisvalid AND c.relkind = 'i' AND c.relnamespace = current_schema()::regnamespace
