"""Decides when a process that ended is started again, and which queues need a new worker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from scraper.errors import RESTART_CODE, ServerUnavailableError
from scraper.rules.routing import COORDINATOR, is_browser_queue, queues_served_with

# A process that lived for less has died quickly.
QUICK_S = 30.0
QUICK_DEATHS_MAX = 5
BACKOFF_MAX_S = 30.0


class NextStart(NamedTuple):
    """What follows the end of a process: `quick_deaths` in a row so far, and the seconds to wait;
    None: it is given up."""

    quick_deaths: int
    wait_s: float | None


def plan_next_start(code: int, life_s: float, quick_deaths: int) -> NextStart:
    """Returns what follows the end of a process after `life_s` seconds.

    A process that asks for a restart gets it at once. One that finds no server is never given up,
    since the server will come back. Negative codes are signals.

    >>> plan_next_start(-9, 3600, 0)
    NextStart(quick_deaths=1, wait_s=0.0)
    """
    if code == RESTART_CODE:
        return NextStart(quick_deaths, 0.0)
    deaths = 1 if life_s >= QUICK_S else quick_deaths + 1
    if deaths > QUICK_DEATHS_MAX and code != ServerUnavailableError.exit_code:
        return NextStart(deaths, None)
    return NextStart(deaths, 0.0 if deaths == 1 else min(2.0 ** (deaths - 2), BACKOFF_MAX_S))


def group_queues(named: Iterable[str], served: Set[str] = frozenset()) -> list[list[str]]:
    """Returns the queues of each new worker for `named` queues, without those already `served`:
    browsers have a worker of their own, as they need Chromium and much memory.

    >>> group_queues({"datacenter", "residential", "browser"}, {"datacenter"})
    [['residential'], ['browser']]
    """
    missing = sorted({*named} - served - {COORDINATOR})
    pages = [queue for queue in missing if not is_browser_queue(queue)]
    browsers = [queue for queue in missing if is_browser_queue(queue)]
    return [group for group in (pages, browsers) if group]


def list_served(queues: Iterable[str]) -> set[str]:
    """Returns all queues that a worker for `queues` serves."""
    return {served for queue in queues for served in queues_served_with(queue)}
