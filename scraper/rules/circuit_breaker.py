"""Decides whether a host as a whole is down; its pages then wait. Pure: the time is an argument.

One page that fails is charged for it. Where several different pages fail one after the other, with
no answer in between, the host is at fault: it rests, longer each time, and is tried again after
each rest. Only pages that have not failed before count: at the end of a crawl often only broken
pages are left, while the host is healthy. For the same reason an outage is free for only a minute;
after that, the few pages that are tried after each rest are charged. A crawl must end: after a
quarter of an hour pages are given up, and only one page is tried after each rest.

What one process sees is enough: a rest holds for the whole fleet
(`scraper.politeness.fleet_limiter`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import assert_never

from scraper.domain import Blame, Outcome

# A host is down after this many different pages failed in a row.
DOWN_AFTER = 5
# The first rest; each is twice the one before.
REST_S = 2.0
REST_MAX_S = 30.0
FREE_S = 60.0
PATIENCE_S = 900.0
# A streak whose last failure is older is forgotten.
FORGOTTEN_S = 300.0
HOSTS_MAX = 10_000

# Outcomes that say nothing about whether the host is up: it answers but asks to slow down; its
# certificate will not change within minutes; or it was not asked.
SILENT = frozenset(
    {
        Outcome.THROTTLED,
        Outcome.TLS,
        Outcome.FRESH,
        Outcome.FORBIDDEN_ADDRESS,
        Outcome.ROBOTS_DISALLOWED,
        *(outcome for outcome in Outcome if not outcome.tried),
    }
)


@dataclass(frozen=True, slots=True)
class HostDown:
    """A host is down, and rests for `rest_s` from now on. `charged`: it has been down for longer
    than is free; `given_up`: for too long to wait."""

    rest_s: float
    charged: bool = False
    given_up: bool = False


@dataclass(slots=True)
class _Streak:
    """A host's failures since its last answer."""

    since: float
    last: float
    pages: set[int] = field(default_factory=set)
    rest_s: float = REST_S / 2
    rests_until: float = 0.0


class CircuitBreakers:
    """The hosts that fail now, as one process sees them. Times are seconds of any steady clock."""

    def __init__(self) -> None:
        self._failing: OrderedDict[str, _Streak] = OrderedDict()

    def record(
        self, host: str, page_id: int, outcome: Outcome, now: float, *, failed_before: bool = False
    ) -> HostDown | None:
        """Records a page's outcome. Returns a value where its host is down, None where the page
        alone is concerned. `failed_before`: the page has been charged for its host before."""
        match _shows_host_up(outcome):
            case None:
                return None
            case True:
                self._failing.pop(host, None)
                return None
            case False:
                return self._record_failure(host, page_id, now, failed_before)

    def is_open(self, host: str, now: float) -> bool:
        """Returns whether pages of the host are not even tried: it has been down for longer than
        pages wait, and the next try, which one page makes, is not due yet."""
        streak = self._failing.get(host)
        if streak is None or len(streak.pages) < DOWN_AFTER:
            return False
        return streak.last - streak.since > PATIENCE_S and now < streak.rests_until

    def _record_failure(
        self, host: str, page_id: int, now: float, failed_before: bool
    ) -> HostDown | None:
        streak = self._failing.get(host)
        if streak is not None and now - streak.last > FORGOTTEN_S:
            streak = None
        if failed_before and (streak is None or len(streak.pages) < DOWN_AFTER):
            return None
        if streak is None:
            streak = self._failing[host] = _Streak(since=now, last=now)
            if len(self._failing) > HOSTS_MAX:
                self._failing.popitem(last=False)
        streak.last = now
        if len(streak.pages) < DOWN_AFTER:
            streak.pages.add(page_id)
        if len(streak.pages) < DOWN_AFTER:
            return None
        away_s = now - streak.since
        if now >= streak.rests_until:
            streak.rest_s = min(streak.rest_s * 2, REST_MAX_S)
            streak.rests_until = now + streak.rest_s
        if away_s > PATIENCE_S:
            return HostDown(0.0, charged=True, given_up=True)
        return HostDown(streak.rests_until - now, charged=away_s > FREE_S)


def _shows_host_up(outcome: Outcome) -> bool | None:
    """Returns whether an outcome shows that its host answers; None where it shows nothing."""
    if outcome in SILENT:
        return None
    match outcome.blame:
        case Blame.HOST:
            return False
        case Blame.US:
            return None
        case Blame.NOBODY | Blame.PAGE | Blame.PROXY | Blame.PARSER:
            return True
        case _ as never:
            assert_never(never)
