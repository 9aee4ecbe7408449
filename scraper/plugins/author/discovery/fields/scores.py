"""Scores for the readings of a field: how many pages give a value, which other sources agree, and
how long the source is likely to last. Pure.

A score is a number of pages. The weights were tuned by hand until the shop templates of the tests
were read right: their order matters, their second digit does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from scraper.plugins.author.discovery.fields.readings import (
    CandidateReading,
    common_values,
    comparable_value,
    is_same,
    plain_pairs,
)
from scraper.plugins.author.discovery.fields.visible_candidates import LACKED_FIELDS
from scraper.plugins.author.discovery.fields.visible_elements import WORDS_OF_FIELDS

# The cost of each page by its origin: statements for machines survive most redesigns.
ORIGIN_COSTS = {
    "json-ld": 0.0,
    "microdata": 0.05,
    "rdfa": 0.07,
    "meta": 0.1,
    "state": 0.12,
    "label": 0.15,
    "page": 0.2,
    "script": 0.3,
}
OTHER_ORIGIN_COST = 0.2
# Microdata by a CSS selector depends on the page's markup as well.
MICRODATA_BY_CSS_COST = 0.1
RANK_COST = 0.02
# A page on which another source says the same counts more than half a page extra.
AGREEMENT = 0.6
# A page on which several sources say something else cancels two pages.
CONTRADICTION = 2.0
# Values that differ from page to page are more likely the product's own.
DISTINCT_VALUE = 0.1
# A class that names the field stays with it when elements are moved.
NAMED_PLACE = 0.08
LONGER_TITLE_COST = 0.5
CUT_OFF_COST = 0.3
LONE_DESCRIPTION_COST = 0.4
LONE_COST = 0.2
# Nearly every product has these fields, so a source that gives them on few pages is wrong.
COMMON_FIELDS = frozenset({"title", "price", "sku", "image", "availability"})
RARE_COST = 0.5
# Where a product lacks one of these, another element in its place holds something else.
CODE_FIELDS = LACKED_FIELDS | {"sku"}
NOT_CHOSEN = -1.0
# A text this much shorter than another source's is cut off, unless it is long by itself.
CUT_OFF_SHARE = 0.8
WHOLE_TEXT_CHARS = 400

# A selector of a crossed-out element.
_CROSSED_OUT = re.compile(r"(?:^|[\s>+~])(?:del|s|strike)(?:[.:#\[][^\s>+~]*)?$").search

# The value that most origins give on a page, and how many of them.
Consensus = Sequence[tuple[Any, int]]


class Support(NamedTuple):
    """`agreeing`: pages on which another source says the same. `differing`: pages on which several
    sources say something else. `origins`: those that agree on half of the reading's pages."""

    agreeing: int
    differing: int
    origins: frozenset[str]


def find_consensus(name: str, witnesses: Sequence[CandidateReading], pages: int) -> Consensus:
    agreed: list[tuple[Any, int]] = []
    for at in range(pages):
        origins: dict[Any, set[str]] = {}
        for reading in witnesses:
            value = reading.values[at]
            if value is not None:
                origins.setdefault(comparable_value(name, value), set()).add(reading.origin)
        key = max(origins, key=lambda value: len(origins[value]), default=None)
        agreed.append((key, len(origins.get(key, ()))))
    return agreed


def score_reading(
    name: str,
    reading: CandidateReading,
    witnesses: Sequence[CandidateReading],
    consensus: Consensus,
) -> None:
    """Sets the reading's score, and the origins that agree with it."""
    support = _find_support(name, reading, witnesses, consensus)
    origin = reading.origin
    is_named = is_named_place(name, reading)
    # Only some products are reduced. A source that certainly means list prices may be on few pages.
    is_marked = is_named or _CROSSED_OUT(str(reading.candidate.source.get("css", ""))) is not None
    is_sure = name == "list_price" and (origin not in ("page", "label", "script") or is_marked)
    pages = reading.count if is_sure else len(consensus)
    distinct = len({comparable_value(name, value) for value in reading.values if value is not None})
    score = reading.count + AGREEMENT * support.agreeing - CONTRADICTION * support.differing
    score -= pages * _cost_of_source(reading)
    score += DISTINCT_VALUE * distinct
    if origin == "page" and is_named:
        score += pages * NAMED_PLACE
    is_alone = not support.agreeing
    if name == "title":
        score -= LONGER_TITLE_COST * reading.count * _adds_to_titles(reading, witnesses)
    if name == "description":
        # A text that is cut off, or that takes half of the page with it, is not the description.
        score -= CUT_OFF_COST * _count_cut_off(reading, witnesses)
        if origin == "page" and is_alone:
            score -= LONE_DESCRIPTION_COST * reading.count
    if origin in ("page", "script") and is_alone and name in ("title", "image", "rating"):
        score -= LONE_COST * reading.count
    if origin == "page" and not is_named and support.origins and name in CODE_FIELDS:
        score -= CONTRADICTION * _count_alone(reading, witnesses)
    if origin == "script" and is_alone:
        score = NOT_CHOSEN
    if reading.count * 2 < pages and name in COMMON_FIELDS:
        score -= pages * RARE_COST
    reading.score, reading.agrees = score, support.origins


def _find_support(
    name: str,
    reading: CandidateReading,
    witnesses: Sequence[CandidateReading],
    consensus: Consensus,
) -> Support:
    agreements: Counter[str] = Counter()
    agreeing = differing = 0
    others = [witness for witness in witnesses if witness.origin != reading.origin]
    for at, value in enumerate(reading.values):
        if value is None:
            continue
        origins = {
            other.origin
            for other in others
            if other.values[at] is not None and is_same(name, value, other.values[at])
        }
        agreements.update(origins)
        agreeing += bool(origins)
        key, number = consensus[at]
        differing += number >= 2 and not origins and comparable_value(name, value) != key
    lasting = frozenset(
        origin for origin, number in agreements.items() if number * 2 >= reading.count
    )
    return Support(agreeing, differing, lasting)


def _count_alone(reading: CandidateReading, witnesses: Sequence[CandidateReading]) -> int:
    """Counts the pages on which no other origin gives a value."""
    others = [other.values for other in witnesses if other.origin != reading.origin]
    return sum(
        value is not None and all(values[at] is None for values in others)
        for at, value in enumerate(reading.values)
    )


def is_named_place(name: str, reading: CandidateReading) -> bool:
    """Returns whether a class or an id in the selector names the field."""
    word = WORDS_OF_FIELDS.get(name)
    css = str(reading.candidate.source.get("css", ""))
    return word is not None and any(map(word.search, (css, re.sub(r"[.#]", " ", css))))


def _cost_of_source(reading: CandidateReading) -> float:
    """Returns what it costs on each page that a redesign may break the source."""
    is_by_css = reading.origin == "microdata" and "css" in reading.candidate.source
    return (
        ORIGIN_COSTS.get(reading.origin, OTHER_ORIGIN_COST)
        + (MICRODATA_BY_CSS_COST if is_by_css else 0.0)
        + RANK_COST * reading.candidate.rank
    )


def _count_cut_off(reading: CandidateReading, witnesses: Sequence[CandidateReading]) -> int:
    """Counts the pages on which another source has a much longer text."""
    number = 0
    for at, value in enumerate(reading.values):
        if value:
            texts = [other.values[at] for other in witnesses if other.values[at]]
            longest = max(map(len, texts), default=0)
            number += len(value) < CUT_OFF_SHARE * longest and len(value) < WHOLE_TEXT_CHARS
    return number


def _adds_to_titles(reading: CandidateReading, witnesses: Sequence[CandidateReading]) -> bool:
    """Returns whether each title is another source's with more words, such as the shop's name.
    What several products share of their titles is a brand."""
    for other in witnesses:
        pairs = plain_pairs(reading, other)
        values, titles = ({pair[side] for pair in pairs} for side in (0, 1))
        if (
            len(pairs) > 2
            and len(titles) == len(values)
            and all(value != title and value.startswith(title) for value, title in pairs)
        ):
            return True
    return False


def distrust_meta_descriptions(readings: Sequence[CandidateReading]) -> None:
    """Lowers the scores of meta tags that only sometimes agree with a text of the page.

    A meta tag advertises the page. A text of the page that agrees with it on several pages and
    differs on others is the description.
    """
    visible = [reading for reading in readings if reading.origin in ("page", "label")]
    for meta in (reading for reading in readings if reading.origin == "meta"):
        worst = 0
        for reading in visible:
            same = [
                is_same("description", value, other)
                for value, other in common_values(meta, reading)
            ]
            if same and 3 * sum(same) >= len(same):
                worst = max(worst, same.count(False))
        meta.score -= CONTRADICTION * worst
