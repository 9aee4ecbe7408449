"""Escalation against a host that bans as hosts do: what it costs, when it ends, and what must never
move it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper.rules.escalation import (
    ALONE_DELAY_S,
    ALONE_TRIES,
    FLAP_S,
    HOST_PAGES,
    LEVELS,
    PAGE_TRIES,
    PROBE_FIRST_S,
    PROBE_LOST_S,
    PROBE_MAX_S,
    PROBE_NEXT_S,
    PROBES_NEEDED,
    TOP_DELAY_MAX_S,
    GiveUp,
    GoUp,
    HostRoute,
    Ladder,
    RetryHere,
    after_block,
    begin_probe,
    build_ladder,
    is_blocked_out,
    is_probe_due,
    level_below,
    level_for,
    next_level,
    record_block,
    record_success,
)
from tests.support.machine import examples

STEPS: Ladder = LEVELS
DAY, WEEK = 86_400.0, 7 * 86_400.0


def new_route(steps: Ladder, now: float) -> HostRoute:
    return HostRoute(level=steps[0], changed_at=now)


def blocked(
    route: HostRoute, level: str, now: float, pages: range = range(HOST_PAGES)
) -> HostRoute:
    for page in pages:
        route = record_block(route, STEPS, level, page, "status-403", now)
    return route


def probed(route: HostRoute, now: float, *, good: bool) -> HostRoute:
    level = level_below(level_for(route, STEPS), STEPS)
    assert level is not None
    if good:
        return record_success(route, STEPS, level, now, probe=True)
    return record_block(route, STEPS, level, 99, "status-403", now, probe=True)


def down(route: HostRoute) -> HostRoute:
    """Its next probes are good."""
    for _ in range(PROBES_NEEDED):
        assert route.probe_at is not None
        route = probed(route, route.probe_at, good=True)
    return route


# --- the ladder
# ------------------------------------------------------------------------------------------------------


def test_a_ladder_is_what_a_definition_allows_above_its_start() -> None:
    assert build_ladder("datacenter", ["browser", "residential"]) == LEVELS
    assert build_ladder("residential", ["browser", "datacenter", "residential"]) == (
        "residential",
        "browser",
    )
    assert build_ladder("datacenter", []) == ("datacenter",)
    assert build_ladder("browser", ["residential"]) == ("browser",)
    assert build_ladder("mine", ["residential", "browser"]) == ("mine", "residential", "browser")


def test_a_page_goes_by_the_higher_of_its_hosts_level_and_its_own() -> None:
    route = HostRoute("residential", 0.0)
    assert level_for(None, STEPS) == "datacenter" and level_for(None, STEPS, "browser") == "browser"
    assert level_for(route, STEPS) == level_for(route, STEPS, "datacenter") == "residential"
    assert level_for(route, STEPS, "browser") == "browser"


def test_a_level_that_is_no_longer_allowed() -> None:
    assert level_for(HostRoute("browser", 0.0), ("datacenter", "residential")) == "residential"
    assert level_for(HostRoute("residential", 0.0), ("datacenter", "browser")) == "browser"
    assert level_for(HostRoute("residential", 0.0), ("datacenter",)) == "datacenter"
    assert level_for(HostRoute("mine", 0.0), STEPS) == "datacenter"
    assert level_for(HostRoute("residential", 0.0), ("mine", "browser")) == "browser"


# --- a host goes up
# --------------------------------------------------------------------------------------------------


def test_a_host_goes_up_when_enough_pages_were_given_up_there() -> None:
    route = blocked(new_route(STEPS, 0.0), "datacenter", 10.0, range(HOST_PAGES - 1))
    assert route.level == "datacenter"
    route = record_block(route, STEPS, "datacenter", 7, "kasada", 20.0)
    assert route == HostRoute("residential", 20.0, probe_at=20.0 + PROBE_FIRST_S, why="kasada")
    assert blocked(route, "residential", 30.0).level == "browser"


def test_one_page_never_moves_its_host() -> None:
    route = new_route(STEPS, 0.0)
    for now in range(100):
        route = record_block(route, STEPS, "datacenter", 7, "status-403", float(now))
    assert route.level == "datacenter" and route.blocked_pages == (7,)


def test_a_good_answer_in_between_forgives() -> None:
    route = blocked(new_route(STEPS, 0.0), "datacenter", 0.0, range(HOST_PAGES - 1))
    route = record_success(route, STEPS, "datacenter", 1.0)
    assert route == new_route(STEPS, 0.0)
    assert blocked(route, "datacenter", 2.0, range(5, 4 + HOST_PAGES)).level == "datacenter"


@pytest.mark.parametrize("level", ["datacenter", "browser"])
def test_reports_about_another_level_are_ignored(level: str) -> None:
    """Late ones of a batch that was under way, and a page's own level above its host's."""
    route = blocked(blocked(new_route(STEPS, 0.0), "datacenter", 0.0), "residential", 1.0, range(1))
    assert route.level == "residential" and route.blocked_pages
    assert blocked(route, level, 2.0, range(10, 20)) == route
    assert record_success(route, STEPS, level, 2.0) == route


def test_at_the_top_a_host_stays_and_is_known_to_be_out() -> None:
    route = new_route(("datacenter",), 0.0)
    for page in range(20):
        assert is_blocked_out(route, ("datacenter",)) == (page >= HOST_PAGES)
        route = record_block(route, ("datacenter",), "datacenter", page, "status-403", 0.0)
    assert (
        route.level == "datacenter"
        and route.blocked_pages == (17, 18, 19)
        and route.probe_at is None
    )
    assert not is_blocked_out(
        record_success(route, ("datacenter",), "datacenter", 1.0), ("datacenter",)
    )
    # now it may
    assert record_block(route, STEPS, "datacenter", 20, "status-403", 1.0).level == "residential"


# --- and down
# --------------------------------------------------------------------------------------------------------


def test_probes_come_after_longer_and_longer_waits() -> None:
    route, waits = blocked(new_route(STEPS, 0.0), "datacenter", 0.0), []
    for _ in range(12):
        assert route.probe_at is not None
        before = route.probe_at
        route = probed(route, before, good=False)
        assert route.probe_at is not None and route.level == "residential"
        waits.append(route.probe_at - before)
    assert waits[:3] == [1200, 2400, 4800] and waits[-1] == PROBE_MAX_S
    assert all(later in (2 * earlier, PROBE_MAX_S) for earlier, later in pairwise(waits))


def test_enough_good_probes_in_a_row_bring_a_host_down_a_level() -> None:
    route = blocked(blocked(new_route(STEPS, 0.0), "datacenter", 0.0), "residential", 0.0)
    assert route.level == "browser"
    route = probed(probed(route, 600.0, good=True), 630.0, good=True)
    assert (route.level, route.probes_ok, route.probe_at) == ("browser", 2, 660.0)
    route = probed(route, 660.0, good=False)  # not in a row
    assert (route.level, route.probes_ok, route.probe_at) == (
        "browser",
        0,
        660.0 + 2 * PROBE_FIRST_S,
    )
    route = down(route)
    assert route.level == "residential" and route.changed_at == 1860.0 + 2 * PROBE_NEXT_S
    # again for the next lower one
    assert (route.probe_at, route.probes_ok) == (route.changed_at + PROBE_FIRST_S, 0)
    route = down(route)
    assert route.level == "datacenter" and route.probe_at is None
    assert not is_probe_due(route, STEPS, 1e12)


def test_one_probe_at_a_time() -> None:
    route = blocked(new_route(STEPS, 0.0), "datacenter", 0.0)
    assert not is_probe_due(route, STEPS, PROBE_FIRST_S - 1) and is_probe_due(
        route, STEPS, PROBE_FIRST_S
    )
    route = begin_probe(route, PROBE_FIRST_S)
    assert not is_probe_due(route, STEPS, PROBE_FIRST_S + PROBE_LOST_S - 1)
    assert is_probe_due(route, STEPS, PROBE_FIRST_S + PROBE_LOST_S)  # it was lost


def test_a_host_that_falls_back_and_is_blocked_again_is_probed_half_as_often() -> None:
    """The example of the module's docstring."""
    route = blocked(new_route(STEPS, 0.0), "datacenter", 0.0)
    for at in (600.0, 1800.0, 4200.0):
        assert route.probe_at == at
        route = probed(route, at, good=False)
    assert route.probe_at == 9000.0
    route = down(route)
    assert (route.level, route.changed_at) == ("datacenter", 9060.0)
    assert blocked(route, "datacenter", 9500.0).probe_at == 19_100.0
    assert (
        blocked(route, "datacenter", 9060.0 + FLAP_S + 1).probe_at
        == 9060.0 + FLAP_S + 1 + PROBE_FIRST_S
    )


def test_a_host_that_falls_two_levels_at_a_stretch_remembers_the_longer_wait() -> None:
    route = blocked(blocked(new_route(STEPS, 0.0), "datacenter", 0.0), "residential", 0.0)
    for _ in range(4):
        assert route.probe_at is not None
        route = probed(route, route.probe_at, good=False)
    assert route.probe_every_s == 9600.0
    route = down(down(route))
    assert route.level == "datacenter" and route.fell_every_s == 19_200.0


def test_news_of_a_probe_that_comes_after_the_host_has_moved() -> None:
    # browser by now
    route = blocked(blocked(new_route(STEPS, 0.0), "datacenter", 0.0), "residential", 0.0)
    assert record_success(route, STEPS, "datacenter", 1.0, probe=True) == route
    assert record_block(route, STEPS, "datacenter", 5, "x", 1.0, probe=True) == route
    fell = down(down(route))
    # at the host's own level: as of any page
    late = record_block(fell, STEPS, "datacenter", 5, "x", 9e9, probe=True)
    assert late == replace(fell, blocked_pages=(5,))


# --- whatever comes, in whatever order
# -------------------------------------------------------------------------------

LADDERS = st.sampled_from(
    [
        STEPS,
        ("datacenter",),
        ("datacenter", "browser"),
        ("mine", "residential"),
        ("residential", "browser"),
    ]
)
SIGNALS = st.lists(
    st.tuples(
        st.sampled_from(["blocked", "good", "begin"]),
        st.sampled_from([*LEVELS, "mine", ""]),
        st.integers(0, 5),
        st.floats(-100, 200_000),
        st.booleans(),
    ),
    max_size=150,
)


def apply(
    route: HostRoute, steps: Ladder, signal: tuple[str, str, int, float, bool], now: float
) -> HostRoute:
    what, level, page, _, probe = signal
    if what == "begin":
        return begin_probe(route, now) if is_probe_due(route, steps, now) else route
    if what == "blocked":
        return record_block(route, steps, level, page, "s", now, probe=probe)
    return record_success(route, steps, level, now, probe=probe)


@given(LADDERS, SIGNALS)
def test_no_order_of_signals_leads_astray(
    steps: Ladder, signals: list[tuple[str, str, int, float, bool]]
) -> None:
    route, now = new_route(steps, 0.0), 0.0
    for signal in signals:
        now += signal[3]
        before, route = route, apply(route, steps, signal, now)
        assert route.level in steps
        assert abs(steps.index(route.level) - steps.index(before.level)) <= 1
        assert (route.probe_at is None) == (route.level == steps[0])
        assert (
            PROBE_FIRST_S <= route.probe_every_s <= PROBE_MAX_S
            and route.fell_every_s <= PROBE_MAX_S
        )
        assert 0 <= route.probes_ok < PROBES_NEEDED
        assert len(set(route.blocked_pages)) == len(route.blocked_pages) <= HOST_PAGES
        assert len(route.blocked_pages) < HOST_PAGES or route.level == steps[-1]
        if steps.index(route.level) > steps.index(before.level):
            assert signal[0] == "blocked" and signal[1] == before.level
        if steps.index(route.level) < steps.index(before.level):
            assert signal[0] == "good" and signal[4]


@given(LADDERS, LADDERS, SIGNALS)
def test_a_ladder_that_changes_midway_leads_no_page_off_it(
    before: Ladder, after: Ladder, signals: list[tuple[str, str, int, float, bool]]
) -> None:
    route, now = new_route(before, 0.0), 0.0
    for number, signal in enumerate(signals):
        now += abs(signal[3])
        steps = after if number >= 20 else before
        route = apply(route, steps, signal, now)
        assert level_for(route, steps) in steps
        assert (
            not is_probe_due(route, steps, now)
            or level_below(level_for(route, steps), steps) in steps
        )


# --- a page's own way
# ------------------------------------------------------------------------------------------------


def ask(level: str, tries: int, proxies: int = 20, charged: int = 0, **more: bool) -> object:
    return after_block(
        level,
        STEPS,
        tries,
        random.Random(1),
        proxies=proxies,
        charged=charged,
        charged_max=8,
        **more,
    )


def test_a_page_asks_other_proxies_and_goes_up_alone() -> None:
    for tries in range(1, PAGE_TRIES + 1):
        assert ask("datacenter", tries) == RetryHere(0.0, other_proxy=True)
    assert ask("datacenter", PAGE_TRIES + 1) == GoUp("residential")
    assert ask("residential", PAGE_TRIES + 1) == GoUp("browser")


@pytest.mark.parametrize("proxies", [0, 1])
def test_without_another_proxy_it_asks_later_and_only_once(proxies: int) -> None:
    first = ask("datacenter", ALONE_TRIES, proxies)
    assert isinstance(first, RetryHere) and not first.other_proxy and not first.charged
    assert ALONE_DELAY_S / 2 <= first.delay_s <= ALONE_DELAY_S * 1.5
    assert ask("datacenter", ALONE_TRIES + 1, proxies) == GoUp("residential")


def test_at_the_top_it_is_charged_waits_longer_and_is_given_up() -> None:
    assert ask("browser", 1) == RetryHere(0.0)
    delays = []
    for charged in range(7):
        answer = ask("browser", PAGE_TRIES + 1 + charged, charged=charged)
        assert isinstance(answer, RetryHere) and answer.charged
        delays.append(answer.delay_s)
    assert (
        30 <= delays[0] <= 90
        and delays[-1] == TOP_DELAY_MAX_S
        and delays[0] < delays[2] < delays[-1]
    )
    assert ask("browser", 99, charged=7) == GiveUp()


def test_a_hopeless_host_is_charged_at_once_but_only_at_the_top() -> None:
    answer = ask("browser", 1, blocked_out=True)
    assert isinstance(answer, RetryHere) and answer.charged
    assert ask("datacenter", 1, blocked_out=True) == RetryHere(0.0)


def test_a_probe_goes_back_to_its_host_uncharged() -> None:
    assert ask("datacenter", 99, charged=7, probe=True) == RetryHere(0.0, other_proxy=False)


@given(st.integers(0, 20), st.integers(1, 12), st.integers(0, 10_000), LADDERS)
def test_every_page_comes_to_an_end(
    proxies: int, charged_max: int, seed: int, steps: Ladder
) -> None:
    rng, level, tries, charged, asked = random.Random(seed), steps[0], 0, 0, 0
    while True:
        tries, asked = tries + 1, asked + 1
        match after_block(
            level, steps, tries, rng, proxies=proxies, charged=charged, charged_max=charged_max
        ):
            case GoUp(above):
                assert above == next_level(level, steps)
                level, tries = above, 0
            case RetryHere(delay_s, charged=is_charged):
                assert 0 <= delay_s <= TOP_DELAY_MAX_S
                charged += is_charged
            case GiveUp():
                break
    assert level == steps[-1] and asked <= len(steps) * (PAGE_TRIES + 1) + charged_max


# --- a host, and a crawler that keeps to all this
# --------------------------------------------------------------------


@dataclass
class Model:
    """A crawl of one page a second, by a crawler with `lag` pages under way; what `serves` says is
    what the host does."""

    serves: Callable[[str, int, float], bool]
    lag: int = 5
    pages: Callable[[int], int] = lambda second: second
    route: HostRoute = field(default_factory=lambda: new_route(STEPS, 0.0))
    wasted: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    probes: list[float] = field(default_factory=list)
    levels: list[tuple[float, str]] = field(default_factory=list)
    given_up: set[int] = field(default_factory=set)

    def crawl(self, seconds: int) -> None:
        own: dict[int, str] = {}
        tries: Counter[tuple[int, str]] = Counter()
        again: list[int] = []
        under_way: list[tuple[int, str, bool]] = []
        for second in range(seconds):
            now = float(second)
            page = again.pop(0) if again else self.pages(second)
            probe = is_probe_due(self.route, STEPS, now) and page not in own
            level = level_for(self.route, STEPS, own.get(page))
            if probe:
                level = level_below(level, STEPS) or level
                self.route = begin_probe(self.route, now)
                self.probes.append(now)
            under_way.append((page, level, probe))
            if len(under_way) <= self.lag:
                continue
            page, level, probe = under_way.pop(0)
            self.asked[level] += 1
            if self.serves(level, page, now):
                self.route = record_success(self.route, STEPS, level, now, probe=probe)
                own.pop(page, None)
            else:
                self.wasted[level] += 1
                self._blocked(page, level, probe, now, own, tries, again)
            if not self.levels or self.levels[-1][1] != self.route.level:
                self.levels.append((now, self.route.level))

    def _blocked(
        self, page: int, level: str, probe: bool, now: float, own: dict[int, str], tries: Counter[tuple[int, str]],
        again: list[int],
    ) -> None:  # fmt: skip
        tries[page, level] += 1
        answer = after_block(
            level,
            STEPS,
            tries[page, level],
            random.Random(1),
            proxies=20,
            charged=0,
            charged_max=1,
            probe=probe,
        )
        if probe or not isinstance(answer, RetryHere):
            self.route = record_block(
                self.route, STEPS, level, page, "status-403", now, probe=probe
            )
        match answer:
            case RetryHere():
                again.append(page)
            case GoUp(above):
                own[page] = above
                again.append(page)
            case GiveUp():
                self.given_up.add(page)

    def back_at(self) -> float:
        return next(now for now, level in reversed(self.levels) if level == "datacenter")


@settings(max_examples=examples(40))
@given(st.integers(60, 20_000), st.integers(0, 30), st.integers(0, 500))
def test_a_ban_costs_little_and_is_noticed_to_be_over(ban_s: int, lag: int, since: int) -> None:
    """Datacenter is banned from `since` on, for `ban_s`. The waste there is bounded, whatever its
    length, and the host is back after twice its time, at most some minutes more."""

    def serves(level: str, page: int, now: float) -> bool:
        return level != "datacenter" or not since <= now < since + ban_s

    host = Model(serves, lag)
    host.crawl(since + 2 * ban_s + 2000 + 10 * lag)
    probes = len(host.probes)
    # those that are under way at once are each tried again
    pages = max(HOST_PAGES, lag + 1)
    assert host.wasted["datacenter"] <= pages * (PAGE_TRIES + 1) + lag + probes
    assert probes <= 12 and not host.given_up
    assert host.wasted["residential"] == host.wasted["browser"] == 0
    assert host.route.level == "datacenter"
    assert (
        host.back_at()
        <= since
        + 2 * ban_s
        + 2 * PROBE_FIRST_S
        + PROBES_NEEDED * (PROBE_NEXT_S + lag + 1)
        + 8 * lag
        + 30
    )


def test_a_ban_of_two_hours() -> None:
    host = Model(lambda level, page, now: level != "datacenter" or now >= 7200)
    host.crawl(12_000)
    assert host.wasted["datacenter"] <= 6 * 3 + 5 + 3
    assert 9000 <= host.back_at() <= 9200
    assert [round(at / 100) for at in host.probes] == [6, 18, 42, 90, 91, 91]


def test_a_week_of_ban_costs_a_probe_a_day() -> None:
    route, probes = blocked(new_route(STEPS, 0.0), "datacenter", 0.0), 0
    while route.probe_at is not None and route.probe_at < WEEK:
        route, probes = probed(route, route.probe_at, good=False), probes + 1
    assert 10 <= probes <= 15


@given(st.integers(2, 20), st.integers(0, 10))
def test_a_page_that_is_forbidden_to_everybody_never_moves_its_host(every: int, lag: int) -> None:
    host = Model(
        lambda level, page, now: page != -1,
        lag,
        pages=lambda second: second if second % every else -1,
    )
    host.crawl(600)
    assert host.levels == [(host.levels[0][0], "datacenter")]
    assert host.given_up == {-1}


@settings(max_examples=examples(5))
@given(st.integers(0, 10))
def test_a_host_that_bans_for_what_it_is_asked_flaps_less_and_less(lag: int) -> None:
    """It serves a datacenter 300 pages, then bans it for ten minutes."""
    served, banned_until = 0, 0.0

    def serves(level: str, page: int, now: float) -> bool:
        nonlocal served, banned_until
        if level != "datacenter":
            return True
        served += 1
        if served % 300 == 0:
            banned_until = now + 600
        return now >= banned_until

    host = Model(serves, lag)
    host.crawl(2 * int(DAY))
    ups = [now for now, level in host.levels if level == "residential"]
    assert 3 <= len(ups) <= 9
    assert all(
        later >= 1.5 * earlier for earlier, later in pairwise([b - a for a, b in pairwise(ups)])
    )
    assert "browser" not in host.asked


def test_a_host_that_blocks_two_levels_ends_at_the_third_and_comes_back() -> None:
    host = Model(lambda level, page, now: level == "browser" or now >= 5000)
    host.crawl(20_000)
    assert [level for _, level in host.levels] == [
        "datacenter",
        "residential",
        "browser",
        "residential",
        "datacenter",
    ]
    assert host.wasted["datacenter"] + host.wasted["residential"] <= 50 and not host.given_up
