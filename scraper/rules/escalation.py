"""By which way a host's pages go: the cheapest that is not blocked. Up when pages are blocked, down
again by probes. Pure.

A **ladder** is the levels that a page may use, the cheapest first: `("datacenter", "residential",
"browser")`. The first is where its definition starts; the others are what it allows (`ladder`). A
page's level is the higher of what its host is remembered to need and of what it has come to itself
(`level_for`).

- A page that is blocked is tried again at its level, by another proxy, `PAGE_TRIES` times; then it
  alone goes up (`after_block`).
- `HOST_PAGES` different pages that were given up at the host's level, with not one good answer
  there in between: the host goes up, and all its pages with it. One page that is forbidden to
  everybody never moves its host.
- Above the start a host is probed: one page goes by the level below. The first time after ten
  minutes, then after twice as long each time, a day at the most. Three good ones, half a minute
  apart, and the host comes down a level.
- A host that comes down and must go up again within an hour is probed half as often as before, not
  from ten minutes on.
- Every signal carries the level at which the page was asked for. News of another level than the
  host's is no news: a batch that was under way when the host moved changes nothing.

An example, start datacenter. At 0 s pages 1, 2 and 3 have been blocked three times each: the host
is at residential, the next probe at 600 s. Page 7 goes by datacenter then, and is blocked: it goes
back to residential, uncharged; probes at 1,800 s and 4,200 s likewise, and at 9,000 s one is good.
So are those at 9,030 s and 9,060 s: the host is at datacenter. Pages 12, 13 and 14 are blocked at
9,500 s: up again, and as the last wait was 4,800 s, the next probe is at 19,100 s.

What stores a `HostRoute` does so a row per site, host and start: pages that start higher say
nothing of lower levels, and another site's ladder and headers are its own. Transitions are made
under the row's lock, so that none is lost.

Known weaknesses: the last pages of a crawl, if they are forbidden to everybody and there are three,
move the host up for ten minutes; before a host moves, each page that is under way there is tried as
often as any other; a host that blocks one page in ten is never moved, since good answers come in
between; a ban that ends right after a probe is noticed only when as much time has passed again as
it had lasted; a level that is worse than the one below it is not skipped. Times are float seconds
of one clock: the database's.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

LEVELS = (
    "datacenter",
    "residential",
    "browser",
)  # by price; a name of the operator's own stands where the ladder has it

# A page has so many more at a level, by other proxies, before it goes up.
PAGE_TRIES = 2
# It has so many more where there is no other proxy to try: the same way, later.
ALONE_TRIES = 1
ALONE_DELAY_S = 30.0
HOST_PAGES = 3
PROBE_FIRST_S = 600.0
PROBE_NEXT_S = 30.0
PROBE_MAX_S = 86_400.0
# Of such a probe nothing was heard: its worker died, or its page said neither yes nor no.
PROBE_LOST_S = 300.0
PROBES_NEEDED = 3
FLAP_S = 3600.0
# Above the top there is only patience.
TOP_DELAY_S, TOP_DELAY_MAX_S = 60.0, 1800.0

Ladder = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostRoute:
    """What is remembered of a host.

    level          the cheapest one that is known to work; `changed_at` when that was found out
    blocked_pages  ids of different pages that were given up there since the last good answer, fewer
                   than `HOST_PAGES` unless it is the top
    probe_at       when one page is to be tried at the level below; None at the bottom
    probe_every_s  how long the last wait for a first probe was; `probes_ok` good ones since
    fell_at        when it last came down; `fell_every_s` how long the first wait will be if it goes
                   up again within `FLAP_S`
    why            the sign for which it last went up, or a probe failed
    """

    level: str
    changed_at: float
    blocked_pages: tuple[int, ...] = ()
    probe_at: float | None = None
    probe_every_s: float = PROBE_FIRST_S
    probes_ok: int = 0
    fell_at: float | None = None
    fell_every_s: float = PROBE_FIRST_S
    why: str = ""


def build_ladder(start: str, allowed: Iterable[str]) -> Ladder:
    """From what a definition says: `ladder("datacenter", ["browser", "residential"])` is all three,
    in order of price. Levels below the start are left out; a start of the operator's own stands
    below all that are allowed."""
    start_at = LEVELS.index(start) if start in LEVELS else -1
    wanted = set(allowed)
    return (start, *(level for at, level in enumerate(LEVELS) if at > start_at and level in wanted))


def new_route(steps: Ladder, now: float) -> HostRoute:
    return HostRoute(level=steps[0], changed_at=now)


def level_for(route: HostRoute | None, steps: Ladder, page_level: str | None = None) -> str:
    """The level at which a page is asked for: the higher of its host's and of its own, within its
    ladder. Of a level that is not in the ladder (the definition has changed) the next higher one
    that is, or its end."""
    return steps[max(_step(route.level if route else None, steps), _step(page_level, steps))]


def next_level(level: str, steps: Ladder) -> str | None:
    """The one above, or None at the top."""
    at = _step(level, steps) + 1
    return steps[at] if at < len(steps) else None


def level_below(level: str, steps: Ladder) -> str | None:
    at = _step(level, steps) - 1
    return steps[at] if at >= 0 else None


def _step(level: str | None, steps: Ladder) -> int:
    if level in steps:
        return steps.index(level)
    if level not in LEVELS:
        return 0
    price = LEVELS.index(level)
    dearer = (at for at, step in enumerate(steps) if step in LEVELS and LEVELS.index(step) > price)
    return next(dearer, len(steps) - 1)


# --- signals: each gives the route as it is from now on
# --------------------------------------------------------------


def record_block(
    route: HostRoute,
    steps: Ladder,
    level: str,
    page_id: int,
    sign: str,
    now: float,
    *,
    probe: bool = False,
) -> HostRoute:
    """A page was given up at `level` (`after_block` said `GoUp`, or anything charged), or a probe
    was blocked: at once.

    Said of each blocked answer it would move the host sooner, and with a few bad proxies among many
    for nothing. Suspicions by extraction are no such news.
    """
    at_host = level_for(route, steps)
    if probe and level == level_below(at_host, steps):
        every_s = min(route.probe_every_s * 2, PROBE_MAX_S)
        return replace(route, probe_every_s=every_s, probe_at=now + every_s, probes_ok=0, why=sign)
    if level != at_host or page_id in route.blocked_pages:
        return route
    pages = (*route.blocked_pages, page_id)[-HOST_PAGES:]
    above = next_level(at_host, steps)
    if len(pages) < HOST_PAGES or above is None:
        return replace(route, blocked_pages=pages)
    every_s = max(route.fell_every_s, PROBE_FIRST_S) if _fell_lately(route, now) else PROBE_FIRST_S
    return replace(
        route,
        level=above,
        changed_at=now,
        blocked_pages=(),
        probe_at=now + every_s,
        probe_every_s=every_s,
        probes_ok=0,
        why=sign,
    )


def record_success(
    route: HostRoute, steps: Ladder, level: str, now: float, *, probe: bool = False
) -> HostRoute:
    """A page was served at `level`: what was asked for was there. A 404 is not such news: some say
    that to robots."""
    at_host = level_for(route, steps)
    if level == at_host:
        return replace(route, blocked_pages=()) if route.blocked_pages else route
    if not probe or level != level_below(at_host, steps):
        return route
    if route.probes_ok + 1 < PROBES_NEEDED:
        return replace(route, probes_ok=route.probes_ok + 1, probe_at=now + PROBE_NEXT_S)
    again_s = min(route.probe_every_s * 2, PROBE_MAX_S)
    # It goes two levels at a stretch: what the upper one has taught holds.
    if _fell_lately(route, now):
        again_s = max(again_s, route.fell_every_s)
    return replace(
        route,
        level=level,
        changed_at=now,
        blocked_pages=(),
        probe_at=None if level == steps[0] else now + PROBE_FIRST_S,
        probe_every_s=PROBE_FIRST_S,
        probes_ok=0,
        fell_at=now,
        fell_every_s=again_s,
    )


def _fell_lately(route: HostRoute, now: float) -> bool:
    return route.fell_at is not None and now - route.fell_at <= FLAP_S


def is_blocked_out(route: HostRoute, steps: Ladder) -> bool:
    """At the top, and blocked there as well: nothing is left but to ask seldom (`after_block`'s
    `hopeless`), and to rest."""
    return (
        len(route.blocked_pages) >= HOST_PAGES
        and next_level(level_for(route, steps), steps) is None
    )


def is_probe_due(route: HostRoute, steps: Ladder, now: float) -> bool:
    """Whether one page is to be sent by the level below. Choose one that has not been blocked, and
    note `begin_probe`."""
    return (
        route.probe_at is not None
        and now >= route.probe_at
        and level_below(level_for(route, steps), steps) is not None
    )


def begin_probe(route: HostRoute, now: float) -> HostRoute:
    """A probe is on its way: no other one is sent until there is news of it, or too much time has
    passed."""
    return replace(route, probe_at=now + PROBE_LOST_S)


# --- a page's own way
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetryHere:
    """Again at the same level (a probe's page: at its host's), in `delay_s`. `charged`: to the
    host's account."""

    delay_s: float
    other_proxy: bool = True
    charged: bool = False


@dataclass(frozen=True, slots=True)
class GoUp:
    """This page alone goes on at `level`, at once, uncharged, with its tries counted anew."""

    level: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Dead, as blocked."""


AfterBlock = RetryHere | GoUp | GiveUp


def after_block(
    level: str,
    steps: Ladder,
    tries: int,
    rng: random.Random,
    *,
    proxies: int,
    charged: int,
    charged_max: int,
    probe: bool = False,
    hopeless: bool = False,
) -> AfterBlock:
    """What is done about a page that was blocked at `level`.

    tries    how often it has been blocked there, this time included proxies  how many the level has
    to choose from; 0: it asks directly, or through a browser of its own charged  tries that its
    host's account has been charged with, of `charged_max` in all probe    it was lent to its host
    as a probe: it goes back to where the host is hopeless its host is `blocked_out`: other proxies
    are not tried for free

    With 20 proxies, at datacenter of three levels: RetryHere, RetryHere, GoUp("residential"). At
    the top: RetryHere twice for free, then charged, in 30–90 s, 1–3 min, 2–6 min … half an hour; at
    last GiveUp.
    """
    if probe:
        return RetryHere(0.0, other_proxy=False)
    others = proxies > 1
    above = next_level(level, steps)
    if not (hopeless and above is None) and tries <= (PAGE_TRIES if others else ALONE_TRIES):
        return RetryHere(
            0.0 if others else ALONE_DELAY_S * rng.uniform(0.5, 1.5), other_proxy=others
        )
    if above is not None:
        return GoUp(above)
    if charged + 1 >= charged_max:
        return GiveUp()
    delay_s = min(TOP_DELAY_S * 2.0 ** min(charged, 30) * rng.uniform(0.5, 1.5), TOP_DELAY_MAX_S)
    return RetryHere(delay_s, other_proxy=others, charged=True)
