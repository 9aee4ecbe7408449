-- Reads the stats of several hosts.
--
-- KEYS scraper:proxies:HOST, as stats.lua describes it
--
-- Returns Redis's time in microseconds, then each hash.

local t = redis.call('TIME')
local reply = {string.format('%.0f', t[1] * 1000000 + t[2])}
for i = 1, #KEYS do reply[i + 1] = redis.call('HGETALL', KEYS[i]) end
return reply
