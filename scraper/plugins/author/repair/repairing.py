"""Proposes a source for a field that its definition no longer reads: one that gives the last known
values on pages of today. Pure.

A proposal is as certain as the number of pages it agrees on, and as unlikely to agree by chance: a
page counts by how rare its value is among the known ones. A value that never changes proves nothing
by itself: its text must be in one place alone, on the recorded pages and on those of today.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from scraper.extract.document import Document
from scraper.extract.items.scopes import PageItem
from scraper.extract.text import whole_text
from scraper.plugins.author.repair.cases import (
    RepairCase,
    ValueCount,
    count_values,
    read_texts,
    read_values,
)
from scraper.plugins.author.repair.repair_sources import find_sources
from scraper.rules.decoding import clean_text
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.model import expand_css
from scraper.sites.grammar.sources import SOURCES

# A less certain proposal is not offered.
CONFIDENCE_MIN = 0.9
# A field is broken if a smaller share of the pages shows the known value.
READ_SHARE = 0.5
# On fewer pages nothing is certain enough, even if all of them agree.
PAGES_MIN = 8
# Fewer known values do not distinguish a field from another.
VALUES_MIN = 3
# A proposal may give one wrong value for each of this many pages.
PAGES_PER_WRONG_VALUE = 5
# A text in one place alone, on old and new pages, is worth this many bits.
UNIQUE_BITS = 8.0
POSITION_COST = 0.01
# Parts of a selector that name an element only by its position.
_POSITION = re.compile(r":nth-|\+")
SOURCE_KEYS = frozenset({*SOURCES, "path", "any"})


@dataclass(frozen=True, slots=True)
class FieldRepair:
    """A proposal for one field.

    `value`: the field as a definition writes it; None if nothing is certain enough, and then
    `nearest` is the best source. `before` and `now` count what the definition and the proposal give
    on pages of today, `old` what the proposal gives on recorded pages.
    """

    name: str
    before: ValueCount
    value: dict[str, Any] | None = None
    confidence: float = 0.0
    now: ValueCount | None = None
    old: ValueCount | None = None
    nearest: str = ""


def get_spec(site: Site, name: str, *, inner: bool) -> FieldSpec:
    """`inner`: a field of the page's items."""
    return (site.product.own_fields if inner else site.product.fields)[name]


def is_broken(site: Site, name: str, cases: Sequence[RepairCase], *, inner: bool = False) -> bool:
    values = read_values(name, get_spec(site, name, inner=inner), cases)
    count = count_values(name, cases, values)
    return count.pages > 0 and count.right < READ_SHARE * count.pages


def repair_field(
    site: Site, name: str, written: Any, cases: Sequence[RepairCase], *, inner: bool = False
) -> FieldRepair:
    """Returns the most certain source of the field. `written`: the field as its definition has
    it."""
    spec = get_spec(site, name, inner=inner)
    before = count_values(name, cases, read_values(name, spec, cases))
    if before.pages < VALUES_MIN or before.right == before.pages:
        return FieldRepair(name, before)
    texts = _RecordedTexts.read(spec, cases)
    best: tuple[tuple[float, float], FieldRepair] | None = None
    for rank, source in find_sources(name, spec, cases):
        value = _replace_source(written, source)
        repair = _try_source(name, value, before, cases, texts)
        if repair is None or repair.old is None:
            continue
        confidence = repair.confidence - POSITION_COST * len(
            _POSITION.findall(source.get("css", ""))
        )
        order = round(confidence, 2), repair.old.right_share - rank
        if best is None or order > best[0]:
            nearest = str(next(iter(source.values())))
            best = order, replace(repair, confidence=confidence, nearest=nearest)
    if best is None:
        return FieldRepair(name, before)
    repair = best[1]
    if repair.confidence < CONFIDENCE_MIN or repair.value is None:
        return replace(repair, value=None)
    return replace(repair, value=_keep_rivals(repair.value, name, written, cases))


class _RecordedTexts(NamedTuple):
    """The text that the field was read from on each recorded page, if there are both. `unique`:
    each text is in one place of its page, then and now."""

    old: list[str | None]
    unique: bool

    @classmethod
    def read(cls, spec: FieldSpec, cases: Sequence[RepairCase]) -> _RecordedTexts:
        matches = [read_texts(spec, case.old) if case.old is not None else [] for case in cases]
        old = [texts[0] if texts else None for texts in matches]
        return cls(old, all(map(_is_unique, cases, old)))


def _try_source(
    name: str,
    value: dict[str, Any],
    before: ValueCount,
    cases: Sequence[RepairCase],
    texts: _RecordedTexts,
) -> FieldRepair | None:
    """Reads all pages with a proposal. Returns None if it is not a field, or mostly wrong."""
    try:
        proposed = FieldSpec.model_validate(value)
    except ValidationError:
        return None
    values = read_values(name, proposed, cases, wrong_max=len(cases) // PAGES_PER_WRONG_VALUE)
    now = count_values(name, cases, values)
    if now.right < VALUES_MIN:
        return None
    recorded = [case for case in cases if case.old is not None]
    old = count_values(name, recorded, read_values(name, proposed, recorded, old=True))
    confidence = _rate_values(name, proposed, cases, values, texts) * (1 - old.wrong_share)
    return FieldRepair(name, before, value, confidence, now, old)


def _rate_values(
    name: str,
    proposed: FieldSpec,
    cases: Sequence[RepairCase],
    values: Sequence[Any],
    texts: _RecordedTexts,
) -> float:
    """Returns how certain the proposal is by the pages of today.

    If it reads the very texts that the field was read from, the texts count instead of their
    values: they are rarer, as "14 left" is rarer than yes.
    """
    expected = [case.expected.get(name) for case in cases]
    agreeing = [wanted == value for wanted, value in zip(expected, values, strict=False)]
    same = [text for text in texts.old if text]
    if len(same) == len(cases) and all(
        read_texts(proposed, case.now)[:1] == [text] for case, text in zip(cases, same, strict=True)
    ):
        return _estimate_confidence(same, agreeing, UNIQUE_BITS * texts.unique)
    return _estimate_confidence([json.dumps(wanted) for wanted in expected], agreeing, 0.0)


def _estimate_confidence(texts: Sequence[str], agreeing: Sequence[bool], bits: float) -> float:
    """Returns how likely the next page agrees: (n + 1) / (n + 2) after n pages that do, times the
    chance that they do not agree by accident, 1 - 2^(-bits / 2).

    `texts`: what is compared on each page. An agreement on a rare text is less likely an accident,
    and adds more to the `bits` that speak for the source already.
    """
    pages_with = Counter(texts)
    pairs = zip(texts, agreeing, strict=False)
    bits += sum(-math.log2(pages_with[text] / len(texts)) for text, agrees in pairs if agrees)
    return (sum(agreeing) + 1) / (len(texts) + 2) * (1 - 2 ** (-bits / 2))


def _is_unique(case: RepairCase, text: str | None) -> bool:
    """Returns whether the text is in exactly one place, on the recorded page and today."""
    if case.old is None or not text:
        return False
    plain = clean_text(text)
    return _count_text(plain, case.old) == _count_text(plain, case.now) == 1


def _count_text(text: str, page: Document) -> int:
    body = None if isinstance(page, PageItem) else page.dom.body
    return clean_text(whole_text(body)).casefold().count(text.casefold()) if body is not None else 0


def _replace_source(written: Any, source: dict[str, Any]) -> dict[str, Any]:
    """Returns the field with this source and its other options."""
    options = written if isinstance(written, dict) else {}
    others = {key: value for key, value in options.items() if key not in SOURCE_KEYS}
    return {**source, **{key: value for key, value in others.items() if key not in source}}


def _keep_rivals(
    value: dict[str, Any], name: str, written: Any, cases: Sequence[RepairCase]
) -> dict[str, Any]:
    """Adds the field's old alternatives that still give right values and no wrong ones."""
    living = []
    for rival in written.get("any", ()) if isinstance(written, dict) else ():
        spec = FieldSpec.model_validate(_replace_source(written, expand_css(rival)))
        count = count_values(name, cases, read_values(name, spec, cases))
        if count.right and not count.wrong:
            living.append(rival)
    if not living:
        return value
    own = {key: value[key] for key in value if key in SOURCE_KEYS or key not in written}
    options = {key: option for key, option in value.items() if key not in own}
    return {**options, "any": [own, *(rival for rival in living if expand_css(rival) != own)]}
