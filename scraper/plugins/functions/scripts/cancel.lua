-- Cancels a call: deletes its groups and results, so that workers stop all of its groups.
--
-- KEYS[1] scraper:call:ID, a hash: state
-- KEYS[2] scraper:call:ID:results, a stream
-- ARGV[1] time to live in milliseconds
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'state', 'cancelled')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
