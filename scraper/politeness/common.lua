-- The beginning of reserve.lua, slow_down.lua and read.lua: Redis's time in microseconds, and what no
-- script wrote. A key of another type or too large, and a value out of its range, count as lost.

local function is_foreign(key)
  local kind = redis.call('TYPE', key).ok
  return kind ~= 'none' and (kind ~= 'hash' or redis.call('HLEN', key) > 20000
    or redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) > 8000000)
end
local function drop_foreign()
  local dropped = ''
  for _, key in ipairs(KEYS) do
    if is_foreign(key) then
      redis.call('DEL', key)
      dropped = key
    end
  end
  return dropped
end
local function number(text, default, low, high)
  local value = tonumber(text or default)
  if value and value >= low and value <= high then return value end
  return default
end
local DAY, MANY = 86400000000, 1000000

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
