-- Renews a call, and reads the leases of its groups. Returns {1 if Redis did not know the call, now,
-- {lease end of each group, 0: no worker}}, times in microseconds by Redis's clock.
--
-- KEYS[1] scraper:call:ID, a hash: state, g:N
-- KEYS[2] scraper:call:ID:results, a stream, whose life is prolonged too
-- ARGV[1] time to live in milliseconds   [2...] the numbers of the groups that were sent
--
-- A Redis that was emptied gets the groups back, so that workers can report which ones they have.
local forgotten = redis.call('HSETNX', KEYS[1], 'state', 'open')
local t = redis.call('TIME')
local untils = {}
for i = 2, #ARGV do
  if forgotten == 1 then redis.call('HSET', KEYS[1], 'g:' .. ARGV[i], '0') end
  untils[#untils + 1] = redis.call('HGET', KEYS[1], 'g:' .. ARGV[i]) or '0'
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return {forgotten, string.format('%.0f', t[1] * 1000000 + t[2]), untils}
