"""`make fresh`: measures plans of visits against invented pages, and fails if one misses a target.

Each trace is played three times with the same changes: with what the plug-in learns from its looks,
with known rates and the best intervals for them, and with equal intervals.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scraper.plugins.freshness.rules.shares import true_share
from tools.fresh.cards import simulate_cards
from tools.fresh.planners import (
    KnownPlanner,
    LearningPlanner,
    LiedToPlanner,
    Planner,
    PromisePlanner,
    best_visits,
    lambda_visits,
    proportional_visits,
)
from tools.fresh.simulator import Measured, simulate
from tools.fresh.traces import START, TRACES, PoissonTrace, Trace, draw_rates

VISITS = 20
MEASURED_DAYS = 14
# Days from one visit of a page to the next.
SPACINGS = (0.2, 1.0, 3.0, 10.0, 60.0, 300.0)
FORMULA_TARGET = 0.01
ORACLE_TARGET = 0.97
PROMISE_TARGET = 0.02
LIE_TARGET = 0.02
KNOWN_TARGET, REQUESTS_TARGET = 0.999, 0.10
EVEN_TARGET = 0.05
HOUR = 1 / 24
# Of a page, changes and visits a day.
NEW_MEAN, NEW_VISITS = 26.0, 130.0
PROMISED, PROMISED_DAYS, PROMISED_WEEKS = 0.95, 0.5, 3
PROMISED_MEANS = (0.01, 0.2, 1.0, 5.0)
NEW_HOURS = (3, 8, 14, 30)


class Check(NamedTuple):
    """A measured figure, and whether it reaches its target."""

    text: str
    good: bool


def run_trace(kind: type[Trace], pages: int, spacing: float, seed: int) -> Iterator[Check]:
    """Plays one kind of changes with `spacing` days between the visits of a page, on average."""
    rates, budget = draw_rates(pages, random.Random(seed)), pages / spacing
    learning = LearningPlanner(pages, budget, START)
    begin = time.perf_counter()
    learned = _play(kind, rates, learning, budget, spacing, seed)
    took = time.perf_counter() - begin
    known = kind(list(rates), random.Random(seed)).rates
    oracle = KnownPlanner("best", best_visits(known, budget))
    best = _play(kind, rates, oracle, budget, spacing, seed)
    even = KnownPlanner("equal", [1 / spacing] * pages)
    equal = _play(kind, rates, even, budget, spacing, seed)
    print(
        f"{kind.name:9} every {spacing:g} d: learned {learned.share:.4f}, best {best.share:.4f}, "
        f"equal {equal.share:.4f}; {took / sum(learned.requests) * 1e6:.0f} us a visit"
    )
    share = learned.share / best.share
    yield Check(f"{share:.1%} of the best after {VISITS} visits", share >= ORACLE_TARGET)
    less = learned.share - equal.share
    yield Check(f"{less:+.4f} against equal visits", less >= -0.002)
    off = learning.promised - learned.share
    yield Check(f"promised {learning.promised:.4f}, off by {off:+.4f}", abs(off) <= PROMISE_TARGET)
    kept = learning.seen_fresh / learning.seen
    yield Check(f"measured from looks {kept:.4f}", abs(kept - learned.share) <= PROMISE_TARGET)
    spread = max(learned.requests) / min(learned.requests) - 1
    yield Check(f"requests of an hour differ by {spread:.1%}", spread <= EVEN_TARGET)


def run_budgets(pages: int, seed: int) -> Iterator[Check]:
    """Compares known rates with equal visits, at few and at many requests."""
    rates = draw_rates(pages, random.Random(seed))
    print("budget    equal  proportional  LambdaCrawl  best")
    for spacing in SPACINGS:
        budget = pages / spacing
        equal, proportional, ours, best = (
            _expected(rates, visits)
            for visits in (
                [1 / spacing] * pages,
                proportional_visits(rates, budget),
                lambda_visits(rates, budget),
                best_visits(rates, budget),
            )
        )
        print(
            f"1/{spacing:g} d".ljust(9),
            f"{equal:.4f} {proportional:.4f}        {ours:.4f}       {best:.4f}",
        )
        yield Check(f"1/{spacing:g} d: {ours - equal:+.4f} against equal", ours >= equal - 1e-6)


def run_formula(pages: int, seed: int) -> Iterator[Check]:
    rates = draw_rates(pages, random.Random(seed))
    for spacing in (1.0, 3.0):
        planner = KnownPlanner("equal", [1 / spacing] * pages)
        measured = _play(PoissonTrace, rates, planner, pages / spacing, spacing, seed).share
        exact = _expected(rates, [1 / spacing] * pages)
        off = measured / exact - 1
        text = f"every {spacing:g} d: exact {exact:.4f}, simulated {measured:.4f}"
        yield Check(text, abs(off) <= FORMULA_TARGET)


def run_new_site(pages: int, seed: int) -> Iterator[Check]:
    """Plays a site whose changes are a thousand times as many as a new one is taken to have. What
    its first hours show must not be taken for their own doing: the promise holds at all others."""
    budget = pages * NEW_VISITS
    rates = draw_rates(pages, random.Random(seed), NEW_MEAN)
    for hours in NEW_HOURS:
        planner = LearningPlanner(pages, budget, START)
        planner.planned_every = HOUR
        trace = PoissonTrace(list(rates), random.Random(seed))
        measured = simulate(trace, planner, budget, hours * HOUR, HOUR)
        off = planner.promised - measured.share
        text = f"hour {hours}: promised {planner.promised:.4f}, off by {off:+.4f}"
        yield Check(text, abs(off) <= PROMISE_TARGET)


def run_promise(pages: int, seed: int, means: Sequence[float] = PROMISED_MEANS) -> Iterator[Check]:
    """Plays a promise to a new site without a budget, by how often its pages change."""
    for mean in means:
        rates = draw_rates(pages, random.Random(seed), mean)
        shares, visits = [], []
        for week in range(PROMISED_WEEKS):
            planner = PromisePlanner(pages, PROMISED, PROMISED_DAYS, START)
            trace = PoissonTrace(list(rates), random.Random(seed))
            measured = simulate(trace, planner, 0, 7 * week, 7, PROMISED_DAYS)
            shares.append(measured.share)
            visits.append(sum(measured.requests[7 * 24 * week :]) / pages / 7)
        kept = ", ".join(f"{share:.3f}" for share in shares)
        often = ", ".join(f"{number:.2f}" for number in visits)
        text = f"{mean:g} changes a day: by weeks {kept}, for {often} visits a day"
        yield Check(text, min(shares) >= PROMISED - PROMISE_TARGET)


def run_lie(pages: int, spacing: float, seed: int) -> Iterator[Check]:
    """Plays a sensor that stamps every page each day."""
    rates, budget = draw_rates(pages, random.Random(seed)), pages / spacing
    truth, lied = LearningPlanner(pages, budget, START), LiedToPlanner(pages, budget, START)
    without = _play(PoissonTrace, rates, truth, budget, spacing, seed).share
    with_lies = _play(PoissonTrace, rates, lied, budget, spacing, seed).share
    cost = without - with_lies
    text = f"costs {cost:.4f}, precision {lied.record.precision or 0:.2f}"
    yield Check(text, cost <= LIE_TARGET and not lied.record.has_say)


def run_cards(pages: int, seed: int) -> Iterator[Check]:
    known, requests, record = simulate_cards(pages, 20, random.Random(seed))
    yield Check(f"{known:.2%} of changes known within a day", known >= KNOWN_TARGET)
    yield Check(f"for {requests:.1%} of the requests", requests <= REQUESTS_TARGET)
    yield Check(f"recall {record.recall:.3f}", record.has_say)


def _play(
    kind: type[Trace],
    rates: list[float],
    planner: Planner,
    budget: float,
    spacing: float,
    seed: int,
) -> Measured:
    trace = kind(list(rates), random.Random(seed))
    return simulate(trace, planner, budget, VISITS * spacing, MEASURED_DAYS)


def _expected(rates: list[float], visits: list[float]) -> float:
    return sum(map(true_share, rates, visits)) / len(rates)


def _print_checks(title: str, checks: Iterator[Check]) -> bool:
    good = True
    for check in checks:
        print(f"  {'ok    ' if check.good else 'MISSED'}  {title}: {check.text}")
        good &= check.good
    return good


def main() -> int:
    """Runs all simulations. Returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spacing", type=float, default=3.0, help="days from visit to visit")
    options = parser.parse_args()
    pages, seed, spacing = options.pages, options.seed, options.spacing
    few = min(pages, 10_000)
    good = _print_checks("formula", run_formula(few, seed))
    good &= _print_checks("budgets", run_budgets(few, seed))
    for kind in TRACES:
        good &= _print_checks(kind.name, run_trace(kind, pages, spacing, seed))
    good &= _print_checks("a new site", run_new_site(min(pages, 1_000), seed))
    good &= _print_checks("a promise", run_promise(min(pages, 400), seed))
    good &= _print_checks("a sensor that lies", run_lie(few, spacing, seed))
    good &= _print_checks("cards", run_cards(few, seed))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
