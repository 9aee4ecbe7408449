-- Renames keys of the broker that hold another type than kombu stores there to scraper:aside:KEY,
-- and returns them. It runs in one step, because another worker may have moved a key, and a message
-- may have come since.
--
-- KEYS  kombu's own keys and queues. The fleet's other keys, which a foreign message may name as its
--       queue, stay.

local TYPES = {
  unacked = 'hash',
  unacked_index = 'zset',
  unacked_mutex = 'string',
  ['_kombu.binding_deadlines'] = 'zset',
}
local moved = {}
for _, key in ipairs(KEYS) do
  local expected = TYPES[key] or (key:find('^_kombu%.binding') and 'set') or 'list'
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= expected and not key:find('^scraper:') then
    redis.call('RENAME', key, 'scraper:aside:' .. key)
    moved[#moved + 1] = key
  end
end
return moved
