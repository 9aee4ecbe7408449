-- Claims a group for a worker, or renews its lease. Returns 1; 0 if the group must not run or was
-- claimed before; -1 if Redis does not know the call.
--
-- KEYS[1] scraper:call:ID, a hash: state (open or cancelled), g:N (the time until which a worker
--         has group N, in microseconds by Redis's clock; 0: no worker)
-- ARGV[1] the group's number   [2] the lease in microseconds   [3] 1 for a claim, 0 for a renewal
--
-- A group is claimed once: a redelivered message finds g:N set.
local s = redis.call('HMGET', KEYS[1], 'state', 'g:' .. ARGV[1])
if not s[1] then return -1 end
if s[1] ~= 'open' or not s[2] or (s[2] ~= '0' and ARGV[3] == '1') then return 0 end
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], 'g:' .. ARGV[1], string.format('%.0f', t[1] * 1000000 + t[2] + ARGV[2]))
return 1
