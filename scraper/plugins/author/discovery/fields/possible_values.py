"""Checks that rule out candidates by their values alone: each field has a form, and only some
fields may be equal on all pages. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from scraper.extract.heuristics.buying import has_dead_button
from scraper.extract.heuristics.codes import is_gtin
from scraper.extract.heuristics.state_fields import WHOLE_CURRENCIES
from scraper.extract.prices.currencies import names_currency
from scraper.plugins.author.discovery.fields.readings import (
    CandidateReading,
    common_values,
    plain_pairs,
    read_cards,
)
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.fields.shop_currency import stated_currencies
from scraper.plugins.author.discovery.fields.visible_elements import shows_availability

# The fields that may be equal on all pages of a shop. Any other field that never changes belongs
# to the page's frame.
SHARED_FIELDS = frozenset({"availability", "brand", "category", "list_price", "rating", "stock"})
# More products than these have former prices that differ.
REPEATED_FORMER_MAX = 3
_WORD = re.compile(r"[^\W\d_]{4}").search
# Origins that repeat the shop's own name or its main menu instead of the field.
_FRAME_ORIGINS = {"category": ("page", "meta", "label"), "brand": ("page", "meta", "label")}


def _are_numbers(values: Sequence[Any]) -> bool:
    """Returns whether the values are short, and nine in ten belong to one product each."""
    distinct = len(set(map(str, values)))
    return all(len(value) <= 60 for value in values) and distinct * 10 >= len(values) * 9


def is_amount(text: str) -> bool:
    """Returns whether the text is an amount of money alone."""
    return names_currency(text) and re.search(r"\d", text) is not None and not _WORD(text)


def _are_names(values: Sequence[Any]) -> bool:
    return all(1 < len(value) <= 80 for value in values)


_FORMS: Mapping[str, Callable[[Sequence[Any]], bool]] = {
    "title": lambda values: (
        all(1 < len(value) <= 300 for value in values) and sum(map(is_amount, values)) < 2
    ),
    "price": lambda values: all(value > 0 for value in values),
    "sku": _are_numbers,
    "gtin": lambda values: all(map(is_gtin, values)),
    "mpn": _are_numbers,
    "brand": _are_names,
    "category": _are_names,
    "description": lambda values: sum(len(value) > 40 for value in values) * 2 >= len(values),
    "rating": lambda values: all(0 <= value <= 5 for value in values),
}


def is_possible(
    name: str,
    reading: CandidateReading,
    samples: Sequence[ProductSample],
    titles: CandidateReading | None,
    prices: CandidateReading | None,
) -> bool:
    """Returns whether the values may belong to the field. `titles` and `prices` are the chosen
    sources of those fields."""
    values = [value for value in reading.values if value is not None]
    is_repeated = len(values) > 1 and len(set(map(str, values))) == 1
    if is_repeated and (
        (name not in SHARED_FIELDS and len(samples) > 2)
        or reading.origin in _FRAME_ORIGINS.get(name, ())
        # The first of all breadcrumbs, by their microdata.
        or (name == "category" and reading.candidate.source.keys() & {"css", "microdata"})
    ):
        return False
    if name in _FORMS and not _FORMS[name](values):
        return False
    match name:
        case "list_price":
            return (
                prices is not None
                and all(former > current for former, current in common_values(reading, prices))
                and not (is_repeated and len(values) > REPEATED_FORMER_MAX)
                and not _contradicts_cards(reading, samples)
            )
        case "brand" if _are_framed(values):
            return False
        case "brand":
            # Most shops begin a product's name with its brand.
            return titles is None or not _match_titles(reading, titles, operator.eq)
        case "category":
            # The second crumb from the end is the home where the category is the last one.
            return not _leads_home(reading, samples) and (
                titles is None or not _match_titles(reading, titles, str.startswith)
            )
        case "availability":
            return _may_state_stock(reading, samples, is_repeated)
        case "stock":
            # The days of a delivery are a number too.
            return not is_repeated
    return True


def _may_state_stock(
    reading: CandidateReading, samples: Sequence[ProductSample], is_repeated: bool
) -> bool:
    """Returns whether the pages show what it gives: shops hide "Last items in stock!".

    A button that is on every page, or that is only disabled, says nothing.
    """
    if "when" in reading.candidate.source:
        return not is_repeated and not any(
            has_dead_button(sample.document.dom) for sample in samples
        )
    return all(shows_availability(element) for element, _ in _match_elements(reading, samples))


def _leads_home(reading: CandidateReading, samples: Sequence[ProductSample]) -> bool:
    """Returns whether a value is the text of a link to the shop's first page."""
    linked = (
        sample.document.clean_link(element.attributes.get("href") or "")
        for element, sample in _match_elements(reading, samples)
        if element.tag == "a"
    )
    # A path of two letters may be a language's first page, or a category.
    return any(url is not None and urlsplit(url)[2:4] in (("", ""), ("/", "")) for url in linked)


def _match_elements(
    reading: CandidateReading, samples: Sequence[ProductSample]
) -> Iterator[tuple[LexborNode, ProductSample]]:
    """Yields the elements that the reading's values are from, if a selector finds them."""
    css = reading.candidate.source.get("css")
    for value, sample in zip(reading.values, samples, strict=True):
        element = sample.select_first(css) if css is not None and value is not None else None
        if element is not None:
            yield element, sample


def _are_framed(values: Sequence[Any]) -> bool:
    """Returns whether different values begin and end with the same words: the texts of a box, such
    as "Manufacturer Info X Homepage"."""
    texts = [str(value).split() for value in dict.fromkeys(map(str, values))]
    if len(texts) < 2 or min(map(len, texts)) < 2:
        return False
    return all(len({text[at] for text in texts}) == 1 for at in (0, -1))


def _contradicts_cards(reading: CandidateReading, samples: Sequence[ProductSample]) -> bool:
    """Returns whether most pages of products whose cards show no former price have one, although
    the cards of other products show one."""
    if not read_cards("list_price", samples):
        return False
    priced = [
        value is not None
        for value, sample in zip(reading.values, samples, strict=True)
        if sample.card is not None
        and sample.card.prices
        and not any(amount.struck for amount in sample.card.amounts)
    ]
    return sum(priced) * 2 > len(priced)


def _match_titles(
    reading: CandidateReading, titles: CandidateReading, matches: Callable[[str, str], bool]
) -> bool:
    """Returns whether most values match their page's title."""
    matching = sum(matches(title, value) for value, title in plain_pairs(reading, titles))
    return matching * 2 > reading.count


def is_category_again(
    brand: CandidateReading | None,
    category: CandidateReading | None,
    titles: CandidateReading | None,
) -> bool:
    """Returns whether a shop fills in the category as the brand: both are always the same, no other
    source names that brand, and no title contains it."""
    if brand is None or category is None or titles is None or brand.agrees:
        return False
    pairs = plain_pairs(brand, category)
    return (
        len(set(map(str, brand.values))) > 1
        and len(pairs) > 1
        and all(value == other for value, other in pairs)
        and not any(value in title for title, value in plain_pairs(titles, brand))
    )


def _has_fraction(price: Decimal | None) -> bool:
    return price is not None and price != price.to_integral_value()


def drop_cents(
    name: str, readings: list[CandidateReading], samples: Sequence[ProductSample]
) -> list[CandidateReading]:
    """Returns the readings without prices that may be in cents, as scripts often count.

    Whole numbers from script state stay if another source gives the same number, or if the
    currency has no smaller unit.
    """
    witnesses = [reading for reading in readings if reading.origin not in ("state", "script")]
    if not any(sample.card is not None and sample.card.in_state for sample in samples):
        witnesses += read_cards(name, samples)
    has_whole_currency = any(
        code in WHOLE_CURRENCIES for sample in samples for code in stated_currencies(sample)
    )

    def is_sure(reading: CandidateReading) -> bool:
        return (
            reading.origin != "state"
            or has_whole_currency
            or any(_has_fraction(value) for value in reading.values)
            or any(
                value == other
                for witness in witnesses
                for value, other in common_values(reading, witness)
            )
        )

    return [reading for reading in readings if is_sure(reading)]
