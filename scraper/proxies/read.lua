-- Reads the stats of several hosts.
--
-- KEYS scraper:proxies:HOST, as stats.lua describes it
--
-- Returns Redis's time in microseconds, then each hash. What no script wrote counts as lost: a key
-- of another type or with too many fields, and a field or value that is too long.

local t = redis.call('TIME')
local reply = {string.format('%.0f', t[1] * 1000000 + t[2])}
for i = 1, #KEYS do
  local fields = redis.pcall('HLEN', KEYS[i])
  local row = {}
  if type(fields) ~= 'number' or fields > 100000 then
    redis.call('DEL', KEYS[i])
  else
    local all = redis.call('HGETALL', KEYS[i])
    for j = 1, #all, 2 do
      if #all[j] + #all[j + 1] > 1000 then
        redis.call('HDEL', KEYS[i], all[j])
      else
        row[#row + 1], row[#row + 2] = all[j], all[j + 1]
      end
    end
  end
  reply[i + 1] = row
end
return reply
