"""The breaker: one page's trouble is its own, a host's is the host's, and every crawl ends."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scraper.domain import Blame, Outcome, Status
from scraper.rules.circuit_breaker import (
    DOWN_AFTER,
    FORGOTTEN_S,
    FREE_S,
    HOSTS_MAX,
    PATIENCE_S,
    REST_MAX_S,
    REST_S,
    CircuitBreakers,
    HostDown,
)
from scraper.rules.verdict import HOST_PATIENCE, RetryPolicy, judge_outcome
from tests.support.machine import examples

HOST = "shop.example"
DECIDED_WITHOUT_IT = [
    Outcome.FRESH,
    Outcome.FORBIDDEN_ADDRESS,
    Outcome.ROBOTS_DISALLOWED,
    Outcome.HOST_DOWN,
]
OURS = [o for o in Outcome if o.blame in (Blame.US, Blame.PROXY)]
NEUTRAL = [Outcome.THROTTLED, Outcome.TLS, *DECIDED_WITHOUT_IT, *OURS]
FAILURES = [o for o in Outcome if o.blame is Blame.HOST and o not in NEUTRAL]
ANSWERS = [outcome for outcome in Outcome if outcome not in (*NEUTRAL, *FAILURES)]
GAPS = st.floats(0, 60)


def fail(
    breakers: CircuitBreakers, pages: int, at: float = 0.0, first: int = 0, host: str = HOST
) -> list[HostDown | None]:
    return [breakers.record(host, first + n, Outcome.TIMEOUT, at) for n in range(pages)]


def tripped(at: float = 0.0) -> CircuitBreakers:
    breakers = CircuitBreakers()
    fail(breakers, DOWN_AFTER, at)
    return breakers


# --- when a host is down
# ---------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from(FAILURES), GAPS), max_size=200),
    st.integers(1, DOWN_AFTER - 1),
)
def test_a_few_failing_pages_never_take_a_host_down(
    tries: list[tuple[Outcome, float]], pages: int
) -> None:
    """However often they are tried, and for however long: their own account is charged, and so they
    end."""
    breakers, now = CircuitBreakers(), 0.0
    for number, (outcome, gap) in enumerate(tries):
        now += gap
        assert breakers.record(HOST, number % pages, outcome, now) is None


ROUNDS = st.lists(
    st.tuples(
        st.sampled_from(FAILURES), GAPS, st.integers(0, 2), st.sampled_from([None, *NEUTRAL])
    ),
    min_size=DOWN_AFTER,
    max_size=DOWN_AFTER,
)


@given(st.permutations(range(DOWN_AFTER)), ROUNDS)
def test_different_pages_in_a_row_do(
    pages: list[int], rounds: list[tuple[Outcome, float, int, Outcome | None]]
) -> None:
    """Whatever they fail of, however often each, and with outcomes between that say nothing of the
    host."""
    breakers, now = CircuitBreakers(), 0.0
    for place, (outcome, gap, again, neutral) in enumerate(rounds):
        now += gap
        if neutral is not None:
            assert breakers.record(HOST, 1000, neutral, now) is None
        for known in pages[:place][:again]:
            assert breakers.record(HOST, known, outcome, now) is None
        down = breakers.record(HOST, pages[place], outcome, now)
        assert (down is not None) == (place == DOWN_AFTER - 1)
    assert down is not None
    assert (down.rest_s, down.given_up) == (pytest.approx(REST_S), False)


@given(st.integers(0, 30), st.sampled_from(ANSWERS), st.integers(0, 40))
def test_any_answer_ends_it(failures: int, answer: Outcome, page: int) -> None:
    """A page that is gone, refused, or not what was expected is an answer like any other."""
    breakers = CircuitBreakers()
    fail(breakers, failures)
    assert breakers.record(HOST, page, answer, 1.0) is None
    assert fail(breakers, DOWN_AFTER - 1, at=2.0) == [None] * (DOWN_AFTER - 1)
    assert breakers.record(HOST, 999, Outcome.TIMEOUT, 2.0) == HostDown(REST_S), "it begins anew"


@given(st.sampled_from(NEUTRAL), st.integers(0, 2 * DOWN_AFTER), st.floats(0, 100))
def test_what_says_nothing_of_the_host_changes_nothing(
    outcome: Outcome, failures: int, at: float
) -> None:
    disturbed, quiet = CircuitBreakers(), CircuitBreakers()
    for page in range(failures):
        assert disturbed.record(HOST, 500 + page, outcome, at) is None
        both = [
            breakers.record(HOST, page, Outcome.UNREACHABLE, at) for breakers in (disturbed, quiet)
        ]
        assert both[0] == both[1]
    assert disturbed.record(HOST, 0, outcome, at + 1) is None
    assert disturbed._failing == quiet._failing


def test_one_hosts_trouble_is_not_anothers() -> None:
    breakers = tripped()
    assert fail(breakers, DOWN_AFTER - 1, host="other.example") == [None] * (DOWN_AFTER - 1)
    assert breakers.record("other.example", 0, Outcome.FETCHED, 0.0) is None
    assert breakers.record(HOST, 0, Outcome.TIMEOUT, 0.5) == HostDown(REST_S - 0.5)


# --- pages that have failed before
# -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 500), st.sampled_from(FAILURES), GAPS), max_size=100))
def test_pages_that_failed_before_begin_no_outage(tries: list[tuple[int, Outcome, float]]) -> None:
    """The end of a crawl: only broken pages are left, and the host is well."""
    breakers, now = CircuitBreakers(), 0.0
    for page, outcome, gap in tries:
        now += gap
        assert breakers.record(HOST, page, outcome, now, failed_before=True) is None
        assert not breakers.is_open(HOST, now)


@given(st.integers(0, DOWN_AFTER - 1), st.lists(st.integers(100, 200), min_size=1, max_size=30))
def test_nor_do_they_help_to_begin_one(fresh: int, known: list[int]) -> None:
    breakers = CircuitBreakers()
    assert fail(breakers, fresh) == [None] * fresh
    for page in known:
        assert breakers.record(HOST, page, Outcome.TIMEOUT, 0.0, failed_before=True) is None
    rest = fail(breakers, DOWN_AFTER - fresh, first=fresh)
    assert rest == [None] * (DOWN_AFTER - fresh - 1) + [HostDown(REST_S)], (
        "they do not end one either"
    )


def test_they_wait_like_any_other_while_one_lasts() -> None:
    breakers = tripped()
    known = breakers.record(HOST, 999, Outcome.TIMEOUT, 0.5, failed_before=True)
    assert known == HostDown(REST_S - 0.5)
    assert breakers.record(HOST, 999, Outcome.TIMEOUT, REST_S, failed_before=True) == HostDown(
        2 * REST_S
    )


def test_one_that_failed_before_ends_an_outage_with_its_answer() -> None:
    breakers = tripped()
    assert breakers.record(HOST, 999, Outcome.FETCHED, 1.0, failed_before=True) is None
    assert fail(breakers, DOWN_AFTER - 1, at=1.0) == [None] * (DOWN_AFTER - 1)


# --- ageing
# ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 3 * DOWN_AFTER), st.floats(0.1, 1e6))
def test_a_streak_that_has_not_grown_for_long_is_forgotten(failures: int, more_s: float) -> None:
    """A crawl that ended in an outage says nothing of tomorrow's: that one begins with a clean
    slate."""
    breakers = CircuitBreakers()
    fail(breakers, failures)
    later = FORGOTTEN_S + more_s
    assert not breakers.is_open(HOST, later)
    assert breakers.record(HOST, 998, Outcome.TIMEOUT, later, failed_before=True) is None
    assert fail(breakers, DOWN_AFTER, at=later) == [None] * (DOWN_AFTER - 1) + [HostDown(REST_S)]


@given(st.integers(1, DOWN_AFTER - 1), st.floats(0, min(FORGOTTEN_S, PATIENCE_S / DOWN_AFTER)))
def test_one_that_is_added_to_is_not(failures: int, gap_s: float) -> None:
    breakers = CircuitBreakers()
    fail(breakers, failures)
    now = 0.0
    for number in range(failures, DOWN_AFTER):
        now += gap_s
        down = breakers.record(HOST, number, Outcome.TIMEOUT, now)
    assert down is not None and down.rest_s == pytest.approx(REST_S)
    assert down.charged == (now > FREE_S)


def test_what_says_nothing_keeps_no_streak_alive() -> None:
    breakers = tripped()
    for tenth in range(1, 11):
        for outcome in NEUTRAL:
            assert breakers.record(HOST, tenth, outcome, tenth * FORGOTTEN_S / 10) is None
    assert fail(breakers, 1, at=FORGOTTEN_S + 1) == [None]


def test_an_outage_begins_with_its_first_failure_not_with_a_forgotten_one() -> None:
    breakers = tripped()
    later = PATIENCE_S + FORGOTTEN_S
    assert fail(breakers, DOWN_AFTER, at=later)[-1] == HostDown(REST_S, charged=False)


# --- free, charged, given up
# -----------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.1, 60), min_size=1, max_size=60))
def test_an_outage_is_free_then_charged_then_given_up(gaps: list[float]) -> None:
    breakers, now = tripped(), 0.0
    for gap in gaps:
        now += gap
        down = breakers.record(HOST, 7, Outcome.TIMEOUT, now)
        assert down is not None
        assert (down.charged, down.given_up) == (now > FREE_S, now > PATIENCE_S)
        assert down.rest_s == 0 if down.given_up else down.rest_s > 0


@given(st.lists(st.tuples(st.floats(0.1, 60), st.booleans()), min_size=1, max_size=80))
@example([(60.0, False)] * 5 + [(1.0, True)])
def test_a_page_is_hopeless_after_that_but_for_a_try_after_each_rest(
    steps: list[tuple[float, bool]],
) -> None:
    breakers, now, last = tripped(), 0.0, 0.0
    rest_s = rests_until = REST_S
    for gap, tried in steps:
        now += gap
        assert breakers.is_open(HOST, now) == (last > PATIENCE_S and now < rests_until)
        if now - last > FORGOTTEN_S:
            # A failure that comes now begins another outage.
            return
        if tried:
            if now >= rests_until:
                rest_s = min(2 * rest_s, REST_MAX_S)
                rests_until = now + rest_s
            assert breakers.record(HOST, 7, Outcome.TIMEOUT, now) is not None
            last = now


def test_no_page_is_hopeless_while_its_host_is_waited_for() -> None:
    breakers = tripped()
    assert not breakers.is_open("other.example", 0.0)
    for second in range(0, int(PATIENCE_S), 20):
        breakers.record(HOST, second, Outcome.TIMEOUT, float(second))
        assert not breakers.is_open(HOST, second + 0.1)


def test_one_answer_gives_hope() -> None:
    breakers, now = tripped(), 0.0
    while not breakers.is_open(HOST, now):
        now += REST_S
        breakers.record(HOST, 7, Outcome.TIMEOUT, now)
    assert PATIENCE_S < now <= PATIENCE_S + REST_MAX_S + 2 * REST_S
    breakers.record(HOST, 1, Outcome.HOST_DOWN, now)
    assert breakers.is_open(HOST, now), "a page that was not tried is no answer"
    breakers.record(HOST, 1, Outcome.NOT_FOUND, now)
    assert not breakers.is_open(HOST, now)


# --- rests
# -----------------------------------------------------------------------------------------------------------


def test_rests_double_up_to_the_cap() -> None:
    breakers, now, rests = CircuitBreakers(), 0.0, []
    fail(breakers, DOWN_AFTER - 1)
    for page in range(8):
        down = breakers.record(HOST, 100 + page, Outcome.TIMEOUT, now)
        assert down is not None
        rests.append(down.rest_s)
        now += down.rest_s
    assert rests[:4] == [REST_S, 2 * REST_S, 4 * REST_S, 8 * REST_S]
    assert rests[-1] == rests[-2] == REST_MAX_S
    assert all(after in (2 * before, REST_MAX_S) for before, after in pairwise(rests))


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 20)), min_size=1, max_size=40))
def test_a_rest_is_ordered_once_and_what_fails_during_it_waits_for_its_end(
    tries: list[tuple[int, float]],
) -> None:
    """Pages that were under way when the host went down fail one after the other, long after its
    rest began."""
    breakers = tripped()
    now, until, rest_s = 0.0, REST_S, REST_S
    for page, gap in tries:
        now += gap
        if now > PATIENCE_S:
            break
        down = breakers.record(HOST, page, Outcome.TIMEOUT, now)
        assert down is not None
        if now >= until:
            rest_s = min(2 * rest_s, REST_MAX_S)
            until = now + rest_s
        assert now + down.rest_s == pytest.approx(until)
        assert 0 <= down.rest_s <= rest_s + 1e-6
        assert not down.given_up


def test_a_host_that_answers_once_rests_briefly_again() -> None:
    breakers = tripped()
    for page in range(6):
        assert breakers.record(HOST, page, Outcome.TIMEOUT, 100.0 * page) is not None
    breakers.record(HOST, 0, Outcome.FETCHED, 600.0)
    assert fail(breakers, DOWN_AFTER, at=601.0)[-1] == HostDown(REST_S)


# --- bounds
# ----------------------------------------------------------------------------------------------------------


def still_failing(until_s: float) -> CircuitBreakers:
    """A host that has been down all the time, its pages tried again and again."""
    breakers, now = tripped(), 0.0
    while now < until_s:
        now = min(until_s, now + FORGOTTEN_S)
        assert breakers.record(HOST, 7, Outcome.TIMEOUT, now) is not None
    return breakers


def test_patience_ends() -> None:
    waiting = still_failing(PATIENCE_S).record(HOST, 7, Outcome.TIMEOUT, PATIENCE_S)
    assert waiting is not None and not waiting.given_up
    over = still_failing(PATIENCE_S).record(HOST, 7, Outcome.TIMEOUT, PATIENCE_S + 1)
    assert over == HostDown(0.0, charged=True, given_up=True)


def test_one_answer_renews_patience() -> None:
    breakers = still_failing(PATIENCE_S + 1)
    breakers.record(HOST, 7, Outcome.NOT_FOUND, PATIENCE_S + 1)
    assert fail(breakers, DOWN_AFTER, at=PATIENCE_S + 2)[-1] == HostDown(REST_S)


def test_memory_is_bounded_and_the_oldest_hosts_are_forgotten() -> None:
    breakers = CircuitBreakers()
    for n in range(HOSTS_MAX + 500):
        fail(breakers, 3, host=f"h{n}.example")
    assert len(breakers._failing) == HOSTS_MAX
    assert "h0.example" not in breakers._failing
    assert f"h{HOSTS_MAX + 499}.example" in breakers._failing
    fail(breakers, 10_000, host="large.example")
    assert len(breakers._failing["large.example"].pages) <= DOWN_AFTER


# --- whole crawls, with the verdicts
# ---------------------------------------------------------------------------------


class Simulation:
    """Pages of one host on one worker: tried when they are due and the host does not rest, a few at
    a time."""

    def __init__(
        self, pages: int, answers: Callable[[int, float], Outcome], *, takes_s: float, lanes: int
    ) -> None:
        self.answers, self.takes_s, self.lanes = answers, takes_s, lanes
        self.breakers, self.rng, self.policy = (
            CircuitBreakers(),
            random.Random(pages),
            RetryPolicy(),
        )
        self.statuses: Counter[Status] = Counter()
        self.due = [(0.0, page) for page in range(pages)]
        # (page, its host's account) -> tries
        self.charged: Counter[tuple[int, bool]] = Counter()
        self.tries = 0
        self.ended_at = 0.0

    def run(self, until_s: float) -> None:
        free = [0.0] * self.lanes
        under_way: list[tuple[float, int, float]] = []
        rests_until = 0.0
        while self.due or under_way:
            if self.due:
                when, page = self.due[0]
                begins = max(when, heapq.nsmallest(1, free)[0], rests_until)
            if under_way and (not self.due or under_way[0][0] <= begins):
                ends, page, began = heapq.heappop(under_way)
                rests_until = max(rests_until, self._settle(page, ends, began))
                continue
            assert begins <= until_s, f"{len(self.due)} pages are still due after {begins:.0f} s"
            heapq.heappop(self.due)
            takes_s = 0.0 if self.breakers.is_open(HOST, begins) else self.takes_s
            heapq.heapreplace(free, begins + takes_s)
            heapq.heappush(under_way, (begins + takes_s, page, begins))

    def _settle(self, page: int, now: float, began: float) -> float:
        hopeless = self.breakers.is_open(HOST, began)
        outcome = Outcome.HOST_DOWN if hopeless else self.answers(page, now)
        failed_before = self.charged[page, True] > 0
        down = self.breakers.record(HOST, page, outcome, now, failed_before=failed_before)
        account = page, outcome.blame is Blame.HOST
        verdict = judge_outcome(outcome, self.charged[account], self.policy, self.rng, down=down)
        self.tries += not hopeless
        self.charged[account] += verdict.charged
        if verdict.status is Status.DUE:
            heapq.heappush(self.due, (now + verdict.delay_s, page))
        else:
            self.statuses[verdict.status] += 1
            self.ended_at = now
        return now + down.rest_s if down else 0.0


def never(page: int, now: float) -> Outcome:
    return Outcome.TIMEOUT


@pytest.mark.parametrize("pages", [1, DOWN_AFTER - 1, DOWN_AFTER, 100, 3000])
@pytest.mark.parametrize("takes_s", [0.01, 10.0])
def test_a_crawl_of_a_host_that_never_answers_ends(pages: int, takes_s: float) -> None:
    """When no crawl waits for it, all that is left ends at once, tried or not."""
    lanes = 8
    simulation = Simulation(pages, never, takes_s=takes_s, lanes=lanes)
    simulation.run(PATIENCE_S + 4 * (REST_MAX_S + takes_s) + 300)
    assert simulation.statuses == {Status.DEAD: pages}
    most_rests = PATIENCE_S / REST_MAX_S + 10
    assert simulation.tries <= lanes * (most_rests + 1) + 4 * HOST_PATIENCE * DOWN_AFTER


def test_a_large_crawl_of_a_black_hole_is_over_soon_after_its_patience() -> None:
    simulation = Simulation(20_000, never, takes_s=10.0, lanes=4)
    simulation.run(PATIENCE_S + 4 * (REST_MAX_S + 10))
    assert simulation.statuses == {Status.DEAD: 20_000}


@pytest.mark.parametrize("away_s", [20.0, 300.0, PATIENCE_S - 2 * REST_MAX_S])
def test_an_outage_within_the_patience_costs_no_page(away_s: float) -> None:
    def answers(page: int, now: float) -> Outcome:
        return Outcome.UNREACHABLE if 5.0 <= now < 5.0 + away_s else Outcome.FETCHED

    simulation = Simulation(2000, answers, takes_s=0.1, lanes=8)
    simulation.run(away_s + 3 * REST_MAX_S + 100)
    assert simulation.statuses == {Status.OK: 2000}
    paid = [count for (_, host), count in simulation.charged.items() if host and count]
    assert not paid or max(paid) < RetryPolicy().attempts_max * HOST_PATIENCE
    if away_s <= FREE_S:
        assert sum(paid) < DOWN_AFTER, "the first few failures, nothing of the outage"


@pytest.mark.parametrize("bad", [1, DOWN_AFTER - 1, DOWN_AFTER, DOWN_AFTER + 1, 20, 200])
def test_broken_pages_of_a_host_that_is_well_are_paid_for_by_themselves(bad: int) -> None:
    """However many: they are what is left at the end, which is not an outage."""
    broken = set(random.Random(bad).sample(range(2000), bad))

    def answers(page: int, now: float) -> Outcome:
        return Outcome.SERVER_ERROR if page in broken else Outcome.FETCHED

    simulation = Simulation(2000, answers, takes_s=0.1, lanes=8)
    simulation.run(1e4)
    assert simulation.statuses == {Status.OK: 2000 - bad, Status.DEAD: bad}
    assert simulation.ended_at < PATIENCE_S / 2


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32), st.floats(0, 1), st.integers(1, 200), st.floats(0.01, 10))
def test_a_host_that_answers_at_random_ends_too(
    seed: int, share: float, pages: int, takes_s: float
) -> None:
    rng = random.Random(seed)

    def answers(page: int, now: float) -> Outcome:
        return Outcome.FETCHED if rng.random() < share else rng.choice(FAILURES)

    simulation = Simulation(pages, answers, takes_s=takes_s, lanes=4)
    simulation.run((pages + 1) * (PATIENCE_S + 100))
    assert simulation.statuses.total() == pages
