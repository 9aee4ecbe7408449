-- Reads the fields ARGV of an account, whose KEYS[1] common.lua describes, and changes nothing.
--
-- Returns their values; '' for one that is absent or longer than a number.

local row = {}
for i, field in ipairs(ARGV) do
  local length = redis.pcall('HSTRLEN', KEYS[1], field)
  local is_read = type(length) == 'number' and length > 0 and length <= 16
  row[i] = is_read and redis.call('HGET', KEYS[1], field) or ''
end
return row
