-- Reads the stats of several hosts.
--
-- KEYS scraper:proxies:HOST, as stats.lua describes it
--
-- Returns Redis's time in microseconds, a key that is foreign or has such fields or '', then each
-- hash. What no script wrote counts as lost: a key of another type or too large, and a field or value
-- that is too long.

local function is_foreign(key)
  local kind = redis.call('TYPE', key).ok
  return kind ~= 'none' and (kind ~= 'hash' or redis.call('HLEN', key) > 100000
    or redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) > 40000000)
end
local t = redis.call('TIME')
local reply = {string.format('%.0f', t[1] * 1000000 + t[2]), ''}
for i = 1, #KEYS do
  local row = {}
  if is_foreign(KEYS[i]) then
    redis.call('DEL', KEYS[i])
    reply[2] = KEYS[i]
  else
    local all = redis.call('HGETALL', KEYS[i])
    for j = 1, #all, 2 do
      if #all[j] + #all[j + 1] > 1000 then
        redis.call('HDEL', KEYS[i], all[j])
        reply[2] = KEYS[i]
      else
        row[#row + 1], row[#row + 2] = all[j], all[j + 1]
      end
    end
  end
  reply[i + 2] = row
end
return reply
