-- The beginning of reserve.lua and slow_down.lua: Redis's time in microseconds, and what no script
-- wrote. A key of another type or with too many fields, and a value out of its range, count as lost.

for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local fields = kind == 'hash' and redis.call('HLEN', key) or 0
  if kind ~= 'hash' and kind ~= 'none' or fields > 20000 then redis.call('DEL', key) end
end
local function number(text, default, low, high)
  local value = tonumber(text or default)
  if value and value >= low and value <= high then return value end
  return default
end
local DAY, MANY = 86400000000, 1000000

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
