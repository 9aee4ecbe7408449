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

from scraper.infra.statements import lua

CALLER_TTL_S = 30.0
# With this many unread bytes of one call, workers wait until the caller reads.
PENDING_MAX_BYTES = 32_000_000
# This many entries are read at once.
READ_MAX = 50

GONE, CANCELLED, DONE, FULL = -1, 0, 1, 2

SCRIPTS = "plugins/functions/scripts"


class GroupLeases:
    """The groups of calls, for a worker. Methods raise `RedisError`."""

    def __init__(self, client: aredis.Redis, lease_s: float) -> None:
        self._lease_us = round(lease_s * 1e6)
        self._hold = client.register_script(lua(f"{SCRIPTS}/hold.lua"))
        self._push = client.register_script(lua(f"{SCRIPTS}/push.lua"))

    async def claim(self, call: str, group: int) -> bool:
        """Returns False if the call has ended, or a worker has already begun the group."""
        return await self._hold_group(call, group, 1) == DONE

    async def renew(self, call: str, group: int) -> int:
        """Renews the lease. Returns DONE, CANCELLED if the worker must stop, or GONE if Redis does
        not know the call."""
        return await self._hold_group(call, group, 0)

    async def push(self, call: str, entry: Mapping[str, Any]) -> int:
        """Returns DONE, CANCELLED, GONE, or FULL if too many bytes are unread."""
        args: list[bytes | int] = [
            orjson.dumps(entry),
            PENDING_MAX_BYTES,
            _milliseconds(CALLER_TTL_S),
        ]
        return int(await self._push(keys=redis_keys(call), args=args))

    async def _hold_group(self, call: str, group: int, first: int) -> int:
        return int(await self._hold(keys=redis_keys(call)[:1], args=[group, self._lease_us, first]))


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


class CallStore:
    """One call, for its caller. Methods raise `RedisError`."""

    def __init__(self, client: redis.Redis, call: str) -> None:
        self._client, self._keys = client, redis_keys(call)
        self._record_sent = client.register_script(lua(f"{SCRIPTS}/record_sent.lua"))
        self._look = client.register_script(lua(f"{SCRIPTS}/look.lua"))
        self._remove = client.register_script(lua(f"{SCRIPTS}/remove_entries.lua"))
        self._cancel = client.register_script(lua(f"{SCRIPTS}/cancel.lua"))

    def record_sent(self, group: int, stale: Collection[int] = ()) -> None:
        """Records a group before it is sent. Workers neither begin nor continue the stale ones."""
        self._record_sent(keys=self._keys, args=[_milliseconds(CALLER_TTL_S), group, *stale])

    def look(self, groups: Collection[int]) -> Look:
        """Renews the call, and returns the leases of the groups that were sent."""
        forgotten, now, untils = self._look(
            keys=self._keys, args=[_milliseconds(CALLER_TTL_S), *groups]
        )
        until = {group: int(at) / 1e6 or None for group, at in zip(groups, untils, strict=True)}
        return Look(bool(forgotten), int(now) / 1e6, until)

    def read(self, wait_s: float) -> list[Entry]:
        """Returns the entries that workers have pushed, oldest first. Waits up to `wait_s` for the
        first one."""
        streams: Any = self._client.xread(
            {self._keys[1]: "0"}, count=READ_MAX, block=_milliseconds(wait_s) or None
        )
        return [Entry(key, values[b"d"]) for key, values in streams[0][1]] if streams else []

    def remove_entries(self, entries: Sequence[Entry]) -> None:
        """Removes entries that the caller has read."""
        self._remove(
            keys=self._keys,
            args=[sum(len(entry.raw) for entry in entries), *(entry.key for entry in entries)],
        )

    def close(self) -> None:
        """Cancels the call: workers stop all of its groups."""
        self._cancel(keys=self._keys, args=[_milliseconds(CALLER_TTL_S)])
        self._client.close()


def redis_keys(call: str) -> list[str]:
    return [f"scraper:call:{call}", f"scraper:call:{call}:results"]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
