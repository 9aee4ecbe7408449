-- Adds changes to a stream, and skips those that it has. Returns the last position in the stream.
--
-- KEYS[1] SCRAPER_CHANGES_STREAM, a stream: an entry's id is POSITION-0
--   after    the id of the entry before
--   site, event, id (of the product)
--   change   the whole change as JSON, as `scraper changes` prints it
--
-- ARGV[1] how many entries the stream may hold
-- ARGV[2…] six for each entry: position, after, site, event, id, change
--
-- A refusal (no memory, not a stream) comes with the first entry, before anything is added.
local last = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = tonumber(string.match(info[i + 1], '^%d+')) end
  end
end
for i = 2, #ARGV, 6 do
  if tonumber(ARGV[i]) > last then
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], ARGV[i] .. '-0',
               'after', ARGV[i + 1] .. '-0', 'site', ARGV[i + 2],
               'event', ARGV[i + 3], 'id', ARGV[i + 4], 'change', ARGV[i + 5])
    last = tonumber(ARGV[i])
  end
end
return last
