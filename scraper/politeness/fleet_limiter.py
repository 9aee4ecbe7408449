"""A host's budget for the whole fleet, in Redis: when the next requests may leave, how many at
once, and how fast now.

Each decision is one atomic script (`politeness/reserve.lua`, `politeness/slow_down.lua`) on Redis's
clock. A process reserves slots ahead for the pages that it is about to fetch, and holds an
allotment of the host's concurrency, which it renews while it works; nothing here waits or spins.

Known weaknesses:

- A Redis that loses its memory forgets slots, rests and the pace. Each process reports what it
  holds with its next call, so only the slots of processes that have not called yet may be granted
  twice: for at most `AHEAD_S`, and never more than two requests for each slot. Only the process
  that caused a rest still remembers it.
- The slots of a process that dies are lost to the host, and so are those that a process reaches too
  late after another process has reserved later ones. Its allotment is lost for `ALLOTMENT_TTL_S`.
- A slot is when a request leaves the process. A new connection (DNS, TLS) takes longer, so the host
  may see two requests closer together than they left.
- A pace that was cut counts for slots reserved afterwards; slots that other processes hold (at most
  2 s ahead) are used.

A token server would have fewer of these weaknesses, and would be one more service to run.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis.asyncio as aredis
from redis.exceptions import RedisError

from scraper.errors import DeferredError
from scraper.infra.redis_clients import report_foreign
from scraper.infra.statements import lua
from scraper.politeness.fleet import Reservation
from scraper.politeness.host_row import host_keys
from scraper.politeness.script_batcher import ScriptBatcher
from scraper.rules import budget as policy
from scraper.rules.budget import Budget, UnusedSlots

# Slots are reserved at most this far ahead.
AHEAD_S = 2.5
# Pages come back after this when Redis does not answer.
AWAY_S = 5.0
# An allotment that is not renewed is free again after this.
ALLOTMENT_TTL_S = 15.0
# A process keeps an allotment this long while other processes have none.
ROTATION_S = 2.0
# A slot is at least the reply's travel time ahead of now, and at most this.
LEAD_MAX_S = 0.5
_COMMON = "politeness/common.lua"


class ServerClock:
    """Converts Redis's clock to the loop's. Each reply bounds the difference from above, since it
    took a while to arrive; the least bound of the last minute is the best. So slots are never
    early, and late by the travel time of the fastest reply."""

    KEPT_S = 30.0
    LEAD_HALVES_S = 2.0

    def __init__(self) -> None:
        # The least bounds of this half minute and of the one before.
        self._least = self._least_before = math.inf
        self._since = self._recorded_at = -math.inf
        self.lead_s = 0.005

    def record(self, asked: float, answered: float, server_s: float) -> float:
        """Records a reply, and returns what to add to Redis's time."""
        upper, lower = answered - server_s, asked - server_s
        # Redis's clock was set back, or it is another Redis.
        if lower > min(self._least, self._least_before):
            self._least = self._least_before = math.inf
        if answered - self._since > self.KEPT_S:
            self._least_before = self._least
            self._least = math.inf
            self._since = answered
        self._least = min(self._least, upper)
        age_s = max(0.0, answered - self._recorded_at)
        faded = 0.5 ** min(60.0, age_s / self.LEAD_HALVES_S)
        self.lead_s = min(LEAD_MAX_S, max(1.25 * (answered - asked) + 0.001, faded * self.lead_s))
        self._recorded_at = answered
        return min(self._least, self._least_before)


class RedisFleetLimiter:
    """The fleet's budgets, as one process asks for them.

    Raises `DeferredError` where Redis is away: the page waits and pays nothing, and no request
    leaves without a budget.
    """

    def __init__(self, redis: aredis.Redis, process: str) -> None:
        self._process = process
        self._clock = ServerClock()
        self._offset_s = 0.0
        self._reserve = ScriptBatcher(redis, lua(_COMMON, "politeness/reserve.lua"))
        self._slow_down = redis.register_script(lua(_COMMON, "politeness/slow_down.lua"))

    async def reserve(
        self,
        host: str,
        budget: Budget,
        *,
        slots: int,
        allotment: int,
        in_flight: int,
        good_answers: int = 0,
        busy_until: float = 0.0,
        unused: UnusedSlots | None = None,
    ) -> Reservation:
        """Reserves up to `slots` slots and an `allotment` of up to as many requests at once.

        `good_answers` came since the last call; this process holds slots up to `busy_until` (loop
        time; 0: none). `unused` slots are returned: if no process has reserved later ones, it is as
        if they had never been reserved; otherwise this call grants no new ones.
        """
        args: list[str | int] = [
            self._process,
            _to_microseconds(budget.interval_s),
            budget.burst,
            budget.concurrency,
            slots,
            allotment,
            in_flight,
            _to_microseconds(AHEAD_S),
            _to_microseconds(self._clock.lead_s),
            _to_microseconds(ALLOTMENT_TTL_S),
            _to_microseconds(ROTATION_S),
            _to_microseconds(busy_until - self._offset_s) if busy_until else 0,
            good_answers,
            _to_microseconds(policy.STEP),
            _to_microseconds(policy.RECOVERS_S),
            unused.end if unused else 0,
            _to_microseconds(unused.interval_s) * unused.slots if unused else 0,
        ]
        try:
            asked, reply = await self._reserve.call(host_keys(host), args)
        except RedisError as error:
            raise DeferredError(AWAY_S) from error
        return self._decode_reservation(asked, reply)

    async def slow_down(
        self, host: str, budget: Budget, *, rest_s: float, why: str, age_s: float | None
    ) -> None:
        """Rests the host for `rest_s`: no process gets a slot before that is over. `age_s`: how
        long ago the request left whose answer is a reason to cut the pace; None: there was no such
        request."""
        args: list[str | int] = [
            _to_microseconds(rest_s),
            why,
            -1 if age_s is None else _to_microseconds(age_s),
            _to_microseconds(policy.SETTLES_S),
            _to_microseconds(policy.CUT),
            _to_microseconds(policy.FLOOR),
            _to_microseconds(budget.interval_s),
            budget.concurrency,
            _to_microseconds(policy.RECOVERS_S),
        ]
        # The page's own retry waits as long anyway.
        with suppress(RedisError):
            _, foreign = await self._slow_down(keys=host_keys(host), args=args)
            report_foreign(foreign)

    def _decode_reservation(self, asked: float, reply: Sequence[Any]) -> Reservation:
        *numbers, foreign = reply
        now, start, first, pace, slots, allotment, contended, _, end, returned = map(int, numbers)
        report_foreign(foreign)
        answered = asyncio.get_running_loop().time()
        self._offset_s = offset = self._clock.record(asked, answered, now / 1e6)
        return Reservation(
            start_at=start / 1e6 + offset,
            first_at=first / 1e6 + offset,
            interval_s=pace / 1e6,
            slots=slots,
            allotment=allotment,
            contended=bool(contended),
            end=end,
            returned=bool(returned),
        )


def _to_microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
