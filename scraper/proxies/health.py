"""What the fleet knows of its proxies, in Redis: requests, answers, latency and quarantines by
(proxy, host).

One atomic script a decision, on the server's clock. Reports come added up, a few a second from each
process; a strike (`rules.proxies.QUARANTINES_S`) comes at once, and what several processes say of
one failure is one strike, since a proxy in quarantine gets no further ones. Only ids are stored, no
address and no credential.

A Redis that loses its memory forgets health and quarantines: banned proxies are found out once
more, at the price of a request each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio as aredis
from redis.exceptions import RedisError

from scraper.errors import DeferredError
from scraper.rules.proxies import (
    FORGIVEN_AFTER_S,
    QUARANTINES_S,
    STREAK_MAX,
    ProxyStats,
)

# It stands in place of a host for the proxy as a whole.
EVERYWHERE = "*"
PREFIX = "scraper:proxies:"
KEPT_S = 14 * 86_400
# Pages come back after this when Redis does not answer.
AWAY_S = 5.0
FAILING = "failing"

# There is a hash a host: id ->
# "requests:answered:failed:streak:latency_us:success_ppm:free_at_us:strikes:why".
_COMMON = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local forgiven_us, keep = tonumber(ARGV[1]), tonumber(ARGV[2])
local ladder = {}
for step in string.gmatch(ARGV[3], '[^,]+') do ladder[#ladder + 1] = tonumber(step) end

local function read(id)
  local text = redis.call('HGET', KEYS[1], id) or '0:0:0:0:0:1000000:0:0:'
  local r = {}
  local pattern = '(%-?%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(.*)'
  r.n, r.ok, r.bad, r.streak, r.lat, r.rate, r.free, r.strikes, r.why = string.match(text, pattern)
  for k, v in pairs(r) do if k ~= 'why' then r[k] = tonumber(v) end end
  return r
end

local function write(id, r)
  redis.call('HSET', KEYS[1], id, string.format('%d:%d:%d:%d:%.0f:%.0f:%.0f:%d:%s',
    r.n, r.ok, r.bad, r.streak, r.lat, r.rate, r.free, r.strikes, r.why))
  redis.call('EXPIRE', KEYS[1], keep)
end

local function strike(r, why, least)
  if r.free <= now then
    local forgiven = math.floor((now - r.free) / forgiven_us)
    r.strikes = math.max(0, r.strikes - forgiven) + 1
    r.free = now + ladder[math.min(r.strikes, #ladder)]
    r.why = why
    r.streak = 0
  end
  r.free = math.max(r.free, now + least)
end
"""

# KEYS[1] the host's hash. ARGV forgiven_us, keep_s, ladder, id, why, least_us. Returns how long it
# rests, in us.
STRIKE = (
    _COMMON
    + """
local r = read(ARGV[4])
strike(r, ARGV[5], tonumber(ARGV[6]))
write(ARGV[4], r)
return string.format('%.0f', r.free - now)
"""
)

# KEYS[1] the host's hash. ARGV forgiven_us, keep_s, ladder, streak_max, why, then five a proxy: id,
# requests, answered, failed, latency of the answered ones in us, added up. Averages move by a fifth
# a request at first hand, and by a tenth for the success, so that twenty good answers make up for a
# bad time.
REPORT = (
    _COMMON
    + """
for i = 6, #ARGV, 5 do
  local r = read(ARGV[i])
  local ok, bad, latency = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  r.n, r.ok, r.bad = r.n + tonumber(ARGV[i + 1]), r.ok + ok, r.bad + bad
  if ok > 0 then
    r.streak = 0
    local mean = latency / ok
    if r.lat == 0 then r.lat = mean else r.lat = r.lat + (mean - r.lat) * (1 - 0.8 ^ ok) end
  else
    r.streak = r.streak + bad
  end
  if ok + bad > 0 then
    r.rate = r.rate + (1000000 * ok / (ok + bad) - r.rate) * (1 - 0.9 ^ (ok + bad))
  end
  if r.streak >= tonumber(ARGV[4]) then strike(r, ARGV[5], 0) end
  write(ARGV[i], r)
end
return 1
"""
)

# KEYS hashes. Returns the server's time in us and each hash.
READ = """
local t = redis.call('TIME')
local found = {string.format('%.0f', t[1] * 1000000 + t[2])}
for i = 1, #KEYS do found[i + 1] = redis.call('HGETALL', KEYS[i]) end
return found
"""

_RULES = (
    round(FORGIVEN_AFTER_S * 1e6),
    KEPT_S,
    ",".join(str(round(step * 1e6)) for step in QUARANTINES_S),
)


@dataclass(slots=True)
class Tally:
    """What a process saw of a proxy at a host since it last reported."""

    requests: int = 0
    answered: int = 0
    failed: int = 0
    latency_s: float = 0.0


def key_of(host: str) -> str:
    return f"{PREFIX}{host}"


class ProxyHealth:
    """The fleet's knowledge, as one process asks for it. Raises `DeferredError` where Redis is
    away."""

    def __init__(self, client: aredis.Redis) -> None:
        self._strike = client.register_script(STRIKE)
        self._report = client.register_script(REPORT)
        self._read = client.register_script(READ)

    async def read(self, hosts: Iterable[str], now: float) -> dict[str, dict[str, ProxyStats]]:
        """By host, by proxy. `free_at` is on the clock that `now` is of."""
        names = list(hosts)
        try:
            at, *answers = await self._read(keys=[key_of(host) for host in names])
        except RedisError as error:
            raise DeferredError(AWAY_S) from error
        return {
            host: _healths(raw, now - int(at) / 1e6)
            for host, raw in zip(names, answers, strict=True)
        }

    async def strike(self, host: str, proxy_id: str, why: str, least_s: float = 0.0) -> float:
        """One strike, unless it rests already. Returns the seconds for which it does now."""
        try:
            args: list[str | int] = [*_RULES, proxy_id, why, round(least_s * 1e6)]
            return int(await self._strike(keys=[key_of(host)], args=args)) / 1e6
        except RedisError as error:
            raise DeferredError(AWAY_S) from error

    async def report(self, host: str, tallies: Mapping[str, Tally]) -> None:
        """Adds what was seen. A streak of failures is a strike of its own."""
        args: list[str | int] = [*_RULES, STREAK_MAX, FAILING]
        for proxy_id, tally in tallies.items():
            args += [
                proxy_id,
                tally.requests,
                tally.answered,
                tally.failed,
                round(tally.latency_s * 1e6),
            ]
        try:
            await self._report(keys=[key_of(host)], args=args)
        except RedisError as error:
            raise DeferredError(AWAY_S) from error


def read_all_stats(client: redis.Redis) -> dict[str, dict[str, ProxyStats]]:
    """Everything that is known, for people: by host (`EVERYWHERE` for the proxies as a whole),
    `free_at` as seconds from now, below 0 where it has passed."""
    keys = sorted(client.scan_iter(match=f"{PREFIX}*", count=1000))
    if not keys:
        return {}
    at, *answers = client.register_script(READ)(keys=keys)
    names = [key.decode().removeprefix(PREFIX) for key in keys]
    return {host: _healths(raw, -int(at) / 1e6) for host, raw in zip(names, answers, strict=True)}


def _healths(raw: list[Any], shift_s: float) -> dict[str, ProxyStats]:
    healths = {}
    for proxy_id, text in zip(raw[::2], raw[1::2], strict=True):
        n, ok, bad, _, latency, rate, free, strikes, why = text.decode().split(":", 8)
        healths[proxy_id.decode()] = ProxyStats(
            requests=int(n),
            answered=int(ok),
            failed=int(bad),
            success=int(rate) / 1e6,
            latency_s=int(latency) / 1e6,
            free_at=int(free) / 1e6 + shift_s,
            strikes=int(strikes),
            why=why,
        )
    return healths
