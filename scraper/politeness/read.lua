-- Reads what the fleet does at a host, and changes nothing. KEYS as in reserve.lua. Needs common.lua.
--
-- Returns {now, a foreign key or '', fields of KEYS[1] and their values, the values of KEYS[2]}. A
-- foreign key, whose size has no bound, counts as empty.

local foreign, row, allotments = '', {}, {}
if is_foreign(KEYS[1]) then
  foreign = KEYS[1]
else
  for _, field in ipairs({'factor', 'base', 'interval', 'concurrency', 'burst', 'rest', 'why', 'tat'}) do
    local value = redis.call('HGET', KEYS[1], field)
    if value then row[#row + 1], row[#row + 2] = field, value end
  end
end
if is_foreign(KEYS[2]) then foreign = KEYS[2] else allotments = redis.call('HVALS', KEYS[2]) end
return {now, foreign, row, allotments}
