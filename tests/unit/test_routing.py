"""Names of queues and numbers of priority."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Kind
from scraper.policy.routing import PRIORITY_LEVELS, message_priority, page_priority, queue_name, served_with

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


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,9}", fullmatch=True)


@given(NAMES, NAMES, NAMES)
def test_a_regions_worker_serves_its_region_and_any_but_no_other(capability: str, region: str, other: str) -> None:
    served = served_with(queue_name(capability, region))
    assert queue_name(capability, region) in served and queue_name(capability) in served
    assert all(queue == capability or queue.endswith(f".{region}") for queue in served)
    if other not in (region, "any"):
        assert queue_name(capability, other) not in served
    assert served_with(queue_name(capability)) == (capability,)


@given(LEVELS, LEVELS, KINDS, KINDS)
def test_a_higher_site_priority_comes_first_whatever_the_kind(low: int, high: int, one: Kind, other: Kind) -> None:
    if low < high:
        assert page_priority(low, one) < page_priority(high, other)


@given(LEVELS)
def test_discovery_comes_before_products_of_the_same_priority(level: int) -> None:
    listing, sitemap, product = (page_priority(level, kind) for kind in (Kind.LISTING, Kind.SITEMAP, Kind.PRODUCT))
    assert listing == sitemap > product


@given(LEVELS, KINDS)
def test_the_brokers_number_is_the_sites_priority(level: int, kind: Kind) -> None:
    assert message_priority(page_priority(level, kind), zero_is_first=False) == level
    assert message_priority(page_priority(level, kind), zero_is_first=True) == PRIORITY_LEVELS - 1 - level


@given(LEVELS, LEVELS, KINDS, st.booleans())
def test_brokers_order_as_the_frontier_does(low: int, high: int, kind: Kind, zero_is_first: bool) -> None:
    first, second = (message_priority(page_priority(n, kind), zero_is_first=zero_is_first) for n in (high, low))
    if low < high:
        assert (first < second) == zero_is_first
        assert first != second


@given(st.integers(-1000, 1000), st.booleans())
def test_any_number_is_a_brokers_number(priority: int, zero_is_first: bool) -> None:
    assert 0 <= message_priority(priority, zero_is_first=zero_is_first) <= 9
