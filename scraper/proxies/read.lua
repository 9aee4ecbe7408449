-- Reads the stats of several hosts.
--
-- KEYS scraper:proxies:HOST, as stats.lua describes it
--
-- Returns Redis's time in microseconds, then each hash.

local t = redis.call('TIME')
local reply = {string.format('%.0f', t[1] * 1000000 + t[2])}
for i = 1, #KEYS do
  -- A key of another type counts as lost.
  local row = redis.pcall('HGETALL', KEYS[i])
  reply[i + 1] = row.err and {} or row
end
return reply
