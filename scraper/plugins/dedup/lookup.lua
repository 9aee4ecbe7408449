-- Looks URLs up. Returns a string with 1 or 0 for each URL, and about how many different URLs the
-- crawl has asked for (-1: unknown).
--
-- KEYS[1] scraper:dedup:SITE:ID, a string: the filter's generations as JSON, oldest first
--   last   the number of the newest generation
--   most   the largest number of URLs held at once
--   gens   generations: n (number), began and ends (in ms), parts
--   parts  shards, bytes (of a shard), hashes, capacity, added (URLs)
-- scraper:dedup:SITE:ID:GEN:PART:SHARD, a bitmap of at most 1 MB, which expires with its generation
-- KEYS[2] scraper:dedup:SITE:ID:crawl:CRAWL, optional: a HyperLogLog of the URLs that were asked for
--
-- ARGV[1], ARGV[2] as in common.lua
--
-- The newest generation is asked first. A bitmap without a URL is read for two bits on average.
local remembered, asked, answers, listed = {}, {}, {}, -1
for i = 1, #ARGV[2], 16 do asked[#asked + 1] = i end
local function not_in(gen, p, part)
  local left, bits = {}, part.bytes * 8
  for _, i in ipairs(asked) do
    local shard, start, step = hash(i, gen.n)
    local name, all = key(gen.n, p, shard % part.shards), true
    for h = 0, part.hashes - 1 do
      if redis.call('GETBIT', name, (start + h * step) % bits) == 0 then all = false break end
    end
    if all then remembered[i] = true else left[#left + 1] = i end
  end
  return left
end
for g = #state.gens, 1, -1 do
  local gen = state.gens[g]
  if live(gen) then
    for p, part in ipairs(gen.parts) do asked = not_in(gen, p, part) end
  end
end
for i = 1, #ARGV[2], 16 do answers[#answers + 1] = remembered[i] and '1' or '0' end
if KEYS[2] then
  local all = {}
  for i = 1, #ARGV[2], 16 do all[#all + 1] = string.sub(ARGV[2], i, i + 15) end
  local added = redis.pcall('PFADD', KEYS[2], unpack(all))
  if type(added) == 'number' then
    redis.pcall('PEXPIRE', KEYS[2], life)
    local count = redis.pcall('PFCOUNT', KEYS[2])
    if type(count) == 'number' then listed = count end
  end
end
return {table.concat(answers), listed}
