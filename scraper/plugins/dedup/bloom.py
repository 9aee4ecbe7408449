"""Remembers a site's finished URLs for a while: Bloom filters in Redis, by Lua and on Redis's
clock.

A filter cannot forget a single URL, so URLs are forgotten by generations. A generation receives
URLs for half of the time that a URL is remembered (its life), and is dropped one life after it
began: two generations live at a time, and a URL is remembered for between half a life and a life.
More and shorter generations would be more exact, but need more than two bytes per URL, since each
generation adds its own false positives.

The keys of a filter, where SITE is the site's number and ID is `sites.filter_id`; all of them
expire by themselves:

    scraper:dedup:SITE:ID               its generations as JSON, see `Generation`; times in ms
    scraper:dedup:SITE:ID:GEN:PART:N    shard N of a generation's part: a bitmap, 1 MB at most
    scraper:dedup:SITE:ID:crawl:CRAWL   a HyperLogLog of the product URLs in a crawl's listings

A URL's 128-bit fingerprint is four numbers: the shard, the start and step of its bits (double
hashing: Kirsch and Mitzenmacher, 2006), and how far the start moves in each generation. So a URL
that is a false positive in one generation is most likely none in the next.

The filters are only hints. If Redis loses its memory, evicts a shard or is restored from a backup,
pages are fetched again. A URL is added only once its page is finished
(`scraper.plugins.dedup.remembered_links`), so only false positives can be skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import redis
from redis.exceptions import ResponseError

from scraper.infra.redis_clients import report_foreign
from scraper.infra.statements import lua
from scraper.plugins.dedup.sizing import FIRST, FURTHER, FilterPart, Shape, false_positives

# The scripts count a longer state as lost, too.
STATE_MAX_BYTES = 1_000_000
PREFIX = "scraper:dedup:"
# URLs per call: these take 2 ms, during which Redis answers no other client.
AT_ONCE = 200


def _as_lua(shape: Shape) -> str:
    return f"{{bits = {shape.bits}, hashes = {shape.hashes}}}"


_COMMON = "plugins/dedup/common.lua"
_SHAPES = f"local FIRST, FURTHER = {_as_lua(FIRST)}, {_as_lua(FURTHER)}\n"
ADD = lua(_COMMON) + _SHAPES + lua("plugins/dedup/add.lua")
LOOKUP = lua(_COMMON, "plugins/dedup/lookup.lua")


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter's name, how long it remembers a URL, and its capacity in URLs."""

    site_id: int
    id: UUID
    life_s: float
    capacity: int

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.site_id}:{self.id}"


@dataclass(frozen=True, slots=True)
class Generation:
    """The URLs added within half a life from `age_s` ago on; forgotten in `left_s`."""

    number: int
    age_s: float
    left_s: float
    parts: tuple[FilterPart, ...]


@dataclass(frozen=True, slots=True)
class FilterState:
    """A filter's state in Redis. `memory_bytes` includes its keys, as Redis reports it; `policy` is
    Redis's `maxmemory-policy`."""

    generations: tuple[Generation, ...]
    keys: int
    memory_bytes: int
    policy: str

    @property
    def parts(self) -> list[FilterPart]:
        return [part for generation in self.generations for part in generation.parts]

    @property
    def urls(self) -> int:
        return sum(part.added for part in self.parts)

    @property
    def false_positives(self) -> float:
        return false_positives(self.parts)


class FilterStore:
    """Access to the filters. Raises `RedisError`."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._add = client.register_script(ADD)
        self._lookup = client.register_script(LOOKUP)

    def add(self, bloom: BloomFilter, fingerprints: Sequence[UUID]) -> int:
        """Remembers finished URLs. Returns how many were not in the newest generation."""
        return sum(
            int(self._add(keys=[bloom.key], args=[_to_ms(bloom.life_s), chunk, bloom.capacity]))
            for chunk in _pack_chunks(fingerprints)
        )

    def lookup(
        self, bloom: BloomFilter, fingerprints: Sequence[UUID], crawl_id: int | None = None
    ) -> tuple[list[bool], int]:
        """Returns which URLs are remembered, and how many different ones (within 1 %) were looked
        up for this crawl, -1 if unknown."""
        keys = [bloom.key] if crawl_id is None else [bloom.key, f"{bloom.key}:crawl:{crawl_id}"]
        remembered: list[bool] = []
        listed = -1
        for chunk in _pack_chunks(fingerprints):
            digits, listed = self._lookup(keys=keys, args=[_to_ms(bloom.life_s), chunk])
            remembered += [digit == ord("1") for digit in digits]
        return remembered, int(listed)

    def read_state(self, bloom: BloomFilter) -> FilterState:
        """Reads a filter's state for operators. Slow: asks for the size of each key."""
        seconds, micros = self._client.time()
        now_ms = seconds * 1000 + micros // 1000
        generations = self._read_generations(bloom, now_ms)
        keys = list(self._client.scan_iter(match=f"{bloom.key}*", count=1000))
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.memory_usage(key, samples=0)
        memory = sum(size or 0 for size in pipeline.execute())
        policy = str(self._client.info("memory").get("maxmemory_policy", "unknown"))
        return FilterState(generations, len(keys), memory, policy)

    def _read_generations(self, bloom: BloomFilter, now_ms: int) -> tuple[Generation, ...]:
        """Returns the generations that are still remembered; none if the stored state is
        invalid."""
        life_ms = _to_ms(bloom.life_s)
        try:
            text = self._client.getrange(bloom.key, 0, STATE_MAX_BYTES)
            parsed = [
                _parse_generation(raw, life_ms, now_ms)
                for raw in json.loads(text or b'{"gens": []}')["gens"]
            ]
        except (ResponseError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
            report_foreign(bloom.key.encode())
            return ()
        return tuple(generation for generation in parsed if generation is not None)

    def delete_filters(self, site_id: int, kept: UUID | None = None) -> int:
        """Deletes a site's filters, except one. Returns how many keys were deleted."""
        kept_prefix = f"{PREFIX}{site_id}:{kept}".encode()
        keys = self._client.scan_iter(match=f"{PREFIX}{site_id}:*", count=1000)
        deleted = [key for key in keys if kept is None or not key.startswith(kept_prefix)]
        for start in range(0, len(deleted), 1000):
            self._client.unlink(*deleted[start : start + 1000])
        return len(deleted)


def _parse_generation(raw: dict[str, Any], life_ms: int, now_ms: int) -> Generation | None:
    """Returns the generation; None if it is forgotten."""
    ends_ms = min(int(raw["ends"]), int(raw["began"]) + life_ms)
    if now_ms >= ends_ms or any(part.get("bf") for part in raw["parts"]):
        return None
    parts = tuple(
        FilterPart(part["shards"], part["bytes"], part["hashes"], part["capacity"], part["added"])
        for part in raw["parts"]
    )
    age_s, left_s = (now_ms - raw["began"]) / 1000, (ends_ms - now_ms) / 1000
    return Generation(raw["n"], age_s, left_s, parts)


def _pack_chunks(fingerprints: Sequence[UUID]) -> Iterator[bytes]:
    for start in range(0, len(fingerprints), AT_ONCE):
        yield b"".join(uuid.bytes for uuid in fingerprints[start : start + AT_ONCE])


def _to_ms(seconds: float) -> int:
    return round(seconds * 1000)
