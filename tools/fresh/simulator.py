"""Plays a plan of visits against invented pages, and measures what it kept true."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from tools.fresh.planners import Planner
from tools.fresh.traces import START, Trace

ROUNDS_A_DAY = 24


class Measured(NamedTuple):
    """The share of the time in which pages were true, and by hour the requests made."""

    share: float
    requests: list[int]


def simulate(
    trace: Trace,
    planner: Planner,
    budget: float,
    warm_days: float,
    days: float,
    within: float = 0.0,
) -> Measured:
    """Visits pages in the order of their next visits at an even pace, `budget` a day or as many as
    the planner wants, and measures `days` after the first `warm_days`. What was true `within` that
    many days counts."""
    pages = len(trace.rates)
    spread = pages / (planner.visits or budget)
    due = [(START + spread * trace.rng.random(), page) for page in range(pages)]
    heapq.heapify(due)
    looked = [START] * pages
    begin, end = START + warm_days, START + warm_days + days
    true_days, requests, owed = 0.0, [], 0.0
    for number in range(round((warm_days + days) * ROUNDS_A_DAY)):
        at = START + number / ROUNDS_A_DAY
        forward = planner.begin_round(at)
        if forward:
            due = [(min(visit, at) if page in forward else visit, page) for visit, page in due]
            heapq.heapify(due)
        owed += (planner.visits or budget) / ROUNDS_A_DAY
        wanted = int(owed + 1e-9)
        for place in range(wanted):
            page = due[0][1]
            now = at + place / wanted / ROUNDS_A_DAY
            since = looked[page]
            first = trace.look(page, since, now)
            true_days += _true_after(begin, since, _last_true(first, within, now))
            looked[page] = now
            visit = planner.next_visit(page, since, now, first is not None)
            heapq.heapreplace(due, (visit, page))
        owed -= wanted
        requests.append(wanted)
    for page, since in enumerate(looked):
        first = trace.look(page, since, end)
        true_days += _true_after(begin, since, _last_true(first, within, end))
    return Measured(true_days / days / pages, requests)


def _last_true(first: float | None, within: float, now: float) -> float:
    return now if first is None else min(first + within, now)


def _true_after(begin: float, since: float, until: float) -> float:
    return max(until - max(since, begin), 0.0)
