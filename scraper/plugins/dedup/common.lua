-- Shared by add.lua and lookup.lua: reads a filter's state, and hashes fingerprints.
--
-- KEYS[1] scraper:dedup:SITE:ID, a string: the filter's generations as JSON, oldest first
--   last   the number of the newest generation
--   most   the largest number of URLs held at once
--   gens   generations: n (number), began and ends (in ms), parts
--   parts  shards, bytes (of a shard), hashes, capacity, added (URLs)
-- scraper:dedup:SITE:ID:GEN:PART:SHARD, a bitmap of at most 1 MB, which expires with its generation
--
-- ARGV[1] how long a URL is remembered, in ms; ARGV[2] fingerprints, 16 bytes each
--
-- The first generation's number derives from the time, so that a filter whose state was lost never
-- reads its old bitmaps. A part marked `bf` was made by a server's Bloom module in an earlier
-- version: its generation counts as forgotten. HEAD leaves room for a string's header, so that 1 MB
-- fits the allocator's size class. A state that no script can have written counts as lost: a loop of
-- its length would stop Redis for good.
local UNIT, LEAST, HEAD = 1048576, 65536, 64
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local life = tonumber(ARGV[1])
local valid = redis.call('STRLEN', KEYS[1]) <= 1000000
local text = valid and redis.call('GET', KEYS[1])
local SHARDS_MAX, URLS_MAX = 65536, 20000000000
local function within(number, least, most)
  return type(number) == 'number' and number >= least and number <= most
end
local function list(value, most) return type(value) == 'table' and #value <= most end
local function possible(state)
  if type(state) ~= 'table' or not list(state.gens, 16) or not within(state.last, 0, 1e15)
     or not within(state.most, 0, URLS_MAX) then return false end
  for _, gen in ipairs(state.gens) do
    if not list(gen, 0) or not list(gen.parts, 64) or not within(gen.n, 0, 1e15)
       or not within(gen.began, 0, 1e15) or not within(gen.ends, 0, 1e15) then return false end
    for _, part in ipairs(gen.parts) do
      if type(part) ~= 'table' or not part.bf and not (
         within(part.shards, 1, SHARDS_MAX) and within(part.bytes, 1, UNIT)
         and within(part.hashes, 1, 64) and within(part.capacity, 0, URLS_MAX)
         and within(part.added, 0, URLS_MAX)) then return false end
    end
  end
  return true
end
local decoded, state = pcall(cjson.decode, text or '')
if not decoded or not possible(state) then
  state = {last = t[1] % 1000000000, most = 0, gens = {}}
end
local function key(gen, part, shard) return KEYS[1] .. ':' .. gen .. ':' .. part .. ':' .. shard end
local function live(gen)
  for _, part in ipairs(gen.parts) do if part.bf then return false end end
  return now < math.min(gen.ends, gen.began + life)
end
local function hash(i, gen)
  local shard, start, step, move = struct.unpack('>I4I4I4I4', ARGV[2], i)
  return shard, (start + gen % 65536 * move) % 4294967296, step
end
