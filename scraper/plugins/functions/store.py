"""Running calls of users' functions in Redis: which worker has which group, and results on their
way back.

    scraper:call:ID          hash
        state    open, or cancelled: workers begin no further input
        g:N      the time until which a worker has the group, by Redis's clock; 0: none has
        pending  bytes of results that the caller has not read
    scraper:call:ID:results  stream
        d        {"g": N, "r": [[index, 1, value] | [index, 0, failure], …]}, and with them
                 "b": [indexes that go back], "end": true, "refused": "…"

Both keys expire half a minute after the caller's last sign of life. The caller, not Redis, knows
which results are missing, and sends lost groups again. It removes entries only after it has read
them, so that a lost reply of Redis loses no result.

Weakness: a Redis that is emptied forgets which worker has which group. Workers report it again
within two seconds; until then, two workers may get a group that waited in the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import redis
import redis.asyncio as aredis

CALLER_TTL_S = 30.0
# With this many unread bytes of one call, workers wait until the caller reads.
PENDING_MAX_BYTES = 32_000_000
# Entries that are read at once.
READ_MAX = 50

GONE, CANCELLED, DONE, FULL = -1, 0, 1, 2

# ARGV  1 group  2 lease  3 whether it is the first time: a group is begun once.
HOLD = """
local s = redis.call('HMGET', KEYS[1], 'state', 'g:' .. ARGV[1])
if not s[1] then return -1 end
if s[1] ~= 'open' or not s[2] or (s[2] ~= '0' and ARGV[3] == '1') then return 0 end
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], 'g:' .. ARGV[1], string.format('%.0f', t[1] * 1000000 + t[2] + ARGV[2]))
return 1
"""

# ARGV  1 entry  2 most bytes that may be pending  3 time to live.
PUSH = """
local s = redis.call('HMGET', KEYS[1], 'state', 'pending')
if not s[1] then return -1 end
if s[1] ~= 'open' then return 0 end
local pending = tonumber(s[2] or '0')
if pending > 0 and pending + #ARGV[1] > tonumber(ARGV[2]) then return 2 end
redis.call('XADD', KEYS[2], '*', 'd', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'pending', #ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
"""

# ARGV  1 time to live  2 a group that is sent now  3 …: those that are not meant any more.
SENT = """
redis.call('HSETNX', KEYS[1], 'state', 'open')
redis.call('HSET', KEYS[1], 'g:' .. ARGV[2], '0')
for i = 3, #ARGV do redis.call('HDEL', KEYS[1], 'g:' .. ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""

# ARGV  1 time to live  2 …: the groups that are out. Returns {1 where Redis had forgotten the call,
# now, {until of each}}.
LOOK = """
local forgotten = redis.call('HSETNX', KEYS[1], 'state', 'open')
local t = redis.call('TIME')
local untils = {}
for i = 2, #ARGV do
  if forgotten == 1 then redis.call('HSET', KEYS[1], 'g:' .. ARGV[i], '0') end
  untils[#untils + 1] = redis.call('HGET', KEYS[1], 'g:' .. ARGV[i]) or '0'
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return {forgotten, string.format('%.0f', t[1] * 1000000 + t[2]), untils}
"""

# ARGV  1 bytes  2 …: entries that were read.
HEARD = """
for i = 2, #ARGV do redis.call('XDEL', KEYS[2], ARGV[i]) end
if redis.call('EXISTS', KEYS[1]) == 1
    and redis.call('HINCRBY', KEYS[1], 'pending', -ARGV[1]) < 0 then
  redis.call('HSET', KEYS[1], 'pending', 0)
end
"""

# ARGV  1 time to live.
CANCEL = """
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'state', 'cancelled')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""


class Groups:
    """The groups of calls, for a worker. Methods raise `RedisError`."""

    def __init__(self, client: aredis.Redis, lease_s: float) -> None:
        self._lease_us = round(lease_s * 1e6)
        self._hold, self._push = client.register_script(HOLD), client.register_script(PUSH)

    async def claim(self, call: str, group: int) -> bool:
        """Returns False if the call has ended, or a worker has already begun the group."""
        return await self._held(call, group, 1) == DONE

    async def keep(self, call: str, group: int) -> int:
        """Renews the lease. Returns DONE, CANCELLED if the worker must stop, or GONE if Redis does
        not know the call."""
        return await self._held(call, group, 0)

    async def push(self, call: str, entry: Mapping[str, Any]) -> int:
        """Returns DONE, CANCELLED, GONE, or FULL if too many bytes are unread."""
        args: list[bytes | int] = [orjson.dumps(entry), PENDING_MAX_BYTES, _ms(CALLER_TTL_S)]
        return int(await self._push(keys=keys(call), args=args))

    async def _held(self, call: str, group: int, first: int) -> int:
        return int(await self._hold(keys=keys(call)[:1], args=[group, self._lease_us, first]))


class Look(NamedTuple):
    """The leases of groups, in seconds by Redis's clock; None before a worker begins a group.
    `forgotten`: Redis did not know the call, and may have lost its messages as well."""

    forgotten: bool
    now: float
    until: Mapping[int, float | None]


class Entry(NamedTuple):
    key: bytes
    raw: bytes

    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = orjson.loads(self.raw)
        return content


class Calls:
    """One call, for its caller. Methods raise `RedisError`."""

    def __init__(self, client: redis.Redis, call: str) -> None:
        self._client, self._keys = client, keys(call)
        self._sent, self._look = client.register_script(SENT), client.register_script(LOOK)
        self._heard, self._cancel = client.register_script(HEARD), client.register_script(CANCEL)

    def sent(self, group: int, stale: Collection[int] = ()) -> None:
        """Records a group before it is sent. Workers neither begin nor continue the stale ones."""
        self._sent(keys=self._keys, args=[_ms(CALLER_TTL_S), group, *stale])

    def look(self, groups: Collection[int]) -> Look:
        """Renews the call, and returns the leases of the groups that were sent."""
        forgotten, now, untils = self._look(keys=self._keys, args=[_ms(CALLER_TTL_S), *groups])
        until = {group: int(at) / 1e6 or None for group, at in zip(groups, untils, strict=True)}
        return Look(bool(forgotten), int(now) / 1e6, until)

    def read(self, wait_s: float) -> list[Entry]:
        """Returns the entries that workers have pushed, oldest first. Waits up to `wait_s` for the
        first one."""
        streams: Any = self._client.xread(
            {self._keys[1]: "0"}, count=READ_MAX, block=_ms(wait_s) or None
        )
        return [Entry(key, values[b"d"]) for key, values in streams[0][1]] if streams else []

    def heard(self, entries: Sequence[Entry]) -> None:
        """Removes entries that the caller has read."""
        self._heard(
            keys=self._keys,
            args=[sum(len(entry.raw) for entry in entries), *(entry.key for entry in entries)],
        )

    def close(self) -> None:
        """Cancels the call: workers stop all of its groups."""
        self._cancel(keys=self._keys, args=[_ms(CALLER_TTL_S)])
        self._client.close()


def keys(call: str) -> list[str]:
    return [f"scraper:call:{call}", f"scraper:call:{call}:results"]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
