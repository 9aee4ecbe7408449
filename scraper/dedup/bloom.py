"""A site's finished URLs, remembered for a while: Bloom filters in Redis, by Lua and on Redis's
clock.

What is remembered is forgotten as a whole, by generations; a filter cannot forget one URL. A
generation takes what is added for half of the time that a URL is remembered, and is dropped when
all of that time has passed since it began: so two of them live at a time, and a URL is remembered
for half of that time at the least and all of it at the most. More and shorter ones would be more
exact, and would not do with two bytes a URL: each that is asked adds its own false positives.

The keys of a filter, SITE being the site's number and ID `sites.filter_id`; all of them expire by
themselves:

    scraper:dedup:SITE:ID               its generations, as JSON: see `Generation`; times in milliseconds
    scraper:dedup:SITE:ID:GEN:PART:N    shard N of a part of a generation: a bitmap or a module's filter, at most a megabyte
    scraper:dedup:SITE:ID:crawl:CRAWL   a HyperLogLog: how many different product URLs a crawl's listings have named

A part is made of filters of the server's Bloom module (RedisBloom in Redis 8 and Redis Stack,
valkey-bloom) where BF.RESERVE makes one, and of bitmaps everywhere else; it says which, and stays
so. Both have as many bits and hashes, so that they are wrong as often. A part whose module is gone
counts as forgotten, and the next one is made of bitmaps.

A URL's 128-bit fingerprint is four numbers: the shard, start and step of the bits in it (double
hashing: Kirsch and Mitzenmacher, 2006), and how far the start is moved in each generation. A module
hashes the fingerprint with the generation's number behind it. So a URL that one generation takes
for another one is judged anew by the next.

Only hints live here. A Redis that loses its memory, evicts a shard or is set back to yesterday
makes pages be fetched again; nothing is ever added before its page is finished
(`scraper.settle.remembered_links`), so that nothing can be left out but false positives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import redis

from scraper.dedup.sizing import (
    FIRST,
    FURTHER,
    Form,
    Part,
    Shape,
    false_positives,
)

PREFIX = "scraper:dedup:"
# URLs a call: two milliseconds of Redis's time, in which nobody else gets an answer
AT_ONCE = 200


def _in_lua(shape: Shape) -> str:
    reserved = f"error = '{shape.error_rate!r}', reserved = {shape.reserved!r}"
    return f"{{bits = {shape.bits}, hashes = {shape.hashes}, {reserved}}}"


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
local function live(gen) return now < math.min(gen.ends, gen.began + life) end
local function hash(i, gen)
  local shard, start, step, move = struct.unpack('>I4I4I4I4', ARGV[2], i)
  return shard, (start + gen % 65536 * move) % 4294967296, step
end
local function by_shard(gen, part, positions)
  local tail, items, where = struct.pack('>I4', gen.n % 4294967296), {}, {}
  for _, i in ipairs(positions) do
    local shard = struct.unpack('>I4', ARGV[2], i) % part.shards
    if not items[shard] then items[shard], where[shard] = {}, {} end
    local n = #where[shard] + 1
    items[shard][n], where[shard][n] = string.sub(ARGV[2], i, i + 15) .. tail, i
  end
  return items, where
end
"""

# KEYS[1] the filter. ARGV  1 how long a URL is remembered, in ms  2 fingerprints, 16 bytes each  3
# the capacity Returns how many were not in the generation that they were added to.
#
# A new generation is made for what is not remembered yet: the capacity (or what was really held at
# once, if that was more) without what the generation before it has. Where it proves too small it
# gets a further part as large as all before it, with bits enough to be hardly ever wrong. A part of
# which a module's filter takes nothing more (it is full, or the module is gone) is full, and
# bitmaps follow it.
#
# What a new part finds under its names is of a filter whose state was lost in the second that made
# it. Where nothing is, nothing is deleted: a script that has written once is never refused memory.
ADD = (
    _COMMON
    + f"local FIRST, FURTHER = {_in_lua(FIRST)}, {_in_lua(FURTHER)}"
    + """
local capacity = tonumber(ARGV[3])
local function held()
  local sum = 0
  for _, gen in ipairs(state.gens) do for _, part in ipairs(gen.parts) do sum = sum + part.added end end
  return sum
end
local function expire(name, gen) redis.call('PEXPIRE', name, math.max(1, gen.ends - now)) end
local function reserve(name, gen, part)
  local of = part.hashes == FIRST.hashes and FIRST or FURTHER
  local most = math.floor(part.bytes * 8 / of.reserved)
  if redis.pcall('BF.RESERVE', name, of.error, most, 'NONSCALING').err then return false end
  expire(name, gen)
  return true
end
local function make(gen, p, urls, of, bitmaps)
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
  if not bitmaps and reserve(key(gen.n, p, 0), gen, part) then part.bf = true end
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
local made, new, p = {}, 0, #cur.parts
local part = cur.parts[p]
local function give(name, items)
  if not made[name] then
    if redis.call('EXISTS', name) == 0 and not reserve(name, cur, part) then return nil end
    made[name] = true
  end
  local said, fresh = redis.pcall('BF.MADD', name, unpack(items)), 0
  for n = 1, #items do
    if type(said[n]) ~= 'number' then return nil end
    fresh = fresh + said[n]
  end
  return fresh
end
local i, size = 1, #ARGV[2]
while i <= size do
  if part.full or part.added >= part.capacity then
    local all = 0
    for _, each in ipairs(cur.parts) do all = all + each.capacity end
    p, made = p + 1, {}
    part = make(cur, p, all, FURTHER, part.full)
  end
  if part.bf then
    local some, fresh = {}, 0
    for at = i, math.min(size, i + 16 * (part.capacity - part.added) - 1), 16 do some[#some + 1] = at end
    for shard, items in pairs((by_shard(cur, part, some))) do
      local taken = give(key(cur.n, p, shard), items)
      if taken then fresh = fresh + taken else part.full = true end
    end
    part.added = part.added + fresh
    if not part.full then i, new = i + 16 * #some, new + fresh end
  else
    local shard, start, step = hash(i, cur.n)
    shard = shard % part.shards
    local name, bits, fresh = key(cur.n, p, shard), part.bytes * 8, 0
    if not made[name] then
      if redis.call('EXISTS', name) == 0 then
        redis.call('SETBIT', name, bits - 1, 0)
        expire(name, cur)
      end
      made[name] = true
    end
    for h = 0, part.hashes - 1 do
      if redis.call('SETBIT', name, (start + h * step) % bits, 1) == 0 then fresh = 1 end
    end
    part.added, new, i = part.added + fresh, new + fresh, i + 16
  end
end
state.most = math.max(state.most, held())
redis.call('SET', KEYS[1], cjson.encode(state), 'PX', math.max(1, cur.ends - now))
return new
"""
)

# KEYS[1] the filter  KEYS[2] the crawl's HyperLogLog, or none. ARGV as above, without the capacity.
# Returns a 1 or 0 for each, and about how many different ones the crawl has asked for (-1: nobody
# knows). The newest generation is asked first; of a bitmap that does not have a URL, two bits are
# read on average.
KNOWN = (
    _COMMON
    + """
local found, asked, said, listed = {}, {}, {}, -1
for i = 1, #ARGV[2], 16 do asked[#asked + 1] = i end
local function in_module(gen, p, part)
  local left = {}
  local items, where = by_shard(gen, part, asked)
  for shard, some in pairs(items) do
    local yes = redis.pcall('BF.MEXISTS', key(gen.n, p, shard), unpack(some))
    for n, i in ipairs(where[shard]) do
      if yes[n] == 1 then found[i] = true else left[#left + 1] = i end
    end
  end
  return left
end
local function in_bitmaps(gen, p, part)
  local left, bits = {}, part.bytes * 8
  for _, i in ipairs(asked) do
    local shard, start, step = hash(i, gen.n)
    local name, all = key(gen.n, p, shard % part.shards), true
    for h = 0, part.hashes - 1 do
      if redis.call('GETBIT', name, (start + h * step) % bits) == 0 then all = false break end
    end
    if all then found[i] = true else left[#left + 1] = i end
  end
  return left
end
for g = #state.gens, 1, -1 do
  local gen = state.gens[g]
  if live(gen) then
    for p, part in ipairs(gen.parts) do asked = (part.bf and in_module or in_bitmaps)(gen, p, part) end
  end
end
for i = 1, #ARGV[2], 16 do said[#said + 1] = found[i] and '1' or '0' end
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
return {table.concat(said), listed}
"""
)


@dataclass(frozen=True, slots=True)
class Filter:
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
    account."""

    generations: tuple[Generation, ...]
    keys: int
    memory_bytes: int
    # of Redis, when its memory is full
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


class Filters:
    """The filters, as one process asks for them. Raises what Redis does."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._add = client.register_script(ADD)
        self._known = client.register_script(KNOWN)

    def add(self, one: Filter, fingerprints: Sequence[UUID]) -> int:
        """Remembers finished URLs from now on. Returns how many were not in the newest generation."""
        return sum(
            int(self._add(keys=[one.key], args=[_ms(one.life_s), some, one.capacity]))
            for some in _packed(fingerprints)
        )

    def known(
        self, one: Filter, fingerprints: Sequence[UUID], crawl_id: int | None = None
    ) -> tuple[list[bool], int]:
        """Which of them are remembered; and about how many different ones (1 %) were asked for in
        this crawl's name, -1 where that is not known."""
        keys = [one.key] if crawl_id is None else [one.key, f"{one.key}:crawl:{crawl_id}"]
        found: list[bool] = []
        listed = -1
        for some in _packed(fingerprints):
            said, count = self._known(keys=keys, args=[_ms(one.life_s), some])
            found += [digit == 49 for digit in said]  # ord("1")
            listed = int(count)
        return found, listed

    def state(self, one: Filter) -> FilterState:
        """For people: reads every key's size."""
        seconds, micros = self._client.time()
        now_ms = seconds * 1000 + micros // 1000
        raw = json.loads(self._client.get(one.key) or b'{"gens": []}')
        generations = tuple(
            Generation(
                number=gen["n"],
                age_s=(now_ms - gen["began"]) / 1000,
                left_s=(_end(gen, one) - now_ms) / 1000,
                parts=tuple(
                    Part(
                        each["shards"],
                        each["bytes"],
                        each["hashes"],
                        each["capacity"],
                        each["added"],
                        Form.BF if each.get("bf") else Form.BITMAP,
                    )
                    for each in gen["parts"]
                ),
            )
            for gen in raw["gens"]
            if now_ms < _end(gen, one)
        )
        names = list(self._client.scan_iter(match=f"{one.key}*", count=1000))
        pipeline = self._client.pipeline(transaction=False)
        for name in names:
            pipeline.memory_usage(name, samples=0)
        memory = sum(size or 0 for size in pipeline.execute())
        policy = str(self._client.info("memory").get("maxmemory_policy", "unknown"))
        return FilterState(generations, len(names), memory, policy)

    def forget(self, site_id: int, but: UUID | None = None) -> int:
        """Deletes a site's filters, but for one. Returns how many keys there were."""
        kept = f"{PREFIX}{site_id}:{but}".encode()
        names = self._client.scan_iter(match=f"{PREFIX}{site_id}:*", count=1000)
        gone = [name for name in names if but is None or not name.startswith(kept)]
        for start in range(0, len(gone), 1000):
            self._client.unlink(*gone[start : start + 1000])
        return len(gone)


def _packed(fingerprints: Sequence[UUID]) -> Iterator[bytes]:
    for start in range(0, len(fingerprints), AT_ONCE):
        yield b"".join(each.bytes for each in fingerprints[start : start + AT_ONCE])


def _end(gen: dict[str, Any], one: Filter) -> int:
    return min(int(gen["ends"]), int(gen["began"]) + _ms(one.life_s))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
