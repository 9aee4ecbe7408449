-- Remembers URLs in the newest generation, and starts a new one every half life. Returns how many
-- URLs were not in the newest generation.
--
-- KEYS[1] scraper:dedup:SITE:ID, a string: the filter's generations as JSON, oldest first
--   last   the number of the newest generation
--   most   the largest number of URLs held at once
--   gens   generations: n (number), began and ends (in ms), parts
--   parts  shards, bytes (of a shard), hashes, capacity, added (URLs)
-- scraper:dedup:SITE:ID:GEN:PART:SHARD, a bitmap of at most 1 MB, which expires with its generation
--
-- ARGV[1], ARGV[2] as in common.lua; ARGV[3] the capacity
--
-- A new generation is sized for the URLs that are not remembered yet: the capacity (or the number
-- really held at once, if larger) less what the previous generation holds. A generation that proves
-- too small receives a further part, as large as all its parts together, with enough bits to be
-- almost never wrong.
--
-- Bitmaps that exist under a new part's names belong to a filter whose state was lost in the same
-- second. They are deleted only if they exist, since Redis can refuse memory to a script only
-- before its first write.
local capacity = tonumber(ARGV[3])
local function held()
  local sum = 0
  for _, gen in ipairs(state.gens) do
    for _, part in ipairs(gen.parts) do sum = sum + part.added end
  end
  return sum
end
local function make(gen, p, urls, of)
  local bytes, unit = urls * of.bits / 8, UNIT
  while unit > LEAST and bytes / (unit - HEAD) < 16 do unit = unit / 2 end
  unit = unit - HEAD
  local shards = math.min(SHARDS_MAX, math.max(1, math.ceil(bytes / unit)))
  local most = math.floor(shards * unit * 8 / of.bits)
  local part = {shards = shards, bytes = unit, hashes = of.hashes, capacity = most, added = 0}
  for shard = 0, shards - 1 do
    local name = key(gen.n, p, shard)
    if redis.call('EXISTS', name) == 1 then redis.call('UNLINK', name) end
  end
  gen.parts[p] = part
  return part
end
local gens = {}
local before = held()
for _, gen in ipairs(state.gens) do
  if live(gen) then
    gens[#gens + 1] = gen
  else
    for p, part in ipairs(gen.parts) do
      for shard = 0, part.shards - 1 do redis.call('UNLINK', key(gen.n, p, shard)) end
    end
  end
end
state.gens = gens
local cur = gens[#gens]
if not cur or now >= cur.began + life / 2 then
  local want = math.max(capacity, math.ceil(1.1 * math.max(state.most, before)))
  local size = math.max(want - held(), math.ceil(want / 16))
  state.last, state.most = state.last + 1, held()
  cur = {n = state.last, began = now, ends = now + life, parts = {}}
  make(cur, 1, size, FIRST)
  gens[#gens + 1] = cur
end
local touched, new, p = {}, 0, #cur.parts
local part = cur.parts[p]
for i = 1, #ARGV[2], 16 do
  if part.added >= part.capacity then
    local all = 0
    for _, earlier in ipairs(cur.parts) do all = all + earlier.capacity end
    p, touched = p + 1, {}
    part = make(cur, p, all, FURTHER)
  end
  local shard, start, step = hash(i, cur.n)
  local name, bits, fresh = key(cur.n, p, shard % part.shards), part.bytes * 8, 0
  if not touched[name] then
    if redis.call('EXISTS', name) == 0 then
      redis.call('SETBIT', name, bits - 1, 0)
      redis.call('PEXPIRE', name, math.max(1, cur.ends - now))
    end
    touched[name] = true
  end
  for h = 0, part.hashes - 1 do
    if redis.call('SETBIT', name, (start + h * step) % bits, 1) == 0 then fresh = 1 end
  end
  part.added, new = part.added + fresh, new + fresh
end
state.most = math.max(state.most, held())
redis.call('SET', KEYS[1], cjson.encode(state), 'PX', math.max(1, cur.ends - now))
return new
