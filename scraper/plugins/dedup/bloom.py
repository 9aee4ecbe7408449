"""A site's finished URLs, remembered for a while: Bloom filters in Redis, by Lua and on Redis's
clock.

What is remembered is forgotten as a whole, by generations; a filter cannot forget one URL. A
generation takes what is added for half of the time that a URL is remembered, and is dropped when
all of that time has passed since it began: so two of them live at a time, and a URL is remembered
for half of that time at the least and all of it at the most. More and shorter ones would be more
exact, and would not do with two bytes a URL: each that is asked adds its own false positives.

The keys of a filter, SITE being the site's number and ID `sites.filter_id`; all of them expire by
themselves:

    scraper:dedup:SITE:ID               its generations as JSON, see `Generation`; times in ms
    scraper:dedup:SITE:ID:GEN:PART:N    shard N of a generation's part: a bitmap, 1 MB at most
    scraper:dedup:SITE:ID:crawl:CRAWL   a HyperLogLog of the product URLs that a crawl's listings
                                        have named

A URL's 128-bit fingerprint is four numbers: the shard, start and step of the bits in it (double
hashing: Kirsch and Mitzenmacher, 2006), and how far the start is moved in each generation. So a URL
that one generation takes for another one is judged anew by the next.

Earlier versions had a server's Bloom module make filters, and marked such a part `bf`. A generation
with one counts as forgotten.

Only hints live here. A Redis that loses its memory, evicts a shard or is set back to yesterday
makes pages be fetched again; nothing is ever added before its page is finished
(`scraper.plugins.dedup.remembered_links`), so that nothing can be left out but false positives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import redis

from scraper.plugins.dedup.sizing import FIRST, FURTHER, Part, Shape, false_positives

PREFIX = "scraper:dedup:"
# A call of so many URLs takes two milliseconds of Redis's time, in which nobody else is answered.
AT_ONCE = 200


def _as_lua(shape: Shape) -> str:
    return f"{{bits = {shape.bits}, hashes = {shape.hashes}}}"


# Generations are numbered from a time on, so that a filter whose state was lost never reads the
# bitmaps that it had before. A string of a megabyte takes one of the allocator's sizes, and not the
# next one, if some bytes are left for its header.
_COMMON = """
local UNIT, LEAST, HEAD = 1048576, 65536, 64
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local life = tonumber(ARGV[1])
local text = redis.call('GET', KEYS[1])
local state = text and cjson.decode(text) or {last = t[1] % 1000000000, most = 0, gens = {}}
local function key(gen, part, shard) return KEYS[1] .. ':' .. gen .. ':' .. part .. ':' .. shard end
local function live(gen)
  for _, part in ipairs(gen.parts) do if part.bf then return false end end
  return now < math.min(gen.ends, gen.began + life)
end
local function hash(i, gen)
  local shard, start, step, move = struct.unpack('>I4I4I4I4', ARGV[2], i)
  return shard, (start + gen % 65536 * move) % 4294967296, step
end
"""

# KEYS  1 the filter
# ARGV  1 how long a URL is remembered, in ms  2 fingerprints, 16 bytes each  3 the capacity
# The answer is how many were not in the generation that they were added to.
#
# A new generation is made for what is not remembered yet: the capacity (or what was really held at
# once, if that was more) without what the generation before it has. Where it proves too small it
# gets a further part as large as all before it, with bits enough to be hardly ever wrong.
#
# What a new part finds under its names is of a filter whose state was lost in the second that made
# it. Where nothing is, nothing is deleted: a script that has written once is never refused memory.
ADD = (
    _COMMON
    + f"local FIRST, FURTHER = {_as_lua(FIRST)}, {_as_lua(FURTHER)}"
    + """
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
  local shards = math.max(1, math.ceil(bytes / unit))
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
"""
)

# KEYS  1 the filter  2 the crawl's HyperLogLog, or none
# ARGV  1 how long a URL is remembered, in ms  2 fingerprints, 16 bytes each
# The answer is a 1 or 0 for each, and about how many different ones the crawl has asked for (-1:
# nobody knows). The newest generation is asked first; of a bitmap that does not have a URL, two
# bits are read on average.
LOOKUP = (
    _COMMON
    + """
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
"""
)


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """Which filter, how long it remembers a URL, and how many URLs it is made for."""

    site_id: int
    id: UUID
    life_s: float
    capacity: int

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.site_id}:{self.id}"


@dataclass(frozen=True, slots=True)
class Generation:
    """What was added between `age_s` ago and now, or half a life later; forgotten in `left_s`."""

    number: int
    age_s: float
    left_s: float
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class FilterState:
    """What Redis has of a filter. `memory_bytes` is what it takes, keys and all, by Redis's own
    account; `policy` is what Redis does when its memory is full."""

    generations: tuple[Generation, ...]
    keys: int
    memory_bytes: int
    policy: str

    @property
    def parts(self) -> list[Part]:
        return [part for generation in self.generations for part in generation.parts]

    @property
    def urls(self) -> int:
        return sum(part.added for part in self.parts)

    @property
    def false_positives(self) -> float:
        return false_positives(self.parts)


class FilterStore:
    """The filters, as one process asks for them. Raises what Redis does."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._add = client.register_script(ADD)
        self._lookup = client.register_script(LOOKUP)

    def add(self, bloom: BloomFilter, fingerprints: Sequence[UUID]) -> int:
        """Remembers finished URLs from now on. Returns how many were not in the newest
        generation."""
        return sum(
            int(self._add(keys=[bloom.key], args=[_ms(bloom.life_s), packed, bloom.capacity]))
            for packed in _packed(fingerprints)
        )

    def lookup(
        self, bloom: BloomFilter, fingerprints: Sequence[UUID], crawl_id: int | None = None
    ) -> tuple[list[bool], int]:
        """Which of them are remembered; and about how many different ones (1 %) were asked for in
        this crawl's name, -1 where that is not known."""
        keys = [bloom.key] if crawl_id is None else [bloom.key, f"{bloom.key}:crawl:{crawl_id}"]
        remembered: list[bool] = []
        listed = -1
        for packed in _packed(fingerprints):
            digits, listed = self._lookup(keys=keys, args=[_ms(bloom.life_s), packed])
            remembered += [digit == ord("1") for digit in digits]
        return remembered, int(listed)

    def read_state(self, bloom: BloomFilter) -> FilterState:
        """For people: reads every key's size."""
        seconds, micros = self._client.time()
        now_ms = seconds * 1000 + micros // 1000
        stored = json.loads(self._client.get(bloom.key) or b'{"gens": []}')
        generations = tuple(
            generation
            for raw in stored["gens"]
            if (generation := _generation(raw, _ms(bloom.life_s), now_ms)) is not None
        )
        keys = list(self._client.scan_iter(match=f"{bloom.key}*", count=1000))
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.memory_usage(key, samples=0)
        memory = sum(size or 0 for size in pipeline.execute())
        policy = str(self._client.info("memory").get("maxmemory_policy", "unknown"))
        return FilterState(generations, len(keys), memory, policy)

    def forget(self, site_id: int, but: UUID | None = None) -> int:
        """Deletes a site's filters, but for one. Returns how many keys there were."""
        kept = f"{PREFIX}{site_id}:{but}".encode()
        keys = self._client.scan_iter(match=f"{PREFIX}{site_id}:*", count=1000)
        gone = [key for key in keys if but is None or not key.startswith(kept)]
        for start in range(0, len(gone), 1000):
            self._client.unlink(*gone[start : start + 1000])
        return len(gone)


def _generation(raw: dict[str, Any], life_ms: int, now_ms: int) -> Generation | None:
    """None for one that is forgotten."""
    ends_ms = min(int(raw["ends"]), int(raw["began"]) + life_ms)
    if now_ms >= ends_ms or any(part.get("bf") for part in raw["parts"]):
        return None
    parts = tuple(
        Part(part["shards"], part["bytes"], part["hashes"], part["capacity"], part["added"])
        for part in raw["parts"]
    )
    age_s, left_s = (now_ms - raw["began"]) / 1000, (ends_ms - now_ms) / 1000
    return Generation(raw["n"], age_s, left_s, parts)


def _packed(fingerprints: Sequence[UUID]) -> Iterator[bytes]:
    for start in range(0, len(fingerprints), AT_ONCE):
        yield b"".join(uuid.bytes for uuid in fingerprints[start : start + AT_ONCE])


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
