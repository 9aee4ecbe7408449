"""A host's gate in this process: a page passes when the fleet's budget has a turn for it, and not
before.

The fleet's decision comes from a throttle (`scraper.politeness.fleet_limiter`) that is asked once
for several pages. A turn that does not come before the batch must end is refused (`DeferredError`),
so nobody waits here for longer than a batch lasts. Of the pages that wait the most urgent goes
first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scraper.errors import DeferredError
from scraper.politeness.fleet import FleetLimiter, Reserved
from scraper.politeness.priority_lock import PriorityLock
from scraper.rules.budget import (
    NO_OVERRIDE,
    SETTLES_S,
    Back,
    Budget,
    Override,
    Signals,
)
from scraper.rules.terms import Terms

# well within the share's time to live
SHARE_RENEWED_S = 4.0
# and sooner where others wait for a place, or might: who has no rate hears of them no other way;
CONTENDED_S = 1.0
# and after so many, where pages wait here for places: others might have nothing to do
CONTENDED_ANSWERS = 200
# more would be lost when answers are slow; fewer would ask more often
RESERVED_AHEAD_S = 2.0
RETRY_SHARE_S = 0.25
# a slot older than this is given back: using it would crowd the one after it. Less for fast hosts
LATE_S = 0.05
LATE_LEAST_S = 0.01
# pages of a paused host come back after this, or when it is resumed
PAUSED_S = 5.0
# where no place has become free for so long, pages outside go back: a batch does not wait for a
# host
STUCK_S = 2.0
# that hangs, unless its answers are known to take longer
STUCK_MAX_S = 5.0


class HostLimiter:
    """One host's turns. The budget is the whole fleet's, the share this process's.

    `pending` is how many pages this process has yet to do for the host; whoever has them counts it
    up and down.
    """

    def __init__(self, host: str, throttle: FleetLimiter, override: Override = NO_OVERRIDE) -> None:
        self.host = host
        self.pending = 0
        # answers since the fleet was last asked
        self.good = 0
        self.signals = Signals()
        self._terms = Terms(override)
        self._budget = self._terms.budget
        self._throttle = throttle
        self._inflight = 0
        self._share = 0
        self._wanted = 0
        # other processes wait for places
        self._contended = False
        self._entering = 0
        # for a slot, with a place in hand
        self._waiting = 0
        # the pace in force, as the fleet last said
        self._interval_s = 0.0
        self._renew_at = 0.0
        # until it is asked again where others want places, too
        self._again_s = CONTENDED_S
        self._rests_until = 0.0
        self._cut_at = float("-inf")
        # when a turn last ended, or its request left
        self._moved_at = 0.0
        # how long a turn takes once its slot has come, about
        self._held_s = 0.0
        self._slots: deque[float] = deque()
        # theirs, as the fleet said
        self._slots_end, self._slots_interval_s = 0, 0.0
        self._last_slot = 0.0
        # who waits for a place
        self._door = PriorityLock(self.leave)
        # who waits for a slot: apart, since a page inside may need one more request
        self._pace = PriorityLock()
        self._left = asyncio.Event()

    @property
    def idle(self) -> bool:
        return not (self._inflight or self.pending or self._entering or self._waiting)

    @property
    def limits(self) -> Budget:
        """The budget in force, as this process knows it."""
        return self._budget

    def keeps(self, pages: int) -> int:
        """How many of so many more pages are going to wait for the host, rather than occupy this
        process: all of them where it has a rate, and else what is more than the places get through
        in a second, as long as answers take now."""
        if self._interval_s or self._budget.interval_s:
            return pages
        return max(0, pages - int(max(1, self._share) / self._held_s)) if self._held_s else 0

    def budget(self, site: int, budget: Budget) -> None:
        """What a site's definition allows; of several sites on this host the strictest counts."""
        if self._terms.site(site, budget):
            self._heed_terms()

    def crawl_delay(self, site: int, seconds: float) -> None:
        """What robots.txt asks of a site; it counts where it is longer than the budget's interval."""
        if self._terms.crawl_delay(site, seconds):
            self._heed_terms()

    def steer(self, override: Override) -> None:
        """What an operator says, as last read; a pause counts at once, also for those who wait."""
        if self._terms.steer(override):
            self._heed_terms()
        self._left.set()

    def _heed_terms(self) -> None:
        """Slots that were reserved at a faster pace are given up."""
        before, self._budget = self._budget, self._terms.budget
        self._renew_at = 0.0
        if self._budget.interval_s > before.interval_s:
            self._slots.clear()

    @asynccontextmanager
    async def turn(self, latest: float, urgency: int = 0) -> AsyncIterator[None]:
        """Holds one of the host's turns, got before `latest` (loop time). Raises `DeferredError`
        with when to come back."""
        await self.enter(latest, urgency)
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self.leave(began)

    async def another(self, latest: float, urgency: int = 0) -> None:
        """One more request within a turn that is held (a redirect, robots.txt): the rate counts it
        as any other."""
        self._waiting += 1
        try:
            async with self._pace.held(urgency, latest):
                await self._take_slot(latest)
        finally:
            self._waiting -= 1
            self._moved_at = asyncio.get_running_loop().time()

    async def slow(self, rest_s: float, why: str, began: float | None = None) -> None:
        """The host shall rest. `began`: when a request left whose answer is a reason to go slower,
        too. Slots that other processes hold already (`RESERVED_AHEAD_S`) may still be used."""
        now = asyncio.get_running_loop().time()
        told = now + rest_s <= self._rests_until + 0.5
        if began is not None and began <= self._cut_at + SETTLES_S:
            # the fleet would say the same
            began = None
        if told and began is None:
            return
        if began is not None:
            self._cut_at = now
        self._slots.clear()
        self._rests_until = max(self._rests_until, now + rest_s)
        self._renew_at = 0.0
        age_s = None if began is None else now - began
        await self._throttle.slow(self.host, self._budget, rest_s=rest_s, why=why, age_s=age_s)

    async def keep(self) -> None:
        """Renews the share of requests that take long, when no page comes in that would; gives back
        one not needed."""
        if self._terms.sweep():
            self._heed_terms()
        if self.idle:
            if self._share:
                self._share = 0
                self._renew_at = 0.0
                await self._ask(0, 0)
        elif self._inflight and asyncio.get_running_loop().time() >= self._renew_at:
            await self._renew(0)

    async def enter(self, latest: float, urgency: int = 0) -> None:
        """As `turn`; what came in must `leave`."""
        now = asyncio.get_running_loop().time()
        free = (
            self._inflight < self._share
            and now < min(self._renew_at, latest)
            and not self._terms.override.paused
        )
        if free and not self._door.locked():
            self._inflight += 1
        else:
            self._entering += 1
            try:
                if await self._door.acquire(urgency, latest):
                    try:
                        await self._find_place(latest, came=now)
                    finally:
                        self._door.release()
            finally:
                self._entering -= 1
            now = asyncio.get_running_loop().time()
        if not (
            self._interval_s
            or self._budget.interval_s
            or self._terms.override.paused
            or now < self._rests_until
        ):
            self._moved_at = now
            return
        try:
            await self.another(latest, urgency)
        except BaseException:
            self.leave()
            raise

    async def _find_place(self, latest: float, came: float) -> None:
        """For the one at the door, who `came` to it then. Those for whom there is a place as well
        go along."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if self._terms.override.paused:
                raise DeferredError(PAUSED_S)
            if now >= latest:
                raise DeferredError(0.0)
            due = now >= self._renew_at or self.good >= CONTENDED_ANSWERS
            if due or (self._inflight >= self._share and self._wants > self._wanted):
                await self._renew(0)
            if self._inflight < self._share:
                self._inflight += 1
                self._inflight += self._door.let_past(self._share - self._inflight)
                return
            patience_s = min(max(STUCK_S, 3 * self._held_s), STUCK_MAX_S)
            if (
                self._inflight
                and not self._waiting
                and now - max(came, self._moved_at) > patience_s
            ):
                raise DeferredError(STUCK_MAX_S)
            await self._someone_leaves(
                min(RETRY_SHARE_S, latest - now) if self._share == 0 else latest - now
            )

    def leave(self, began: float | None = None) -> None:
        """Ends a turn; `began`: when its request left."""
        self._inflight -= 1
        # there were more: what the share had shrunk by is given up, and others wait
        if self._inflight == self._share:
            self._renew_at = 0.0
        self._moved_at = now = asyncio.get_running_loop().time()
        if began is not None:
            self._held_s += 0.2 * (now - began - self._held_s)
        self._left.set()

    async def _someone_leaves(self, timeout_s: float) -> None:
        renew_in_s = self._renew_at - asyncio.get_running_loop().time()
        if self._share == 0:
            self._renew_at = 0.0
        self._left.clear()
        try:
            async with asyncio.timeout(min(timeout_s, max(renew_in_s, RETRY_SHARE_S), 1.0)):
                await self._left.wait()
        except TimeoutError:
            pass

    async def _take_slot(self, latest: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if self._terms.override.paused:
                raise DeferredError(PAUSED_S)
            if not self._interval_s and not self._budget.interval_s:
                wait_s = self._rests_until - now
                if wait_s <= 0:
                    return
                if self._rests_until >= latest:
                    raise DeferredError(wait_s)
                await asyncio.sleep(min(wait_s, 1.0))
                continue
            if self._slots and self._slots[0] < now - self._late_s:
                await self._give_back()
            elif self._slots:
                at = self._slots[0]
                if at > latest:
                    raise DeferredError(at - now)
                await asyncio.sleep(max(0.0, at - now))
                if not self._slots or self._slots[0] != at:
                    continue  # given up since
                if self._rests_until > at:
                    self._slots.popleft()
                elif loop.time() <= at + self._late_s and not self._terms.override.paused:
                    self._slots.popleft()
                    return
                continue
            if self._slots:
                continue
            free_at = await self._renew(self._slots_wanted())
            if not self._slots and (self._interval_s or self._budget.interval_s):
                wait_s = free_at - loop.time()
                if free_at >= latest:
                    raise DeferredError(max(wait_s, 0.0))
                await asyncio.sleep(min(max(wait_s, LATE_S), 1.0))

    @property
    def _late_s(self) -> float:
        return min(LATE_S, max(LATE_LEAST_S, self._interval_s / 4))

    @property
    def _wants(self) -> int:
        return max(1, min(self.pending, self._budget.concurrency))

    def _slots_wanted(self) -> int:
        """One for each page that has its place already; for the next two seconds where this
        process's places alone can keep the pace, as answers come now. A slot for which no place is
        free in time is lost to the host."""
        interval_s = self._interval_s or self._budget.interval_s
        window = int(RESERVED_AHEAD_S / interval_s)
        keeps_pace = 0 < 1.5 * self._held_s <= self._share * interval_s and not self._contended
        return max(
            1, min(window, max(self.pending, self._waiting) if keeps_pace else self._waiting)
        )

    async def _give_back(self) -> None:
        """This process came too late for its next slot, and would lose a whole interval with it: it
        has the slots that it holds taken back, and others instead. Where another process holds
        slots after them, only what is late is lost."""
        back = Back(self._slots_end, len(self._slots), self._slots_interval_s)
        wanted = self._wants
        got = await self._ask(self._slots_wanted(), wanted, back, busy_until=self._slots[0])
        if got.took_back:
            self._slots.clear()
        now = asyncio.get_running_loop().time()
        while self._slots and self._slots[0] < now - self._late_s:
            self._slots.popleft()
        self._heed(got, wanted)

    async def _renew(self, slots: int) -> float:
        """Asks the fleet. Returns when the host's next free slot is."""
        wanted = self._wants
        got = await self._ask(slots, wanted)
        self._heed(got, wanted)
        return got.at(0)

    def _heed(self, got: Reserved, wanted: int) -> None:
        now = asyncio.get_running_loop().time()
        self._again_s = (
            RETRY_SHARE_S if got.share != self._share else min(2 * self._again_s, CONTENDED_S)
        )
        self._share, self._wanted, self._contended = got.share, wanted, got.contended
        # others wait for what is given up as soon as it is said
        if self._inflight > got.share:
            again_s = RETRY_SHARE_S
        elif got.interval_s:
            again_s = CONTENDED_S if got.contended else SHARE_RENEWED_S
        else:
            # who has fewer than it wants may get more as soon as others have said what they give up
            again_s = self._again_s if got.share < wanted else CONTENDED_S
        self._renew_at = now + again_s
        self._interval_s = got.interval_s
        if not got.interval_s:
            self._slots.clear()
            self._rests_until = max(self._rests_until, got.at(0))
        elif got.slots:
            self._slots.extend(got.at(k) for k in range(got.slots))
            self._last_slot = self._slots[-1] + got.interval_s
            self._slots_end, self._slots_interval_s = got.end, got.interval_s

    async def _ask(
        self, slots: int, share: int, back: Back | None = None, *, busy_until: float | None = None
    ) -> Reserved:
        good, self.good = self.good, 0
        return await self._throttle.reserve(
            self.host,
            self._budget,
            slots=slots,
            share=share,
            inflight=self._inflight,
            good=good,
            busy_until=self._last_slot if busy_until is None else busy_until,
            back=back,
        )
