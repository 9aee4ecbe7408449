"""Names of queues and numbers of priority."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.crawl.context import make_context
from scraper.domain import Kind, LeasedPage
from scraper.rules.routing import (
    PRIORITY_LEVELS,
    URGENT,
    Route,
    RoutingPreferences,
    RoutingRule,
    choose_route,
    may_begin_batch,
    message_level,
    message_priority,
    page_priority,
    priority_level,
    queue_name,
    queues_served_with,
    room_by_level,
)
from scraper.settings import Settings
from scraper.sites.definition import Site
from tests.support.making import a_site

LEVELS = st.integers(0, PRIORITY_LEVELS - 1)
KINDS = st.sampled_from(Kind)


@pytest.mark.parametrize(
    ("capability", "region", "name"),
    [
        ("residential", "eu", "residential.eu"),
        ("residential", "any", "residential"),
        ("browser", "", "browser"),
    ],
)
def test_a_queue_is_named_by_capability_and_region(capability: str, region: str, name: str) -> None:
    assert queue_name(capability, region) == name


def test_without_a_region_a_queue_is_the_capability() -> None:
    assert queue_name("datacenter") == "datacenter"


def ways(site: Site) -> dict[str, Route]:
    return {
        url: choose_route(site.routing_preferences, Kind.PRODUCT, f"https://shop.example/{url}")
        for url in ("sale/1", "eu/1", "1")
    }


def test_the_first_rule_that_matches_decides_and_the_site_does_the_rest() -> None:
    rules = [
        {"match": "/sale/", "priority": "high"},
        {"match": "/eu/", "region": "eu", "queue": "residential"},
    ]
    site = a_site(
        priority="low", region="us", routes=[*rules, {"match": "/(sale|eu)/", "priority": 9}]
    )
    assert ways(site) == {
        "sale/1": Route("datacenter", "us", 16),
        "eu/1": Route("residential", "eu", 4),
        "1": Route("datacenter", "us", 4),
    }
    assert site.routing_preferences.queues == {"datacenter.us", "residential.eu"}


def test_a_rule_may_lift_the_region() -> None:
    assert (
        ways(a_site(region="us", routes=[{"match": "/sale/", "region": "any"}]))["sale/1"].queue
        == "datacenter"
    )


def test_a_routes_region_is_that_of_its_proxies_and_languages_too() -> None:
    site = a_site(
        region="us",
        proxy="residential",
        routes=[{"match": "/eu/", "region": "eu"}, {"match": "/x/", "region": "any"}],
    )
    context = make_context(1, 1, site, Settings())

    def region(path: str) -> str | None:
        page = LeasedPage(
            1, 1, f"https://shop.example/{path}", Kind.PRODUCT, "shop.example", 0, 0, 1, 10
        )
        need = context.proxy_need(page, "residential")
        assert need is not None and need.region == context.policy_of(page).region
        return need.region

    assert [region(path) for path in ("1", "eu/1", "x/1")] == ["us", "eu", None]


def test_the_queues_of_a_site_are_those_that_its_blocked_pages_go_to_too() -> None:
    site = a_site(
        region="eu",
        escalate=["residential", "browser"],
        routes=[{"match": "/x/", "queue": "residential"}],
    )
    assert site.routing_preferences.queues == {"datacenter.eu", "residential.eu", "browser.eu"}


def test_a_pattern_that_takes_for_ever_matches_nothing() -> None:
    site = a_site(routes=[{"match": "(a+)+$", "priority": 9}])
    assert choose_route(
        site.routing_preferences, Kind.LISTING, "https://shop.example/" + "a" * 5000 + "!"
    ) == Route("datacenter", "any", 11)


WISHED = st.none() | st.sampled_from(["datacenter", "residential", "browser"])
RULES = st.builds(
    lambda host, capability, region, priority: RoutingRule(
        lambda url: host in url, capability, region, priority
    ),
    st.sampled_from("abc"),
    WISHED,
    st.none() | st.sampled_from(["eu", "us", "any"]),
    st.none() | LEVELS,
)
WISHES = st.builds(
    RoutingPreferences,
    st.fixed_dictionaries({kind: st.sampled_from(["datacenter", "residential"]) for kind in Kind}),
    st.sampled_from(["any", "eu"]),
    LEVELS,
    st.lists(RULES, max_size=4).map(tuple),
)


@given(WISHES, KINDS, st.text("abcd", min_size=1, max_size=4))
def test_every_page_has_one_way(wishes: RoutingPreferences, kind: Kind, url: str) -> None:
    """Known in advance, so that a command can say who serves it, and of a priority that its rule or
    site names."""
    way = choose_route(wishes, kind, url)
    assert way == choose_route(wishes, kind, url) and way.queue in wishes.queues
    assert priority_level(way.priority) in {
        wishes.priority,
        *(rule.priority for rule in wishes.rules),
    }
    if not any(rule.matches(url) for rule in wishes.rules):
        assert way == Route(
            wishes.capabilities[kind], wishes.region, page_priority(wishes.priority, kind)
        )


BEGUN = st.dictionaries(LEVELS, st.integers(0, 40))


@given(LEVELS, BEGUN, st.integers(1, 20))
def test_lesser_work_takes_no_place_from_what_is_urgent(
    level: int, begun: dict[int, int], places: int
) -> None:
    at_least = {other: batches for other, batches in begun.items() if other >= level}
    assert (
        may_begin_batch(level, begun, places)
        == may_begin_batch(level, at_least, places)
        == (sum(at_least.values()) < places)
    )


@given(BEGUN, st.integers(0, 20))
def test_lesser_batches_take_no_room_from_what_is_urgent(
    waiting: dict[int, int], stale: int
) -> None:
    room = room_by_level(waiting, stale, 8)
    assert room == sorted(room) and 0 <= min(room) <= max(room) <= 8
    assert all(
        room[level]
        == room_by_level({n: b for n, b in waiting.items() if n >= level}, stale, 8)[level]
        for level in range(10)
    )


@given(st.integers(0, URGENT), st.booleans())
def test_a_messages_number_leads_back_to_its_level(priority: int, zero_is_first: bool) -> None:
    number = message_priority(priority, zero_is_first=zero_is_first)
    assert message_level(number, zero_is_first=zero_is_first) == priority_level(priority)


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,9}", fullmatch=True)


@given(NAMES, NAMES, NAMES)
def test_a_regions_worker_serves_its_region_and_any_but_no_other(
    capability: str, region: str, other: str
) -> None:
    served = queues_served_with(queue_name(capability, region))
    assert queue_name(capability, region) in served and queue_name(capability) in served
    assert all(queue == capability or queue.endswith(f".{region}") for queue in served)
    if other not in (region, "any"):
        assert queue_name(capability, other) not in served
    assert queues_served_with(queue_name(capability)) == (capability,)


@given(LEVELS, LEVELS, KINDS, KINDS)
def test_a_higher_site_priority_comes_first_whatever_the_kind(
    low: int, high: int, one: Kind, other: Kind
) -> None:
    if low < high:
        assert page_priority(low, one) < page_priority(high, other)


@given(LEVELS)
def test_discovery_comes_before_products_of_the_same_priority(level: int) -> None:
    listing, sitemap, product = (
        page_priority(level, kind) for kind in (Kind.LISTING, Kind.SITEMAP, Kind.PRODUCT)
    )
    assert listing == sitemap > product


@given(LEVELS, KINDS)
def test_the_brokers_number_is_the_sites_priority(level: int, kind: Kind) -> None:
    assert message_priority(page_priority(level, kind), zero_is_first=False) == level
    assert (
        message_priority(page_priority(level, kind), zero_is_first=True)
        == PRIORITY_LEVELS - 1 - level
    )


@given(LEVELS, LEVELS, KINDS, st.booleans())
def test_brokers_order_as_the_frontier_does(
    low: int, high: int, kind: Kind, zero_is_first: bool
) -> None:
    first, second = (
        message_priority(page_priority(n, kind), zero_is_first=zero_is_first) for n in (high, low)
    )
    if low < high:
        assert (first < second) == zero_is_first
        assert first != second


@given(st.integers(-1000, 1000), st.booleans())
def test_any_number_is_a_brokers_number(priority: int, zero_is_first: bool) -> None:
    assert 0 <= message_priority(priority, zero_is_first=zero_is_first) <= 9
