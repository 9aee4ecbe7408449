"""Whether a host as a whole is out of order, and what its pages do meanwhile: they wait.

One page that fails is its own trouble, and is charged for it. Several different pages that fail one
after the other, with not one answer between them, are the host's: it rests, longer each time, and
is tried again after each rest. Only pages that have not failed before count as a sign of it: what
is left at the end of a crawl is often nothing but broken pages, while the host is well. For the
same reason an outage is free for a minute only; after that the few pages that are tried after each
rest are charged. A crawl must end: after a quarter of an hour pages are given up, and but for one
after each rest they are not even tried.

Pure: the time is an argument. What one process sees is enough: a rest holds for the whole fleet
(`scraper.politeness.fleet_limiter`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import assert_never

from scraper.domain import Blame, Outcome

# So many different pages fail in a row.
DOWN_AFTER = 5
# This is the first rest; each is twice the one before.
REST_S = 2.0
REST_MAX_S = 30.0
FREE_S = 60.0
PATIENCE_S = 900.0
# A streak whose last failure is older says nothing of today.
FORGOTTEN_S = 300.0
HOSTS_MAX = 10_000

# It answers, but has a wish; a certificate does not mend itself in minutes; of the others it has
# not been asked, or nobody can say so.
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
    """A host is out of order: it rests for `rest_s` from now on. `charged`: for longer than is
    free; `given_up`: for too long to be waited for."""

    rest_s: float
    charged: bool = False
    given_up: bool = False


@dataclass(slots=True)
class _Streak:
    """Failures of a host since its last answer."""

    since: float
    last: float
    pages: set[int] = field(default_factory=set)
    rest_s: float = REST_S / 2
    rests_until: float = 0.0


class CircuitBreakers:
    """The hosts that fail at the moment, as one process sees them."""

    def __init__(self) -> None:
        self._failing: OrderedDict[str, _Streak] = OrderedDict()

    def record(
        self, host: str, page_id: int, outcome: Outcome, now: float, *, failed_before: bool = False
    ) -> HostDown | None:
        """Takes note of a page's outcome. The answer says that its host is out of order; None: it
        is the page's own matter. `failed_before`: the page has been charged for its host before.
        `now` is in seconds of any steady clock."""
        match _says(outcome):
            case None:
                return None
            case True:
                self._failing.pop(host, None)
                return None
            case False:
                return self._failed(host, page_id, now, failed_before)

    def is_open(self, host: str, now: float) -> bool:
        """Whether a page of the host is not even to be tried: it has been down for longer than
        anybody waits, and the time for the next try, which one page makes, has not come."""
        streak = self._failing.get(host)
        if streak is None or len(streak.pages) < DOWN_AFTER:
            return False
        return streak.last - streak.since > PATIENCE_S and now < streak.rests_until

    def _failed(self, host: str, page_id: int, now: float, failed_before: bool) -> HostDown | None:
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


def _says(outcome: Outcome) -> bool | None:
    """What an outcome says of its host: True, it answers; False, it does not; None, nothing."""
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
