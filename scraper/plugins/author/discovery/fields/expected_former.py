"""Where a shop will show former prices that has nothing on sale now: around the price, by the marks
that shops give a former price. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scraper.plugins.author.discovery.css_paths import find_paths
from scraper.plugins.author.discovery.fields.readings import CandidateReading
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.fields.standard import Candidate
from scraper.plugins.author.discovery.fields.visible_elements import find_prices

# Struck elements, and parts of the names of classes.
_MARKS = (
    *("del", "s", "strike", "[style*=line-through]"),
    *(
        f"[class*={part} i]"
        for part in ("old-price", "price-old", "was", "regular", "compare", "strike", "streich")
    ),
)
PATHS_MAX = 6
# What is written as the example of such a source.
NONE_NOW = "nothing is reduced now"


def expect_former_prices(
    samples: Sequence[ProductSample], prices: CandidateReading
) -> list[CandidateReading]:
    """Returns sources that give nothing on any page now; none if the price is not shown in the same
    place on all pages where `prices` gives one. A mark that a page has now is left out: it means
    something else there."""
    places: Counter[str] = Counter()
    for sample, value in zip(samples, prices.values, strict=True):
        if value is not None:
            places.update(dict.fromkeys(_find_places(sample), 1))
    # The first one is the widest of the first page, by its most lasting path.
    place = next((css for css, number in places.items() if number == prices.count), None)
    if place is None:
        return []
    # In the price's place, or next to it.
    scopes = [f"{place} ", f":has(> {place}) > "] if _is_one_step(place) else [f"{place} "]
    readings = []
    for scope in scopes:
        marks = [mark for mark in _MARKS if not _is_on_page(scope + mark, samples)]
        if marks and not any(sample.reaches_others(f"{scope}del") for sample in samples):
            css = f"{scope}:is({', '.join(marks)})"
            nothing: list[Any] = [None] * len(samples)
            readings.append(CandidateReading(Candidate("page", {"css": css}, 0), nothing, nothing))
    return readings


def _find_places(sample: ProductSample) -> Iterator[str]:
    """Yields selectors for what holds the price and no other amount, the widest element first."""
    for element in reversed(list(find_prices(sample))):
        for path in find_paths(element)[:PATHS_MAX]:
            if sample.first_match(path.css) == element.mem_id and not sample.is_around_heading(
                path.css
            ):
                yield path.css


def _is_one_step(css: str) -> bool:
    return not set(css) & set(" >+~")


def _is_on_page(css: str, samples: Sequence[ProductSample]) -> bool:
    return any(sample.first_match(css) is not None for sample in samples)
