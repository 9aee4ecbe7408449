"""A host's gate in one process, against a throttle with scripted answers and a clock that jumps."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper.errors import DeferredError
from scraper.politeness.allotment import RENEWED_S
from scraper.politeness.fleet import Reservation
from scraper.politeness.host_limiter import CONTENDED_ANSWERS, RESERVED_AHEAD_S, HostLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.latency_estimate import (
    ANSWERS_LEAST,
    PATIENT_LEAST_S,
    PATIENT_SHARE,
    PATIENT_TRY,
    STUCK_MAX_S,
    TIMEOUT_LEAST_S,
    TIMEOUT_SLOWEST,
)
from scraper.politeness.slot_queue import LATE_S
from scraper.rules.budget import Budget, Override, UnusedSlots
from tests.support.clocks import VirtualLoop, now, run
from tests.support.machine import examples

FAR = 10_000.0


class Fleet:
    """A throttle with one host and this one process: paces like the real one, and grants
    at most `limit`."""

    def __init__(self, limit: int = 1000, ahead_s: float = 5.0) -> None:
        self.limit, self.ahead_s = limit, ahead_s
        self.free = 0.0
        self.contended = False
        self.asked: list[dict[str, Any]] = []
        self.given_back: list[str] = []
        self.slowed: list[tuple[float, str, float | None]] = []
        self.away = False

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
        await asyncio.sleep(0)
        if self.away:
            raise DeferredError(5.0)
        returned = unused is not None and unused.end == round(self.free * 1e6)
        if unused is not None and returned:
            self.free -= unused.slots * unused.interval_s
        elif unused is not None:
            slots = 0
        self.asked.append(
            {
                "slots": slots,
                "allotment": allotment,
                "in_flight": in_flight,
                "good": good_answers,
                "at": now(),
            }
        )
        if allotment == 0 and in_flight == 0:
            self.given_back.append(host)
        interval_s = budget.interval_s
        first = max(self.free, now())
        granted = 0
        if interval_s and slots and first - now() <= self.ahead_s:
            granted = min(slots, int((now() + self.ahead_s - first) / interval_s) + 1)
            self.free = first + granted * interval_s
        allotment = min(allotment, self.limit, budget.concurrency)
        end = round(self.free * 1e6)
        return Reservation(
            first, first, interval_s, granted, allotment, self.contended, end, returned
        )

    async def slow_down(
        self, host: str, budget: Budget, *, rest_s: float, why: str, age_s: float | None
    ) -> None:
        self.free = max(self.free, now() + rest_s)
        self.slowed.append((rest_s, why, age_s))


def gate_of(
    fleet: Fleet, *, interval_s: float = 0.0, concurrency: int = 4, pending: int = 100
) -> HostLimiter:
    limiter = HostLimiter("shop.example", fleet)
    limiter.set_budget(1, Budget(interval_s, concurrency))
    limiter.pending = pending
    return limiter


class PageFetcher:
    """Pages that pass a gate, and when."""

    def __init__(self, limiter: HostLimiter, lasts_s: float = 1.0) -> None:
        self.limiter, self.lasts_s = limiter, lasts_s
        self.began: list[float] = []
        self.deferred: list[float] = []
        self.inside = self.most = 0

    async def one(self, latest: float = FAR, urgency: int = 0) -> None:
        try:
            async with self.limiter.permit(latest, urgency):
                self.began.append(now())
                self.inside += 1
                self.most = max(self.most, self.inside)
                try:
                    await asyncio.sleep(self.lasts_s)
                finally:
                    self.inside -= 1
        except DeferredError as error:
            self.deferred.append(error.delay_s)
        finally:
            self.limiter.pending -= 1


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_the_share_is_never_exceeded(limit: int) -> None:
    async def work() -> None:
        limiter = gate_of(Fleet(limit), concurrency=8, pending=40)
        visits = PageFetcher(limiter)
        await asyncio.gather(*(visits.one() for _ in range(40)))
        assert visits.most == min(limit, 8)
        assert len(visits.began) == 40
        assert limiter.is_idle

    run(work)


def test_a_share_that_shrinks_is_kept_to_while_pages_wait_for_their_slots() -> None:
    """The throttle counts what is under way: a page that has passed the door must be in that
    number."""

    async def work() -> None:
        fleet = Fleet()
        limiter = gate_of(fleet, interval_s=0.5, concurrency=4, pending=30)
        visits = PageFetcher(limiter, lasts_s=3.0)
        pages = [asyncio.ensure_future(visits.one()) for _ in range(30)]
        await asyncio.sleep(2)
        fleet.limit = 2
        await asyncio.sleep(RENEWED_S + 8)
        visits.most = visits.inside
        await asyncio.gather(*pages)
        assert visits.most <= 2
        assert all(asked["in_flight"] <= 4 for asked in fleet.asked)

    run(work)


def test_a_fast_host_makes_room_for_another_process_after_few_answers() -> None:
    """Others have nothing to do until this process hears of them, and again until it has said what
    it gave up."""

    async def work() -> None:
        fleet = Fleet()
        limiter = gate_of(fleet, concurrency=128, pending=10_000)
        visits = PageFetcher(limiter, lasts_s=0.05)

        async def lane() -> None:
            while True:
                await visits.one()
                limiter.good_answers += 1

        lanes = [asyncio.ensure_future(lane()) for _ in range(200)]
        await asyncio.sleep(0.5)
        changed, fleet.limit = now(), 64
        await asyncio.sleep(1)
        heard = next(asked for asked in fleet.asked if asked["at"] > changed)
        said = next(
            asked
            for asked in fleet.asked
            if asked["at"] >= heard["at"] and asked["in_flight"] <= 64
        )
        assert heard["at"] - changed <= 0.25 and said["at"] - heard["at"] <= 0.1
        # and no question more than that
        assert len(fleet.asked) <= 1.5 * 2560 / CONTENDED_ANSWERS + 4
        for each in lanes:
            each.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    run(work)


def test_slots_are_used_in_order_and_at_their_time() -> None:
    async def work() -> None:
        limiter = gate_of(Fleet(), interval_s=0.5, concurrency=50, pending=20)
        visits = PageFetcher(limiter, lasts_s=0.1)
        await asyncio.gather(*(visits.one() for _ in range(20)))
        assert visits.began == sorted(visits.began)
        assert visits.began == pytest.approx([0.5 * n for n in range(20)])

    run(work)


@settings(max_examples=examples(60))
@given(
    st.integers(1, 10),
    st.sampled_from([0.05, 0.25, 1.0, 4.0]),
    st.lists(
        st.tuples(st.floats(0, 20), st.floats(0, 1.9), st.booleans()), min_size=1, max_size=25
    ),
)
def test_whatever_comes_the_pace_and_the_share_hold(
    concurrency: int, interval_s: float, pages: list[tuple[float, float, bool]]
) -> None:
    """Pages at any time, of any length, with or without one more request inside."""

    async def work() -> None:
        limiter = gate_of(
            Fleet(), interval_s=interval_s, concurrency=concurrency, pending=len(pages)
        )
        requests: list[float] = []
        inside = 0

        async def page(after_s: float, lasts_s: float, another: bool) -> None:
            nonlocal inside
            await asyncio.sleep(after_s)
            async with limiter.permit(FAR):
                inside += 1
                assert inside <= concurrency
                requests.append(now())
                if another:
                    await limiter.take_slot(FAR)
                    requests.append(now())
                await asyncio.sleep(lasts_s)
                inside -= 1
            limiter.pending -= 1

        await asyncio.gather(*(page(*each) for each in pages))
        assert limiter.is_idle
        requests.sort()
        assert len(requests) == len(pages) + sum(another for *_, another in pages)
        for earlier, later in pairwise(requests):
            assert later - earlier >= interval_s - LATE_S - 1e-6

    run(work)


@pytest.mark.parametrize(("interval_s", "concurrency"), [(0.0, 4), (0.25, 4), (0.25, 1)])
def test_what_is_urgent_overtakes_all_that_is_not_under_way(
    interval_s: float, concurrency: int
) -> None:
    """A hundred pages wait when one of higher priority comes: before it go those that have a place
    already, and the one at the door."""

    async def work() -> None:
        limiter = gate_of(Fleet(), interval_s=interval_s, concurrency=concurrency, pending=101)
        low, high = PageFetcher(limiter, lasts_s=0.2), PageFetcher(limiter, lasts_s=0.2)
        pages = [asyncio.ensure_future(low.one(urgency=4)) for _ in range(100)]
        await asyncio.sleep(5)
        before = len(low.began)
        await high.one(urgency=16)
        assert len([at for at in low.began[before:] if at < high.began[0]]) <= concurrency + 1
        for page in pages:
            page.cancel()
        await asyncio.gather(*pages, return_exceptions=True)

    run(work)


def test_who_is_overtaken_for_ever_goes_back_in_time() -> None:
    async def work() -> None:
        limiter = gate_of(Fleet(), concurrency=1, pending=60)
        high, low = PageFetcher(limiter), PageFetcher(limiter)
        waiting = asyncio.gather(
            *(high.one(urgency=16) for _ in range(50)), low.one(latest=10.0, urgency=4)
        )
        await asyncio.sleep(10.1)
        assert low.deferred == [0.0] and not low.began
        await waiting
        assert len(high.began) == 50

    run(work)


def test_a_turn_that_comes_too_late_is_refused_with_when_to_come_back() -> None:
    async def work() -> None:
        limiter = gate_of(Fleet(), interval_s=2.0, concurrency=10, pending=10)
        visits = PageFetcher(limiter, lasts_s=0.0)
        await asyncio.gather(*(visits.one(latest=5.0) for _ in range(10)))
        assert visits.began == pytest.approx([0.0, 2.0, 4.0])
        assert len(visits.deferred) == 7
        assert all(0 < delay_s <= 6 for delay_s in visits.deferred)
        assert now() <= 5.0
        assert limiter.is_idle

    run(work)


def test_no_page_waits_for_a_host_that_hangs() -> None:
    """The batches that pages outside belong to would last as long as the hanging answers, and hold
    places of other hosts."""

    async def work() -> None:
        limiter = gate_of(Fleet(), concurrency=2, pending=20)
        hanging, late = PageFetcher(limiter, lasts_s=100), PageFetcher(limiter)
        inside = [asyncio.ensure_future(hanging.one()) for _ in range(2)]
        await asyncio.sleep(0.1)
        await asyncio.gather(*(late.one(latest=10.0) for _ in range(18)))
        assert (late.began, late.deferred) == ([], [STUCK_MAX_S] * 18)
        assert now() <= 5
        await asyncio.gather(*inside)

    run(work)


def test_all_places_that_become_free_at_once_are_taken_at_once() -> None:
    """Else as many requests are under way as the loop has turns between two answers, whatever the
    host allows."""
    turns = []

    async def work() -> None:
        limiter = gate_of(Fleet(), concurrency=64, pending=640)
        visits = PageFetcher(limiter)
        await asyncio.gather(*(visits.one() for _ in range(640)))
        assert sorted(Counter(visits.began).values()) == [64] * 10 and visits.most == 64
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        turns.append(loop.jumping.turns)

    run(work)
    assert turns[0] < 100, "a few for each 64, not one for each page"


def test_a_host_that_is_known_to_be_slow_is_waited_for() -> None:
    async def work() -> None:
        limiter = gate_of(Fleet(), concurrency=1, pending=6)
        visits = PageFetcher(limiter, lasts_s=1.9)
        await asyncio.gather(*(visits.one() for _ in range(5)))
        visits.lasts_s = 2.5
        limiter.pending = 4
        await asyncio.gather(*(visits.one() for _ in range(4)))
        assert len(visits.began) == 9 and not visits.deferred

    run(work)


def test_a_slow_host_keeps_pages_waiting_and_a_fast_one_does_not() -> None:
    async def work() -> None:
        assert gate_of(Fleet(), interval_s=2.0).count_queued(100) == 100, "its rate says when"
        limiter = gate_of(Fleet(), concurrency=4, pending=100)
        assert limiter.count_queued(100) == 0, "nobody knows yet"
        visits = PageFetcher(limiter, lasts_s=2.0)
        await asyncio.gather(*(visits.one() for _ in range(100)))
        assert limiter.count_queued(100) == 98, "four at once, two seconds each"
        visits.lasts_s, limiter.pending = 0.001, 100
        await asyncio.gather(*(visits.one() for _ in range(100)))
        assert limiter.count_queued(100) == 0

    run(work)


def test_no_page_waits_longer_than_the_batch_lasts() -> None:
    async def work() -> None:
        fleet = Fleet(limit=1)
        limiter = gate_of(fleet, interval_s=3.0, concurrency=1, pending=9)
        visits = PageFetcher(limiter, lasts_s=0.1)
        await asyncio.gather(*(visits.one(latest=10.0) for _ in range(9)))
        assert len(visits.began) == 4 and len(visits.deferred) == 5
        assert now() <= 10.0

    run(work)


def test_without_any_share_a_page_is_deferred_and_the_fleet_asked_now_and_then() -> None:
    async def work() -> None:
        fleet = Fleet(limit=0)
        visits = PageFetcher(gate_of(fleet, pending=1))
        await visits.one(latest=10.0)
        assert len(visits.deferred) == 1
        assert 10 <= len(fleet.asked) <= 60

    run(work)


def test_a_host_without_room_is_not_asked_in_a_tight_loop() -> None:
    async def work() -> None:
        fleet = Fleet()
        fleet.free = 8.0
        visits = PageFetcher(gate_of(fleet, interval_s=1.0, pending=1))
        await visits.one(latest=20.0)
        assert visits.began == [pytest.approx(8.0, abs=0.1)]
        assert len(fleet.asked) < 15

    run(work)


def test_late_slots_are_given_up() -> None:
    """Pages that come after a pause do not catch up on what they missed."""

    async def work() -> None:
        limiter = gate_of(Fleet(), interval_s=0.1, concurrency=50, pending=20)
        visits = PageFetcher(limiter, lasts_s=0.0)
        await visits.one()
        await asyncio.sleep(30)
        await asyncio.gather(*(visits.one() for _ in range(19)))
        later = visits.began[1:]
        assert all(b - a >= 0.1 - LATE_S for a, b in pairwise(later))

    run(work)


def test_slots_are_asked_for_several_pages_at_once_but_not_far_ahead() -> None:
    async def work() -> None:
        fleet = Fleet()
        visits = PageFetcher(
            gate_of(fleet, interval_s=0.1, concurrency=50, pending=50), lasts_s=0.0
        )
        await asyncio.gather(*(visits.one() for _ in range(50)))
        wanted = [asked["slots"] for asked in fleet.asked if asked["slots"]]
        assert max(wanted) == int(RESERVED_AHEAD_S / 0.1)
        assert sum(wanted) <= 50 + max(wanted)
        assert len(fleet.asked) < 12

    run(work)


def test_more_pages_ask_for_a_larger_share_at_once() -> None:
    """A listing alone gets a allotment of one; the hundred products it found do not wait for the next
    renewal."""

    async def work() -> None:
        limiter = gate_of(Fleet(), concurrency=8, pending=1)
        visits = PageFetcher(limiter, lasts_s=0.5)
        await visits.one()
        limiter.pending = 16
        began = now()
        await asyncio.gather(*(visits.one() for _ in range(16)))
        assert visits.most == 8
        assert now() - began <= 1.1

    run(work)


def test_a_page_inside_gets_another_request_while_others_wait_to_enter() -> None:
    """A redirect or robots.txt of the only page allowed in must not wait for those outside, nor
    they for it."""

    async def work() -> None:
        limiter = gate_of(Fleet(), interval_s=0.1, concurrency=1, pending=2)
        waiting = PageFetcher(limiter)
        async with limiter.permit(FAR):
            outside = asyncio.ensure_future(waiting.one(latest=50.0))
            await asyncio.sleep(0.5)
            await limiter.take_slot(deadline_at=5.0)
            assert now() <= 1.0
        limiter.pending -= 1
        await outside
        assert len(waiting.began) == 1

    run(work)


@pytest.mark.parametrize("interval_s", [0.0, 0.1])
def test_a_host_that_asks_for_rest_gets_it(interval_s: float) -> None:
    """With a rate and without one; pages that can wait do, the others go back."""

    async def work() -> None:
        limiter = gate_of(Fleet(), interval_s=interval_s, concurrency=5, pending=3)
        visits = PageFetcher(limiter, lasts_s=0.0)
        await visits.one()
        await limiter.slow_down(30.0, "429")
        await visits.one(latest=10.0)
        assert visits.deferred == [pytest.approx(30, abs=1)]
        await visits.one(latest=100.0)
        assert visits.began[1] >= 30.0

    run(work)


def test_another_process_hears_of_a_rest_with_its_next_share() -> None:
    async def work() -> None:
        fleet = Fleet()
        here, there = gate_of(fleet, pending=1), gate_of(fleet, pending=1)
        await here.slow_down(30.0, "429")
        visits = PageFetcher(there)
        await visits.one(latest=10.0)
        assert (visits.began, len(visits.deferred)) == ([], 1)

    run(work)


def test_a_crawl_delay_counts_where_it_is_longer_and_survives_the_next_budget() -> None:
    async def work() -> None:
        limiter = gate_of(Fleet(), interval_s=0.2, concurrency=10, pending=6)
        visits = PageFetcher(limiter, lasts_s=0.0)
        await visits.one()
        limiter.set_crawl_delay(1, 3.0)
        for _ in range(4):
            limiter.set_budget(1, Budget(0.2, 10))
            await visits.one()
        gaps = [b - a for a, b in pairwise(visits.began[1:])]
        assert gaps == pytest.approx([3.0] * 3)
        limiter.set_crawl_delay(1, 0.1)
        assert limiter.budget.interval_s == 0.2

    run(work)


@pytest.mark.parametrize("wait", ["for a allotment", "for a slot", "for the fleet's answer"])
def test_a_turn_that_is_cancelled_while_it_waits_leaves_nothing_behind(wait: str) -> None:
    async def work() -> None:
        fleet = Fleet()
        limiter = gate_of(
            fleet, interval_s=0.0 if wait == "for a allotment" else 2.0, concurrency=1, pending=3
        )
        visits = PageFetcher(limiter, lasts_s=5.0)
        if wait == "for a allotment":
            first = asyncio.ensure_future(visits.one())
        else:
            limiter.set_budget(1, Budget(2.0, 3))
            fleet.free = 2.0
            first = None
        if wait != "for the fleet's answer":
            await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(visits.one())
        await asyncio.sleep(0 if wait == "for the fleet's answer" else 0.5)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if first is not None:
            await first
        await asyncio.wait_for(visits.one(), 20)
        limiter.pending = 0
        assert limiter.is_idle
        assert not limiter._allotment_lock.locked() and not limiter._rate_lock.locked()

    run(work)


@pytest.mark.parametrize("interval_s", [0.0, 0.3])
def test_cancelling_at_any_moment_leaks_nothing(interval_s: float) -> None:
    async def work() -> None:
        rng = random.Random(7)
        limiter = gate_of(Fleet(limit=3), interval_s=interval_s, concurrency=3, pending=60)
        visits = PageFetcher(limiter, lasts_s=0.4)
        pages = [asyncio.ensure_future(visits.one()) for _ in range(60)]
        for page in rng.sample(pages, 40):
            await asyncio.sleep(rng.random() * 0.3)
            page.cancel()
        await asyncio.gather(*pages, return_exceptions=True)
        assert limiter.is_idle
        assert visits.most <= 3
        limiter.pending = 1
        await asyncio.wait_for(visits.one(), 10)

    run(work)


def test_an_error_inside_a_turn_gives_it_back() -> None:
    async def work() -> None:
        limiter = gate_of(Fleet(), pending=0)
        with pytest.raises(ZeroDivisionError):
            async with limiter.permit(FAR):
                raise ZeroDivisionError
        assert limiter.is_idle

    run(work)


def test_idle_hosts_give_their_share_back_and_busy_hosts_keep_it() -> None:
    async def work() -> None:
        fleet = Fleet()
        limiters = HostLimiters(fleet)
        idle, busy, expecting = (
            limiters.for_host(f"{name}.example") for name in ("idle", "busy", "expecting")
        )
        for limiter in (idle, busy, expecting):
            limiter.set_budget(1, Budget(0.0, 2))
            await PageFetcher(limiter, 0.0).one()
            limiter.pending = 0
        expecting.pending = 1
        async with busy.permit(FAR):
            await limiters.sweep()
            assert fleet.given_back == ["idle.example"]
            assert limiters.for_host("idle.example") is not idle
            assert limiters.for_host("busy.example") is busy
            assert limiters.for_host("expecting.example") is expecting
        await limiters.sweep()
        assert fleet.given_back == ["idle.example", "busy.example"]

    run(work)


def test_a_long_answer_does_not_cost_the_share() -> None:
    """An allotment that is not renewed would be another process's after its time to live, and the host
    see one too many."""

    async def work() -> None:
        fleet = Fleet()
        limiters = HostLimiters(fleet)
        limiter = limiters.for_host("slow.example")
        limiter.set_budget(1, Budget(0.0, 1))
        limiter.pending = 1
        async with limiter.permit(FAR):
            for _ in range(15):
                await asyncio.sleep(2)
                await limiters.sweep()
        times = [asked["at"] for asked in fleet.asked]
        assert max(b - a for a, b in pairwise(times)) <= RENEWED_S + 2
        assert all(asked["in_flight"] == 1 for asked in fleet.asked[1:])

    run(work)


def test_a_throttle_that_is_away_defers_pages_and_breaks_no_sweep() -> None:
    async def work() -> None:
        fleet = Fleet()
        limiters = HostLimiters(fleet)
        limiter = limiters.for_host("shop.example")
        limiter.set_budget(1, Budget(0.5, 2))
        visits = PageFetcher(limiter, 0.0)
        limiter.pending = 3
        await visits.one()
        fleet.away = True
        await asyncio.sleep(RENEWED_S + 1)
        await visits.one()
        assert visits.deferred == [5.0]
        limiter.pending = 0
        await limiters.sweep()
        fleet.away = False
        limiter.pending = 1
        await visits.one()
        assert len(visits.began) == 2
        assert limiter.is_idle

    run(work)


# --- the pace
# --------------------------------------------------------------------------------------------------------


def test_good_answers_are_reported_with_the_next_request_and_cost_none_of_their_own() -> None:
    async def work() -> None:
        fleet = Fleet()
        limiter = gate_of(fleet, concurrency=8, pending=1000)
        visits = PageFetcher(limiter, lasts_s=0.1)
        for _ in range(100):
            await asyncio.gather(*(visits.one() for _ in range(8)))
            limiter.good_answers += 8
        # each second, for others might wait for places
        assert 9 <= len(fleet.asked) <= 12
        assert sum(asked["good"] for asked in fleet.asked) + limiter.good_answers == 800

    run(work)


def test_many_complaints_at_once_are_reported_once() -> None:
    """Those of requests that left before the pace was cut, or before the cut can have taken effect,
    say nothing new."""

    async def work() -> None:
        fleet = Fleet()
        limiter = gate_of(fleet)
        began = now()
        await asyncio.sleep(3.0)
        await asyncio.gather(*(limiter.slow_down(5.0, "429", began) for _ in range(50)))
        assert fleet.slowed == [(5.0, "429", 3.0)]
        await limiter.slow_down(0.0, "503", now() + 1.0)
        await limiter.slow_down(60.0, "429, Retry-After 60 s", now() + 1.0)
        await asyncio.sleep(5.0)
        await limiter.slow_down(0.0, "503", now())
        assert [(rest_s, age_s) for rest_s, _, age_s in fleet.slowed[1:]] == [
            (60.0, None),
            (0.0, 0.0),
        ]

    run(work)


def test_of_two_sites_on_one_host_the_stricter_budget_counts() -> None:
    async def work() -> None:
        limiter = gate_of(Fleet(), interval_s=0.5, concurrency=4)
        limiter.set_budget(2, Budget(0.1, 2, burst=5))
        limiter.set_crawl_delay(2, 0.7)
        limiter.set_budget(1, Budget(0.5, 4))
        assert limiter.budget == Budget(0.7, 2, 1)
        mine = Budget(0.5, 4)
        limiter.set_budget(1, mine)
        for _ in range(3):
            limiter.set_budget(1, mine)
            await limiter.maintain()
        assert limiter.budget == Budget(0.5, 4), "the other site is done"

    run(work)


def test_an_operators_word_counts_at_once_and_a_crawl_delay_all_the_same() -> None:
    async def work() -> None:
        limiters = HostLimiters(Fleet())
        limiter = limiters.for_host("shop.example")
        limiter.set_budget(1, Budget(0.5, 4))
        limiters.apply_overrides({"shop.example": Override(interval_s=0.1, concurrency=9, burst=3)})
        assert limiter.budget == Budget(0.1, 9, 3)
        limiter.set_crawl_delay(1, 0.25)
        assert limiter.budget == Budget(0.25, 9, 1)
        limiters.apply_overrides({})
        assert limiter.budget == Budget(0.5, 4)

    run(work)


@pytest.mark.parametrize("interval_s", [0.0, 4.0])
def test_a_paused_host_admits_no_page_and_sends_back_those_that_wait(interval_s: float) -> None:
    async def work() -> None:
        limiters = HostLimiters(Fleet())
        limiter = limiters.for_host("shop.example")
        limiter.set_budget(1, Budget(interval_s, 1))
        limiter.pending = 3
        visits = PageFetcher(limiter, lasts_s=1.5)
        pages = [asyncio.ensure_future(visits.one()) for _ in range(2)]
        await asyncio.sleep(0.5)
        limiters.apply_overrides({"shop.example": Override(paused=True)})
        await visits.one()
        await asyncio.gather(*pages)
        assert (len(visits.began), len(visits.deferred)) == (1, 2)
        limiters.apply_overrides({})
        limiter.pending = 1
        await visits.one()
        assert len(visits.began) == 2
        assert limiter.is_idle

    run(work)


@pytest.mark.parametrize("another_is_next", [False, True])
def test_a_slot_for_which_the_loop_comes_too_late_is_not_used(another_is_next: bool) -> None:
    """Used late it would crowd the next one, which may be another process's. It costs at most the
    delay, if no other process has a later one; otherwise its interval."""

    async def work() -> None:
        fleet = Fleet()
        limiter = gate_of(fleet, interval_s=1.0, concurrency=10, pending=6)
        visits = PageFetcher(limiter, lasts_s=0.0)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        pages = [asyncio.ensure_future(visits.one()) for _ in range(6)]
        await asyncio.sleep(1.5)
        fleet.free += another_is_next
        # Another task parses a large page.
        loop.jumping.now += 0.8
        await asyncio.gather(*pages)
        assert len(visits.began) == 6
        assert all(b - a >= 1.0 - LATE_S for a, b in pairwise(visits.began))
        late = [began for began in visits.began if abs(began - round(began)) > LATE_S]
        if another_is_next:
            assert not late
        else:
            assert visits.began == pytest.approx([0, 1, 2.3, 3.3, 4.3, 5.3])

    run(work)


def test_slots_are_not_reserved_for_pages_that_have_no_place() -> None:
    """One place and answers of two seconds: of four slots a second seven in eight would be lost to
    everybody."""

    async def work() -> None:
        fleet = Fleet(limit=1)
        limiter = gate_of(fleet, interval_s=0.25, concurrency=1, pending=10)
        visits = PageFetcher(limiter, lasts_s=2.0)
        await asyncio.gather(*(visits.one() for _ in range(10)))
        assert sum(asked["slots"] for asked in fleet.asked) <= 12

    run(work)


def test_a_page_is_waited_for_as_the_slowest_answers_of_its_host_say() -> None:
    async def work() -> None:
        limiter = HostLimiter("shop", Fleet())
        for _ in range(ANSWERS_LEAST):
            assert limiter.answer_timeout_s() is None
            limiter.record_answer(0.05)
        assert limiter.answer_timeout_s() == limiter.answer_timeout_s(1) == TIMEOUT_LEAST_S
        assert limiter.answer_timeout_s(PATIENT_TRY) == PATIENT_LEAST_S
        limiter.record_answer(2.0)
        assert limiter.answer_timeout_s() == TIMEOUT_SLOWEST * 2.0
        for _ in range(5000):
            limiter.record_answer(0.05)
        assert limiter.answer_timeout_s() == TIMEOUT_LEAST_S
        await asyncio.sleep(100)
        assert limiter.answer_timeout_s() == TIMEOUT_LEAST_S
        assert limiter.answer_timeout_s(PATIENT_TRY) == pytest.approx(100 * PATIENT_SHARE)

    run(work)


def test_a_pace_that_ends_while_late_slots_are_given_back_lets_pages_pass() -> None:
    class Ending(Fleet):
        limiter: HostLimiter

        async def reserve(self, host: str, budget: Budget, **more: Any) -> Reservation:
            if more.get("back") is not None:
                budget = Budget(0.0, 8, 1)
                self.limiter.set_budget(1, budget)
            return await super().reserve(host, budget, **more)

    async def work() -> None:
        fleet = Ending()
        limiter = fleet.limiter = HostLimiter("shop", fleet)
        limiter.set_budget(1, Budget(0.5, 8, 1))
        limiter.pending = 8
        for _ in range(3):
            async with limiter.permit(FAR):
                await asyncio.sleep(0.01)
        await asyncio.sleep(10)
        async with limiter.permit(FAR):
            assert now() < 20

    run(work)
