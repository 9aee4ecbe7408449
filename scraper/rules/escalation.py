"""Decides the level at which a host's pages are requested: the cheapest that is not blocked. The
host goes up when pages are blocked, and comes down again by probes. Pure.

A **ladder** is the levels that a page may use, the cheapest first: `("datacenter", "residential",
"browser")`. The first is where its definition starts; the others are those that it allows
(`build_ladder`). A page's level is the higher of its host's level and its own (`level_for`).

- A blocked page is tried again at its level, through other proxies, `PAGE_TRIES` times; then it
  alone goes up (`after_block`).
- After `HOST_PAGES` different pages were given up at the host's level, without a good answer there
  in between, the host goes up, and all its pages with it. One page that is forbidden to every
  visitor never moves its host.
- Above the start a host is probed: one page goes by the level below, first after ten minutes, then
  after twice as long each time, at most a day. After three good probes, half a minute apart, the
  host comes down a level.
- A host that comes down and must go up again within an hour is probed half as often as before,
  instead of after ten minutes again.
- Every signal carries the level at which the page was requested. A signal of another level than the
  host's is ignored: a batch that was on its way when the host moved changes nothing.

An example, start datacenter. At 0 s pages 1, 2 and 3 have been blocked three times each: the host
goes to residential, the next probe is at 600 s. Page 7 goes by datacenter then, and is blocked: it
goes back to residential, uncharged. The probes at 1,800 s and 4,200 s are blocked as well; those at
9,000 s, 9,030 s and 9,060 s are good: the host comes down to datacenter. Pages 12, 13 and 14 are
blocked at 9,500 s: the host goes up again, and as the last wait was 4,800 s, the next probe is at
19,100 s.

The database holds a `HostRoute` for each site, host and start: pages that start higher say nothing
about lower levels, and another site has its own ladder and headers. Transitions are made under the
row's lock, so that none is lost.

Known weaknesses: if a crawl's last three pages are forbidden to every visitor, they move the host
up for ten minutes; before a host moves, each of its pages is tried as often as any other; a host
that blocks one page in ten is never moved, since good answers come in between; a ban that ends
right after a probe is noticed only after as much time again as it had lasted; a level that is worse
than the one below it is not skipped. Times are float seconds of the database's clock.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

# By price. A level that an operator named keeps its position in the ladder.
LEVELS = ("datacenter", "residential", "browser")

# A page has this many more tries at a level, through other proxies, before it goes up.
PAGE_TRIES = 2
# Without another proxy it has this many more tries: the same way, later.
ALONE_TRIES = 1
ALONE_DELAY_S = 30.0
HOST_PAGES = 3
PROBE_FIRST_S = 600.0
PROBE_NEXT_S = 30.0
PROBE_MAX_S = 86_400.0
# A probe without a result by then is lost: its worker died, or its page showed nothing.
PROBE_LOST_S = 300.0
PROBES_NEEDED = 3
FLAP_S = 3600.0
# Above the top there is only patience.
TOP_DELAY_S, TOP_DELAY_MAX_S = 60.0, 1800.0

Ladder = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostRoute:
    """What is stored for a host.

    level          the cheapest level that is known to work, since `changed_at`
    blocked_pages  ids of different pages that were given up there since the last good answer, fewer
                   than `HOST_PAGES` unless it is the top
    probe_at       when one page is tried at the level below; None at the bottom
    probe_every_s  how long the last wait for a first probe was; `probes_ok` good ones since
    fell_at        when the host last came down; `fell_every_s` how long the first wait will be if
                   it goes up again within `FLAP_S`
    why            the sign of the last block that moved it up, or made a probe fail
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
    """Returns the ladder of a definition, in order of price. Levels below the start are left out; a
    start that an operator named is below all allowed levels.

    >>> build_ladder("datacenter", ["browser", "residential"])
    ('datacenter', 'residential', 'browser')
    """
    start_at = LEVELS.index(start) if start in LEVELS else -1
    wanted = set(allowed)
    return (start, *(level for at, level in enumerate(LEVELS) if at > start_at and level in wanted))


def level_for(route: HostRoute | None, steps: Ladder, page_level: str | None = None) -> str:
    """Returns the level at which a page is requested: the higher of its host's and its own, within
    its ladder. For a level that is no longer in the ladder, the next higher one in it, or its
    end."""
    return steps[
        max(_find_step(route.level if route else None, steps), _find_step(page_level, steps))
    ]


def next_level(level: str, steps: Ladder) -> str | None:
    """Returns the level above, or None at the top."""
    at = _find_step(level, steps) + 1
    return steps[at] if at < len(steps) else None


def level_below(level: str, steps: Ladder) -> str | None:
    at = _find_step(level, steps) - 1
    return steps[at] if at >= 0 else None


def _find_step(level: str | None, steps: Ladder) -> int:
    if level in steps:
        return steps.index(level)
    if level not in LEVELS:
        return 0
    price = LEVELS.index(level)
    higher = (at for at, step in enumerate(steps) if step in LEVELS and LEVELS.index(step) > price)
    return next(higher, len(steps) - 1)


# --- Signals: each returns the route from now on.


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
    """Records a page that was given up at `level` (`after_block` returned `GoUp`, or charged it),
    or a probe that was blocked, which counts at once.

    Counting each blocked answer would move the host sooner, but a few bad proxies among many would
    move it needlessly. Suspicions by extraction do not count.
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
    """Records a page that was served at `level`. A 404 does not count: some hosts send it to
    robots."""
    at_host = level_for(route, steps)
    if level == at_host:
        return replace(route, blocked_pages=()) if route.blocked_pages else route
    if not probe or level != level_below(at_host, steps):
        return route
    if route.probes_ok + 1 < PROBES_NEEDED:
        return replace(route, probes_ok=route.probes_ok + 1, probe_at=now + PROBE_NEXT_S)
    again_s = min(route.probe_every_s * 2, PROBE_MAX_S)
    # The host comes down two levels in a row: the longer wait of the upper one holds.
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
    """Returns whether the host is blocked at the top as well: it is then asked seldom
    (`after_block`'s `blocked_out`), and rests."""
    return (
        len(route.blocked_pages) >= HOST_PAGES
        and next_level(level_for(route, steps), steps) is None
    )


def is_probe_due(route: HostRoute, steps: Ladder, now: float) -> bool:
    """Returns whether one page goes by the level below now. The caller chooses one that has not
    been blocked, and records it with `begin_probe`."""
    return (
        route.probe_at is not None
        and now >= route.probe_at
        and level_below(level_for(route, steps), steps) is not None
    )


def begin_probe(route: HostRoute, now: float) -> HostRoute:
    """Records a probe on its way: no other one is sent before its result, or before
    `PROBE_LOST_S`."""
    return replace(route, probe_at=now + PROBE_LOST_S)


# --- A page's own way.


@dataclass(frozen=True, slots=True)
class RetryHere:
    """Retry at the same level (a probe's page: at its host's), in `delay_s`. `charged`: to the
    host's account."""

    delay_s: float
    other_proxy: bool = True
    charged: bool = False


@dataclass(frozen=True, slots=True)
class GoUp:
    """Retry this page alone at `level`, at once and uncharged; its tries count from 0 again."""

    level: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The page is dead, as blocked."""


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
    blocked_out: bool = False,
) -> AfterBlock:
    """Returns what follows for a page that was blocked at `level`.

    tries        how often it has been blocked there, this time included
    proxies      how many the level has to choose from; 0: it asks directly, or through a browser of
                 its own
    charged      tries that its host's account has been charged with, of at most `charged_max`
    probe        it was a probe: it goes back to its host's level
    blocked_out  its host `is_blocked_out`: other proxies are not tried for free

    With 20 proxies, at datacenter of three levels: RetryHere, RetryHere, GoUp("residential"). At
    the top: RetryHere twice for free, then charged, in 30–90 s, 1–3 min, 2–6 min … half an hour; in
    the end, GiveUp.
    """
    if probe:
        return RetryHere(0.0, other_proxy=False)
    others = proxies > 1
    above = next_level(level, steps)
    if not (blocked_out and above is None) and tries <= (PAGE_TRIES if others else ALONE_TRIES):
        return RetryHere(
            0.0 if others else ALONE_DELAY_S * rng.uniform(0.5, 1.5), other_proxy=others
        )
    if above is not None:
        return GoUp(above)
    if charged + 1 >= charged_max:
        return GiveUp()
    delay_s = min(TOP_DELAY_S * 2.0 ** min(charged, 30) * rng.uniform(0.5, 1.5), TOP_DELAY_MAX_S)
    return RetryHere(delay_s, other_proxy=others, charged=True)
