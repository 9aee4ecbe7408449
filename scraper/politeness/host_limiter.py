"""A host's limiter in this process: a page's request leaves when the fleet's budget permits it.

A permit is a part of an allotment (`scraper.politeness.allotment`: how many requests may be in
flight) and, where the host has a rate, a slot (`scraper.politeness.slot_queue`: when one may
leave). The fleet decides (`scraper.politeness.fleet_limiter`), and is asked once for several pages.
A permit that would come after the batch must end is refused (`DeferredError`), so no page waits
here for longer than a batch lasts. The most urgent page goes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scraper.domain import Outcome
from scraper.errors import DeferredError
from scraper.politeness.allotment import RETRY_S, Allotment
from scraper.politeness.fleet import FleetLimiter, Reservation
from scraper.politeness.latency_estimate import STUCK_MAX_S, LatencyEstimate
from scraper.politeness.priority_lock import PriorityLock
from scraper.politeness.slot_queue import LATE_S, SlotQueue
from scraper.rules.budget import (
    NO_OVERRIDE,
    SETTLES_S,
    Budget,
    Override,
    Signals,
    Terms,
    UnusedSlots,
)

# The fleet is asked after this many good answers, too, while pages wait here: other processes might
# have nothing to do.
CONTENDED_ANSWERS = 200
# Slots are reserved this far ahead. More would be lost when answers are slow; fewer would ask more
# often.
RESERVED_AHEAD_S = 2.0
# Pages of a paused host come back after this, or when it is resumed.
PAUSED_S = 5.0
# A throttled host without a Retry-After rests this long, and no host rests longer than the second.
REST_S, REST_MAX_S = 5.0, 1800.0
# No wait is longer, so that changes of the budget are seen.
WAIT_MAX_S = 1.0


class HostLimiter:
    """One host's permits. The budget is the whole fleet's, the allotment this process's.

    `pending` is how many pages this process has yet to fetch from the host, and `good_answers` how
    many it got since the fleet was last asked; callers count both.
    """

    def __init__(self, host: str, fleet: FleetLimiter, override: Override = NO_OVERRIDE) -> None:
        self.host = host
        self.pending = self.good_answers = 0
        self.signals = Signals()
        self._fleet = fleet
        self._terms = Terms(override)
        self._budget = self._terms.budget
        self._allotment = Allotment()
        self._slots = SlotQueue()
        self._latency = LatencyEstimate()
        # Pages that wait for the allotment, and those that wait for a slot.
        self._entering = self._waiting = 0
        # When a permit last ended, or a request left.
        self._progress_at = 0.0
        # When a signal of this process last cut the pace.
        self._cut_at = float("-inf")
        self._allotment_lock = PriorityLock(self.release)
        # A lock of its own, since a page that holds a permit may need one more request.
        self._rate_lock = PriorityLock()
        self._released = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        return not (self._allotment.in_flight or self.pending or self._entering or self._waiting)

    @property
    def budget(self) -> Budget:
        """The budget in force, as this process knows it."""
        return self._budget

    @property
    def _is_paced(self) -> bool:
        return bool(self._slots.interval_s or self._budget.interval_s)

    def record_answer(self, seconds: float) -> None:
        """Records how long a good answer took."""
        self._latency.record_answer(seconds, _loop_time())

    def answer_timeout_s(self, tries: int = 0) -> float | None:
        """Returns how long to wait for an answer after `tries` earlier tries, judged by the host's
        other answers; None after too few answers."""
        return self._latency.answer_timeout_s(tries, _loop_time())

    def count_queued(self, pages: int) -> int:
        """Returns how many of `pages` more pages would wait for the host instead of occupying this
        process: all of them where it has a rate, else what exceeds the allotment's work of one
        second at the current latency."""
        if self._is_paced:
            return pages
        held_s = self._latency.held_s
        return max(0, pages - int(max(1, self._allotment.granted) / held_s)) if held_s else 0

    def set_budget(self, site: int, budget: Budget) -> None:
        """Sets what a site's definition allows; of several sites the strictest budget counts."""
        if self._terms.set_budget(site, budget):
            self._apply_terms()

    def set_crawl_delay(self, site: int, seconds: float) -> None:
        """Sets the crawl delay in robots.txt, which counts where the budget's interval is
        shorter."""
        if self._terms.set_crawl_delay(site, seconds):
            self._apply_terms()

    def apply_override(self, override: Override) -> None:
        """Applies what an operator set; a pause counts at once, also for pages that wait."""
        if self._terms.apply_override(override):
            self._apply_terms()
        self._released.set()

    def _apply_terms(self) -> None:
        """Gives up slots that were reserved at a faster pace."""
        before, self._budget = self._budget, self._terms.budget
        self._allotment.expire()
        if self._budget.interval_s > before.interval_s:
            self._slots.clear()

    @asynccontextmanager
    async def permit(self, deadline_at: float, urgency: int = 0) -> AsyncIterator[None]:
        """Holds one of the host's permits. Raises `DeferredError` with when to come back, if none
        comes before `deadline_at` (loop time)."""
        await self.acquire(deadline_at, urgency)
        began = _loop_time()
        try:
            yield
        finally:
            self.release(began)

    async def acquire(self, deadline_at: float, urgency: int = 0) -> None:
        """Acquires a permit as `permit` does; the caller must `release` it."""
        allotment, now = self._allotment, _loop_time()
        if (
            allotment.in_flight < allotment.granted
            and now < allotment.renew_at
            and now < deadline_at
            and not self._terms.override.paused
            and not self._allotment_lock.locked()
        ):
            allotment.in_flight += 1
        else:
            await self._wait_to_enter(deadline_at, urgency, now)
            now = _loop_time()
        if not (self._is_paced or self._terms.override.paused or now < self._slots.rests_until):
            self._progress_at = now
            return
        try:
            await self.take_slot(deadline_at, urgency)
        except BaseException:
            self.release()
            raise

    def release(self, began: float | None = None) -> None:
        """Ends a permit; `began`: when its request left."""
        self._allotment.release()
        self._progress_at = now = _loop_time()
        if began is not None:
            self._latency.record_held(now - began)
        self._released.set()

    async def take_slot(self, deadline_at: float, urgency: int = 0) -> None:
        """Waits for the slot of one request. For one more request of a permit that is held, such as
        a redirect, callers call it themselves: the rate counts each request."""
        self._waiting += 1
        try:
            async with self._rate_lock.held(urgency, deadline_at):
                await self._wait_for_slot(deadline_at)
        finally:
            self._waiting -= 1
            self._progress_at = _loop_time()

    async def heed_answer(
        self,
        outcome: Outcome,
        status: int | None,
        began: float,
        *,
        retry_after_s: float | None = None,
        failed_before: bool = False,
        alone: bool = False,
        answered_by: HostLimiter | None = None,
    ) -> None:
        """Records an outcome among the host's signals (`Signals.record`), and slows the host down
        if it asks for that. `answered_by`: after a redirect, the limiter of the host that gave the
        answer."""
        now = asyncio.get_running_loop().time()
        must_slow = self.signals.record(
            outcome, status, now, failed_before=failed_before, alone=alone
        )
        if not must_slow:
            self.good_answers += must_slow is False
            return
        rest_s, why = 0.0, str(status or outcome)
        if outcome is Outcome.THROTTLED:
            rest_s = min(retry_after_s or REST_S, REST_MAX_S)
            why += f", Retry-After {retry_after_s:g} s" if retry_after_s else ""
        await (answered_by or self).slow_down(rest_s, why, began)

    async def slow_down(self, rest_s: float, why: str, began: float | None = None) -> None:
        """Rests the host. `began`: when a request left whose answer is a reason to cut the pace,
        too. Slots that other processes hold already (`RESERVED_AHEAD_S`) may still be used."""
        now = _loop_time()
        rests_already = now + rest_s <= self._slots.rests_until + 0.5
        if began is not None and began <= self._cut_at + SETTLES_S:
            # The fleet would not cut again, either.
            began = None
        if rests_already and began is None:
            return
        if began is not None:
            self._cut_at = now
        self._slots.rest(now + rest_s)
        self._allotment.expire()
        age_s = None if began is None else now - began
        await self._fleet.slow_down(self.host, self._budget, rest_s=rest_s, why=why, age_s=age_s)

    async def maintain(self) -> None:
        """Renews the allotment while requests take long and no new page would renew it; gives an
        unneeded one back."""
        if self._terms.drop_idle_sites():
            self._apply_terms()
        allotment = self._allotment
        if self.is_idle:
            if allotment.granted:
                allotment.granted = 0
                allotment.expire()
                await self._ask_fleet(0, 0)
        elif allotment.in_flight and _loop_time() >= allotment.renew_at:
            await self._renew_reservation(0)

    async def _wait_to_enter(self, deadline_at: float, urgency: int, came: float) -> None:
        """Waits until the allotment has room for one more request."""
        self._entering += 1
        try:
            if await self._allotment_lock.acquire(urgency, deadline_at):
                try:
                    await self._wait_for_room(deadline_at, came)
                finally:
                    self._allotment_lock.release()
        finally:
            self._entering -= 1

    async def _wait_for_room(self, deadline_at: float, came: float) -> None:
        """Waits for the page that holds the lock, and `came` to it then. Admits as many of the
        other waiting pages as there is room for."""
        allotment = self._allotment
        while True:
            now = _loop_time()
            if self._terms.override.paused:
                raise DeferredError(PAUSED_S)
            if now >= deadline_at:
                raise DeferredError(0.0)
            due = now >= allotment.renew_at or self.good_answers >= CONTENDED_ANSWERS
            if due or (allotment.room <= 0 and self._wanted_allotment > allotment.wanted):
                await self._renew_reservation(0)
            if allotment.room > 0:
                allotment.in_flight += 1
                allotment.in_flight += self._allotment_lock.admit(allotment.room)
                return
            idle_s = now - max(came, self._progress_at)
            if allotment.in_flight and not self._waiting and idle_s > self._latency.stuck_after_s():
                raise DeferredError(STUCK_MAX_S)
            await self._wait_for_release(deadline_at - now)

    async def _wait_for_release(self, timeout_s: float) -> None:
        renew_in_s = self._allotment.renew_at - _loop_time()
        if self._allotment.granted == 0:
            timeout_s = min(RETRY_S, timeout_s)
            self._allotment.expire()
        self._released.clear()
        try:
            async with asyncio.timeout(min(timeout_s, max(renew_in_s, RETRY_S), WAIT_MAX_S)):
                await self._released.wait()
        except TimeoutError:
            pass

    async def _wait_for_slot(self, deadline_at: float) -> None:
        """Waits until the host's pace, rest and pause let a request leave."""
        while True:
            now = _loop_time()
            if self._terms.override.paused:
                raise DeferredError(PAUSED_S)
            if not self._is_paced:
                if now >= self._slots.rests_until:
                    return
                await self._sleep_until(self._slots.rests_until, deadline_at)
            elif self._slots.is_late(now):
                await self._replace_late_slots()
            elif self._slots:
                if await self._reach_next_slot(deadline_at):
                    return
            else:
                await self._reserve_slots(deadline_at)

    async def _reach_next_slot(self, deadline_at: float) -> bool:
        """Waits for the next slot, and takes it. False where it cannot be used."""
        at = self._slots.next_at
        if at > deadline_at:
            await self._return_slots()
            raise DeferredError(at - _loop_time())
        await asyncio.sleep(max(0.0, at - _loop_time()))
        return not self._terms.override.paused and self._slots.take(at, _loop_time())

    async def _reserve_slots(self, deadline_at: float) -> None:
        """Asks the fleet for slots, and waits where it has none."""
        free_at = await self._renew_reservation(self._count_wanted_slots())
        if not self._slots and self._is_paced:
            await self._sleep_until(free_at, deadline_at, least_s=LATE_S)

    async def _sleep_until(self, at: float, deadline_at: float, *, least_s: float = 0.0) -> None:
        """Sleeps for at most `WAIT_MAX_S`. Raises `DeferredError` where `at` is after the
        deadline."""
        wait_s = max(at - _loop_time(), 0.0)
        if at >= deadline_at:
            raise DeferredError(wait_s)
        await asyncio.sleep(min(max(wait_s, least_s), WAIT_MAX_S))

    @property
    def _wanted_allotment(self) -> int:
        return max(1, min(self.pending, self._budget.concurrency))

    def _count_wanted_slots(self) -> int:
        """Returns one slot for each page that waits for one; or the slots of the next two seconds,
        where this process's allotment alone can keep the pace at the current latency. A slot that
        no request can use in time is lost to the host."""
        interval_s = self._slots.interval_s or self._budget.interval_s
        window, held_s = int(RESERVED_AHEAD_S / interval_s), self._latency.held_s
        keeps_pace = 0 < 1.5 * held_s <= self._allotment.granted * interval_s
        if keeps_pace and not self._allotment.contended:
            return max(1, min(window, max(self.pending, self._waiting)))
        return max(1, min(window, self._waiting))

    async def _replace_late_slots(self) -> None:
        """Returns the slots in hand, whose next one is too late, and reserves others: otherwise
        a whole interval would be lost. Where another process holds later slots, only the late ones
        are lost."""
        wanted = self._wanted_allotment
        reservation = await self._ask_fleet(
            self._count_wanted_slots(), wanted, self._slots.unused, busy_until=self._slots.next_at
        )
        if reservation.returned:
            self._slots.clear()
        self._slots.drop_late(_loop_time())
        self._apply_reservation(reservation, wanted)

    async def _return_slots(self) -> None:
        """Returns the slots in hand, unless another page of this process may use them.

        The page does not wait for them, and may come back to another process, or to this one after
        it has forgotten the host. A slot that is kept would be lost, and at a slow pace the next
        page would be put off behind it, and so on without end.
        """
        if max(self._waiting, self.pending) > 1:
            return
        wanted, first = self._wanted_allotment, self._slots.next_at
        reservation = await self._ask_fleet(0, wanted, self._slots.unused, busy_until=first)
        if reservation.returned:
            self._slots.clear()
            self._slots.busy_until = first
        self._apply_reservation(reservation, wanted)

    async def _renew_reservation(self, slots: int) -> float:
        """Asks the fleet. Returns when the host's next free slot is."""
        wanted = self._wanted_allotment
        reservation = await self._ask_fleet(slots, wanted)
        self._apply_reservation(reservation, wanted)
        return reservation.at(0)

    def _apply_reservation(self, reservation: Reservation, wanted: int) -> None:
        self._allotment.grant(reservation, wanted, _loop_time())
        self._slots.add(reservation)

    async def _ask_fleet(
        self,
        slots: int,
        allotment: int,
        unused: UnusedSlots | None = None,
        *,
        busy_until: float | None = None,
    ) -> Reservation:
        good_answers, self.good_answers = self.good_answers, 0
        return await self._fleet.reserve(
            self.host,
            self._budget,
            slots=slots,
            allotment=allotment,
            in_flight=self._allotment.in_flight,
            good_answers=good_answers,
            busy_until=self._slots.busy_until if busy_until is None else busy_until,
            unused=unused,
        )


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
