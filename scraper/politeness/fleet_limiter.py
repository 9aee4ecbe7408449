"""A host's budget for the whole fleet, in Redis: when the next requests may leave, how many at
once, and how fast now.

One atomic script a decision (`scraper.politeness.scripts`), on Redis's clock. A process reserves
slots ahead for the pages it is about to fetch and holds an allotment of the host's places, renewed
while it works; nothing here waits or spins.

Weaknesses, knowingly:

- A Redis that loses its memory forgets slots, rests and the pace. Each process says what it holds
  with its next question, so only the slots of those who have not asked yet may be given out twice:
  for `RESERVED_AHEAD_S` (2 s) at the most, and never more than two requests for each slot. A rest
  is remembered by the process that met it alone.
- Slots of a process that dies are lost to the host, and those that it comes too late for where
  another process has got later ones meanwhile; its places for `ALLOTMENT_TTL_S`.
- A slot is where the request leaves the process. What a new connection takes (DNS, TLS) is on top,
  so that the host may see two requests closer together than they left.
- A pace that was cut counts for slots reserved from then on; what others hold (2 s at the most) is
  used.

A token server of its own would have fewer of them, and would be one more thing to run.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

import redis.asyncio as aredis
from redis.exceptions import RedisError

from scraper.errors import DeferredError
from scraper.politeness.fleet import Reservation
from scraper.politeness.script_batcher import ScriptBatcher
from scraper.politeness.scripts import RESERVE, SLOW
from scraper.rules import budget as policy
from scraper.rules.budget import Budget, UnusedSlots

# Slots are reserved this far ahead at the most.
AHEAD_S = 2.5
# Pages come back after this when Redis does not answer.
AWAY_S = 5.0
# An allotment that is not renewed is free again after this.
ALLOTMENT_TTL_S = 15.0
# A process keeps a place for this long while others have none.
PLACE_TURN_S = 2.0
# A slot is reserved this much ahead of now at the most, for the answer to travel.
LEAD_MAX_S = 0.5


class ServerClock:
    """From Redis's clock to the loop's. Every answer bounds the difference from above (it was on
    its way for a while); the least bound of the last minute is the best. So slots are never early,
    and late by the fastest answer's way back."""

    KEPT_S = 30.0
    LEAD_HALVES_S = 2.0

    def __init__(self) -> None:
        # The least bounds of this half minute and of the one before.
        self._now = self._before = math.inf
        self._since = -math.inf
        self.lead_s = 0.005
        self._heard_at = -math.inf

    def record(self, asked: float, answered: float, server_s: float) -> float:
        """Takes an answer; returns what to add to Redis's time."""
        upper, lower = answered - server_s, asked - server_s
        # Redis's clock was set back, or it is another Redis.
        if lower > min(self._now, self._before):
            self._now = self._before = math.inf
        if answered - self._since > self.KEPT_S:
            self._before, self._now, self._since = self._now, math.inf, answered
        self._now = min(self._now, upper)
        forgotten = 0.5 ** min(60.0, max(0.0, answered - self._heard_at) / self.LEAD_HALVES_S)
        self.lead_s = min(
            LEAD_MAX_S, max(1.25 * (answered - asked) + 0.001, forgotten * self.lead_s)
        )
        self._heard_at = answered
        return min(self._now, self._before)


class RedisFleetLimiter:
    """The fleet's budgets, as one process asks for them. Keys: `scraper:host:HOST`,
    `scraper:places:HOST`.

    Raises `DeferredError` where Redis is away: that is no page's fault, and no request leaves
    without a budget.
    """

    def __init__(self, redis: aredis.Redis, process: str) -> None:
        self._process = process
        self._clock = ServerClock()
        self._offset_s = 0.0
        self._reserve = ScriptBatcher(redis, RESERVE)
        self._slow = redis.register_script(SLOW)

    async def reserve(
        self,
        host: str,
        budget: Budget,
        *,
        slots: int,
        allotment: int,
        inflight: int,
        good: int = 0,
        busy_until: float = 0.0,
        back: UnusedSlots | None = None,
    ) -> Reservation:
        """Asks for `slots` requests and an `allotment` of the host's places. `good` answers came
        since it was last asked; this process holds slots up to `busy_until` (loop time; 0: none).
        Slots that come `back` are as if they had never been reserved, if nobody has got later ones
        meanwhile; otherwise there are no new ones.

        Raises `DeferredError` where Redis does not answer: nothing is fetched without a budget.
        """
        loop = asyncio.get_running_loop()
        args: list[str | int] = [
            self._process,
            _us(budget.interval_s),
            budget.burst,
            budget.concurrency,
            slots,
            allotment,
            inflight,
            _us(AHEAD_S),
            _us(self._clock.lead_s),
            _us(ALLOTMENT_TTL_S),
            _us(PLACE_TURN_S),
            _us(busy_until - self._offset_s) if busy_until else 0,
            good,
            _us(policy.STEP),
            _us(policy.RECOVERS_S),
            back.end if back else 0,
            _us(back.interval_s) * back.slots if back else 0,
        ]
        try:
            asked, answer = await self._reserve.ask(_keys(host), args)
        except RedisError as error:
            # No budget can be had: the page waits, and pays nothing.
            raise DeferredError(AWAY_S) from error
        now, start, first, pace, granted, mine, waiting, _, end, took_back = (
            int(value) for value in answer
        )
        self._offset_s = offset = self._clock.record(asked, loop.time(), now / 1e6)
        first_at = first / 1e6 + offset
        return Reservation(
            start / 1e6 + offset,
            first_at,
            pace / 1e6,
            granted,
            mine,
            bool(waiting),
            end,
            bool(took_back),
        )

    async def slow_down(
        self, host: str, budget: Budget, *, rest_s: float, why: str, age_s: float | None
    ) -> None:
        """The host rests for `rest_s`: nobody gets a slot before that is over. `age_s`: the request
        that left so long ago is a reason to go slower from now on; None: there is none."""
        args: list[str | int] = [
            _us(rest_s),
            why,
            -1 if age_s is None else _us(age_s),
            _us(policy.SETTLES_S),
            _us(policy.CUT),
            _us(policy.FLOOR),
            _us(budget.interval_s),
            budget.concurrency,
            _us(policy.RECOVERS_S),
        ]
        # The page's own retry waits as long anyway.
        with suppress(RedisError):
            await self._slow(keys=_keys(host), args=args)


def _keys(host: str) -> list[str]:
    return [f"scraper:host:{host}", f"scraper:places:{host}"]


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
