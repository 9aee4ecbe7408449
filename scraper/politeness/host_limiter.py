"""A host's limiter in this process: a page passes when the fleet's budget has a permit for it.

A permit is a place (one of the requests that may be under way at once) and a slot (a time at which
one may leave). The fleet's decision comes from `scraper.politeness.fleet_limiter`, which is asked
once for several pages: it grants this process an allotment of the host's places, and slots ahead.
A permit that does not come before the batch must end is refused (`DeferredError`), so nobody waits
here for longer than a batch lasts. Of the pages that wait the most urgent goes first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scraper.errors import DeferredError
from scraper.politeness.fleet import FleetLimiter, Reservation
from scraper.politeness.priority_lock import PriorityLock
from scraper.rules.budget import (
    NO_OVERRIDE,
    SETTLES_S,
    Budget,
    Override,
    Signals,
    Terms,
    UnusedSlots,
)

# An allotment is renewed well within its time to live.
ALLOTMENT_RENEWED_S = 4.0
# It is renewed sooner where other processes wait for a place, or might: without a rate, nothing
# else tells this process of them.
CONTENDED_S = 1.0
# It is renewed after this many answers, too, where pages wait here for places: others might have
# nothing to do.
CONTENDED_ANSWERS = 200
# Slots are reserved this far ahead. More would be lost when answers are slow; fewer would ask more
# often.
RESERVED_AHEAD_S = 2.0
# A process that was granted too little asks again after this.
RETRY_ALLOTMENT_S = 0.25
# A slot older than this is given back: using it would crowd the one after it.
LATE_S = 0.05
# For fast hosts it is a quarter of the interval, and this at the least.
LATE_LEAST_S = 0.01
# Pages of a paused host come back after this, or when it is resumed.
PAUSED_S = 5.0
# Pages go back where no place has become free for this long: a batch does not wait for a host that
# hangs.
STUCK_S = 2.0
# Where the host's answers are known to take longer, pages wait up to this.
STUCK_MAX_S = 5.0
# A page has so many times what the slowest answers of its host take, and this at the least, once
# there were so many answers.
ENOUGH_SLOWEST = 5
ENOUGH_LEAST_S = 1.5
ANSWERS_LEAST = 20
# From the third try on it has this at the least, or such a share of the host's crawl so far.
PATIENT_TRY = 2
PATIENT_LEAST_S = 4.0
PATIENT_SHARE = 0.1
# After 700 quick answers a slow one counts half.
SLOWEST_FADES = 0.999


class HostLimiter:
    """One host's permits. The budget is the whole fleet's, the allotment this process's.

    `pending` is how many pages this process has yet to do for the host; whoever has them counts it
    up and down.
    """

    def __init__(self, host: str, fleet: FleetLimiter, override: Override = NO_OVERRIDE) -> None:
        self.host = host
        self.pending = 0
        # Good answers since the fleet was last asked.
        self.good_answers = 0
        self.signals = Signals()
        # What the slowest answers take of late, failures not counted, how many there were, and when
        # the first came.
        self._slowest_s, self._answers, self._first_at = 0.0, 0, 0.0
        self._terms = Terms(override)
        self._budget = self._terms.budget
        self._fleet = fleet
        self._inflight = 0
        self._allotment = 0
        self._wanted = 0
        # Other processes wait for places.
        self._contended = False
        # Pages that wait for a place, and those that have one and wait for a slot.
        self._entering = self._waiting = 0
        # The pace in force, as the fleet last said it; 0 for none.
        self._interval_s = 0.0
        self._renew_at = 0.0
        # The wait until the fleet is asked again where others want places, too.
        self._again_s = CONTENDED_S
        self._rests_until = 0.0
        self._cut_at = float("-inf")
        # The time at which a permit last ended, or its request left.
        self._moved_at = 0.0
        # The usual time that a permit takes once its slot has come.
        self._held_s = 0.0
        # Slots in hand, with the end and the interval that the fleet gave them.
        self._slots: deque[float] = deque()
        self._slots_end, self._slots_interval_s = 0, 0.0
        self._last_slot = 0.0
        # Those who wait for a place.
        self._door = PriorityLock(self.release)
        # Those who wait for a slot: apart, since a page inside may need one more request.
        self._pace = PriorityLock()
        self._left = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        return not (self._inflight or self.pending or self._entering or self._waiting)

    @property
    def budget(self) -> Budget:
        """The budget in force, as this process knows it."""
        return self._budget

    def record_answer(self, seconds: float) -> None:
        """Takes note of how long a page's answer took."""
        self._slowest_s = max(seconds, SLOWEST_FADES * self._slowest_s)
        self._answers += 1
        self._first_at = self._first_at or asyncio.get_running_loop().time()

    def answer_timeout_s(self, tries: int = 0) -> float | None:
        """For how long a page that had so many tries is waited for, as others of the host answer;
        None where too few have. The later ones have a share of the time that the host has been
        asked for: what is slow for once costs little of a long crawl."""
        if self._answers < ANSWERS_LEAST:
            return None
        least_s = ENOUGH_LEAST_S
        if tries >= PATIENT_TRY:
            elapsed_s = asyncio.get_running_loop().time() - self._first_at
            least_s = max(PATIENT_LEAST_S, PATIENT_SHARE * elapsed_s)
        return max(least_s, ENOUGH_SLOWEST * self._slowest_s)

    def count_queued(self, pages: int) -> int:
        """How many of so many more pages are going to wait for the host, rather than occupy this
        process: all of them where it has a rate, and else what is more than the places get through
        in a second, as long as answers take now."""
        if self._interval_s or self._budget.interval_s:
            return pages
        return max(0, pages - int(max(1, self._allotment) / self._held_s)) if self._held_s else 0

    def set_budget(self, site: int, budget: Budget) -> None:
        """What a site's definition allows; of several sites on this host the strictest counts."""
        if self._terms.set_budget(site, budget):
            self._apply_terms()

    def set_crawl_delay(self, site: int, seconds: float) -> None:
        """What robots.txt asks of a site; it counts where the budget's interval is shorter."""
        if self._terms.set_crawl_delay(site, seconds):
            self._apply_terms()

    def apply_override(self, override: Override) -> None:
        """What an operator says, as last read; a pause counts at once, also for those who wait."""
        if self._terms.apply_override(override):
            self._apply_terms()
        self._left.set()

    def _apply_terms(self) -> None:
        """Slots that were reserved at a faster pace are given up."""
        before, self._budget = self._budget, self._terms.budget
        self._renew_at = 0.0
        if self._budget.interval_s > before.interval_s:
            self._slots.clear()

    @asynccontextmanager
    async def permit(self, deadline_at: float, urgency: int = 0) -> AsyncIterator[None]:
        """Holds one of the host's permits, got before `deadline_at` (loop time). Raises
        `DeferredError` with when to come back."""
        await self.acquire(deadline_at, urgency)
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self.release(began)

    async def take_slot(self, deadline_at: float, urgency: int = 0) -> None:
        """Waits for one more request of a permit that is held (a redirect, robots.txt): the rate
        counts it as any other."""
        self._waiting += 1
        try:
            async with self._pace.held(urgency, deadline_at):
                await self._next_slot(deadline_at)
        finally:
            self._waiting -= 1
            self._moved_at = asyncio.get_running_loop().time()

    async def slow_down(self, rest_s: float, why: str, began: float | None = None) -> None:
        """The host shall rest. `began`: when a request left whose answer is a reason to go slower,
        too. Slots that other processes hold already (`RESERVED_AHEAD_S`) may still be used."""
        now = asyncio.get_running_loop().time()
        rests_already = now + rest_s <= self._rests_until + 0.5
        if began is not None and began <= self._cut_at + SETTLES_S:
            # The fleet would say the same.
            began = None
        if rests_already and began is None:
            return
        if began is not None:
            self._cut_at = now
        self._slots.clear()
        self._rests_until = max(self._rests_until, now + rest_s)
        self._renew_at = 0.0
        age_s = None if began is None else now - began
        await self._fleet.slow_down(self.host, self._budget, rest_s=rest_s, why=why, age_s=age_s)

    async def maintain(self) -> None:
        """Renews the allotment of requests that take long, when no page comes in that would; gives
        back one not needed."""
        if self._terms.drop_idle_sites():
            self._apply_terms()
        if self.is_idle:
            if self._allotment:
                self._allotment = 0
                self._renew_at = 0.0
                await self._ask(0, 0)
        elif self._inflight and asyncio.get_running_loop().time() >= self._renew_at:
            await self._renew(0)

    async def acquire(self, deadline_at: float, urgency: int = 0) -> None:
        """As `permit`; what came in must `leave`."""
        now = asyncio.get_running_loop().time()
        free = (
            self._inflight < self._allotment
            and now < min(self._renew_at, deadline_at)
            and not self._terms.override.paused
        )
        if free and not self._door.locked():
            self._inflight += 1
        else:
            self._entering += 1
            try:
                if await self._door.acquire(urgency, deadline_at):
                    try:
                        await self._find_place(deadline_at, came=now)
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
            await self.take_slot(deadline_at, urgency)
        except BaseException:
            self.release()
            raise

    async def _find_place(self, deadline_at: float, came: float) -> None:
        """For the one at the door, who `came` to it then. Those for whom there is a place as well
        go along."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if self._terms.override.paused:
                raise DeferredError(PAUSED_S)
            if now >= deadline_at:
                raise DeferredError(0.0)
            due = now >= self._renew_at or self.good_answers >= CONTENDED_ANSWERS
            if due or (self._inflight >= self._allotment and self._wants > self._wanted):
                await self._renew(0)
            if self._inflight < self._allotment:
                self._inflight += 1
                self._inflight += self._door.admit(self._allotment - self._inflight)
                return
            patience_s = min(max(STUCK_S, 3 * self._held_s), STUCK_MAX_S)
            if (
                self._inflight
                and not self._waiting
                and now - max(came, self._moved_at) > patience_s
            ):
                raise DeferredError(STUCK_MAX_S)
            await self._someone_leaves(
                min(RETRY_ALLOTMENT_S, deadline_at - now)
                if self._allotment == 0
                else deadline_at - now
            )

    def release(self, began: float | None = None) -> None:
        """Ends a permit; `began`: when its request left."""
        self._inflight -= 1
        # The allotment had shrunk below what was under way: others wait for what is given up.
        if self._inflight == self._allotment:
            self._renew_at = 0.0
        self._moved_at = now = asyncio.get_running_loop().time()
        if began is not None:
            self._held_s += 0.2 * (now - began - self._held_s)
        self._left.set()

    async def _someone_leaves(self, timeout_s: float) -> None:
        renew_in_s = self._renew_at - asyncio.get_running_loop().time()
        if self._allotment == 0:
            self._renew_at = 0.0
        self._left.clear()
        try:
            async with asyncio.timeout(min(timeout_s, max(renew_in_s, RETRY_ALLOTMENT_S), 1.0)):
                await self._left.wait()
        except TimeoutError:
            pass

    async def _next_slot(self, deadline_at: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if self._terms.override.paused:
                raise DeferredError(PAUSED_S)
            if not self._interval_s and not self._budget.interval_s:
                wait_s = self._rests_until - now
                if wait_s <= 0:
                    return
                if self._rests_until >= deadline_at:
                    raise DeferredError(wait_s)
                await asyncio.sleep(min(wait_s, 1.0))
                continue
            if self._slots and self._slots[0] < now - self._late_s:
                await self._give_back()
                # The host may have no pace any more.
                continue
            if self._slots:
                at = self._slots[0]
                if at > deadline_at:
                    await self._return_slots()
                    raise DeferredError(at - loop.time())
                await asyncio.sleep(max(0.0, at - now))
                if not self._slots or self._slots[0] != at:
                    # The slots were given up meanwhile.
                    continue
                if self._rests_until > at:
                    self._slots.popleft()
                elif loop.time() <= at + self._late_s and not self._terms.override.paused:
                    self._slots.popleft()
                    return
                continue
            free_at = await self._renew(self._slots_wanted())
            if not self._slots and (self._interval_s or self._budget.interval_s):
                wait_s = free_at - loop.time()
                if free_at >= deadline_at:
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
        keeps_pace = 0 < 1.5 * self._held_s <= self._allotment * interval_s and not self._contended
        return max(
            1, min(window, max(self.pending, self._waiting) if keeps_pace else self._waiting)
        )

    async def _give_back(self) -> None:
        """This process came too late for its next slot, and would lose a whole interval with it: it
        has the slots that it holds taken back, and others instead. Where another process holds
        slots after them, only what is late is lost."""
        back = UnusedSlots(self._slots_end, len(self._slots), self._slots_interval_s)
        wanted = self._wants
        reserved = await self._ask(self._slots_wanted(), wanted, back, busy_until=self._slots[0])
        if reserved.took_back:
            self._slots.clear()
        now = asyncio.get_running_loop().time()
        while self._slots and self._slots[0] < now - self._late_s:
            self._slots.popleft()
        self._apply(reserved, wanted)

    async def _return_slots(self) -> None:
        """The page whose slots these are does not wait for them, and may come back to another
        process, or to this one when it has forgotten the host: a slot that is kept is lost, and at
        a slow pace the next page would be put off behind it, and so on for good. While this process
        has other pages of the host, one of them may use them."""
        if max(self._waiting, self.pending) > 1:
            return
        first = self._slots[0]
        back = UnusedSlots(self._slots_end, len(self._slots), self._slots_interval_s)
        wanted = self._wants
        reserved = await self._ask(0, wanted, back, busy_until=first)
        if reserved.took_back:
            self._slots.clear()
            self._last_slot = first
        self._apply(reserved, wanted)

    async def _renew(self, slots: int) -> float:
        """Asks the fleet. Returns when the host's next free slot is."""
        wanted = self._wants
        reserved = await self._ask(slots, wanted)
        self._apply(reserved, wanted)
        return reserved.at(0)

    def _apply(self, reserved: Reservation, wanted: int) -> None:
        now = asyncio.get_running_loop().time()
        self._again_s = (
            RETRY_ALLOTMENT_S
            if reserved.allotment != self._allotment
            else min(2 * self._again_s, CONTENDED_S)
        )
        self._allotment, self._wanted, self._contended = (
            reserved.allotment,
            wanted,
            reserved.contended,
        )
        # Others wait for what is given up as soon as the fleet hears of it.
        if self._inflight > reserved.allotment:
            again_s = RETRY_ALLOTMENT_S
        elif reserved.interval_s:
            again_s = CONTENDED_S if reserved.contended else ALLOTMENT_RENEWED_S
        else:
            # This process may get more as soon as others have said what they give up.
            again_s = self._again_s if reserved.allotment < wanted else CONTENDED_S
        self._renew_at = now + again_s
        self._interval_s = reserved.interval_s
        if not reserved.interval_s:
            self._slots.clear()
            self._rests_until = max(self._rests_until, reserved.at(0))
        elif reserved.slots:
            self._slots.extend(reserved.at(k) for k in range(reserved.slots))
            self._last_slot = self._slots[-1] + reserved.interval_s
            self._slots_end, self._slots_interval_s = reserved.end, reserved.interval_s

    async def _ask(
        self,
        slots: int,
        allotment: int,
        back: UnusedSlots | None = None,
        *,
        busy_until: float | None = None,
    ) -> Reservation:
        good, self.good_answers = self.good_answers, 0
        return await self._fleet.reserve(
            self.host,
            self._budget,
            slots=slots,
            allotment=allotment,
            inflight=self._inflight,
            good=good,
            busy_until=self._last_slot if busy_until is None else busy_until,
            back=back,
        )
