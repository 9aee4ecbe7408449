-- Removes entries that the caller has read, and their bytes from those pending.
--
-- KEYS[1] scraper:call:ID, a hash: pending
-- KEYS[2] scraper:call:ID:results, a stream
-- ARGV[1] the entries' bytes   [2...] their ids
for i = 2, #ARGV do redis.call('XDEL', KEYS[2], ARGV[i]) end
if redis.call('EXISTS', KEYS[1]) == 1
    and redis.call('HINCRBY', KEYS[1], 'pending', -ARGV[1]) < 0 then
  redis.call('HSET', KEYS[1], 'pending', 0)
end
