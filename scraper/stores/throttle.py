"""A host's budget for the whole fleet, in Redis: when the next requests may leave, and how many at once.

One atomic script a decision, on the server's clock. A process reserves slots ahead for the pages it is about to fetch
and holds a share of the host's concurrency, renewed while it works; nothing here waits or spins.

Weaknesses, knowingly: a Redis that loses its memory forgets the slots that were reserved, so for one reservation
(`AHEAD_S` at the most) a host may see up to twice its rate; the slots of a worker that dies are lost to the host. A
token server of its own would have neither, and would be one more thing to run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import redis.asyncio as aredis
from redis.exceptions import RedisError

from scraper.errors import DeferredError

AHEAD_S = 5.0  # slots are reserved this far ahead at the most
AWAY_S = 5.0  # pages come back after this when Redis does not answer
SHARE_TTL_S = 15.0  # a share that is not renewed is free again after this

# KEYS[1] pace: next free time of the host, in microseconds of the server's clock
# KEYS[2] shares: hash of process -> "granted:wanted:expires at"
# ARGV    interval_us, slots wanted, ahead_us, process, share wanted, in flight, concurrency, ttl_us
# returns {wait until the first slot in us, slots granted, share}
#
# What is under way stays counted (`held`), even above the share: a process that has too much is told its new share, and
# the requests it may not replace count against it until they end. So the sum never exceeds the concurrency.
RESERVE = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local interval, slots, ahead = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local me, want, inflight = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local limit, ttl = tonumber(ARGV[7]), tonumber(ARGV[8])

local others, count, starving = 0, 0, {}
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  if all[i] ~= me then
    local granted, wanted, expires = string.match(all[i + 1], '(%d+):(%d+):(%d+)')
    if tonumber(expires) < now then
      redis.call('HDEL', KEYS[2], all[i])
    else
      others = others + granted
      count = count + 1
      starving[count] = {tonumber(granted), tonumber(wanted)}
    end
  end
end
local fair = math.max(1, math.floor(limit / (count + 1)))
local cap = limit
for i = 1, count do
  if starving[i][1] < math.min(starving[i][2], fair) then cap = fair end
end
local share = math.max(0, math.min(want, cap, limit - others))
local held = math.max(inflight, share)
if want == 0 and inflight == 0 then
  redis.call('HDEL', KEYS[2], me)
else
  redis.call('HSET', KEYS[2], me, string.format('%d:%d:%.0f', held, want, now + ttl))
  redis.call('PEXPIRE', KEYS[2], math.ceil(ttl / 1000))
end

local free = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0'))
local first = free - now
local granted = 0
if interval == 0 then
  if first == 0 then granted = slots end
elseif slots > 0 and first <= ahead then
  granted = math.min(slots, math.floor((ahead - first) / interval) + 1)
  local after = free + granted * interval
  redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000) + 1000)
end
return {string.format('%.0f', first), granted, share}
"""

# KEYS[1] pace; ARGV[1] rest_us. The host's next slot moves to now + rest, never back.
REST = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local until_us = now + tonumber(ARGV[1])
local free = tonumber(redis.call('GET', KEYS[1]) or '0')
if until_us > free then
  redis.call('SET', KEYS[1], string.format('%.0f', until_us), 'PX', math.ceil(ARGV[1] / 1000) + 1000)
end
return 1
"""


@dataclass(frozen=True, slots=True)
class Reservation:
    """`slots` requests may leave, the first in `first_s` seconds and each `interval_s` after the one before;
    `share` may be under way at once in this process, which may be fewer than there are: then none is begun until enough
    have ended. With no slots, `first_s` says how long the host has no room."""

    first_s: float
    slots: int
    share: int


class Throttle:
    """The fleet's budgets, as one process asks for them. Keys: `scraper:pace:HOST`, `scraper:share:HOST`.

    Raises `DeferredError` where Redis is away: that is no page's fault, and no request leaves without a budget.
    """

    def __init__(self, redis: aredis.Redis, process: str) -> None:
        self._process = process
        self._reserve = redis.register_script(RESERVE)
        self._rest = redis.register_script(REST)

    async def reserve(
        self, host: str, *, interval_s: float, slots: int, share: int, inflight: int, concurrency: int
    ) -> Reservation:
        """Asks for `slots` requests and a `share` of the host's `concurrency`. `interval_s` 0: no rate limit.

        Raises `DeferredError` where Redis does not answer: nothing is fetched without a budget.
        """
        args: list[str | int] = [
            round(interval_s * 1e6),
            slots,
            round(max(AHEAD_S, interval_s) * 1e6),
            self._process,
            share,
            inflight,
            concurrency,
            round(SHARE_TTL_S * 1e6),
        ]
        try:
            keys = [f"scraper:pace:{host}", f"scraper:share:{host}"]
            first_us, granted, mine = await self._reserve(keys=keys, args=args)
        except RedisError as error:  # no budget to be had: the page waits, and pays nothing
            raise DeferredError(AWAY_S) from error
        return Reservation(first_s=int(first_us) / 1e6, slots=int(granted), share=int(mine))

    async def rest(self, host: str, seconds: float) -> None:
        """The host asked for a pause: nobody gets a slot before it is over."""
        with suppress(RedisError):  # the page's own retry waits as long anyway
            await self._rest(keys=[f"scraper:pace:{host}"], args=[round(seconds * 1e6)])
