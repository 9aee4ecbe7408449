"""What would read a field now, where the definition does no longer: sources that give the last
known values on pages of today. Pure.

A proposal is as certain as it agrees on many pages, and is unlikely to do so by chance: a page that
agrees counts by how rare its value is among the known ones. One that never changes proves nothing
by itself: it must stand in one place alone, on the recorded pages as on those of today.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pydantic import ValidationError
from selectolax.lexbor import LexborNode

from scraper.domain import Fetched
from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import FORMER_WORD, is_named_former
from scraper.extract.heuristics.state_fields import find_text_paths
from scraper.extract.items.reader import ItemsReader
from scraper.extract.items.scopes import PageItem
from scraper.extract.sources import SELECTOR_ERRORS, compile_source
from scraper.extract.text import whole_text
from scraper.infra.database import dumps
from scraper.plugins.author.discovery.css_paths import ElementPath, ancestors, find_paths
from scraper.plugins.author.discovery.fields.candidates import find_candidates
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.fields.standard import TYPES
from scraper.plugins.author.discovery.trial import PATIENT, field_reader
from scraper.rules.decoding import clean_text
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.model import expand_css
from scraper.sites.grammar.sources import SOURCES

# A proposal that is less certain is not offered.
OFFERED = 0.9
# Where fewer pages show the known value, the field is broken.
READ_SHARE = 0.5
# On fewer pages nothing is certain enough, however many agree.
PAGES_MIN = 8
# So many known values tell a field from others.
VALUES_MIN = 3
ELEMENTS_MAX = 12
PATHS_MAX = 12
CASES_LOOKED_AT = 6
# Of a page with more products so many are looked at.
ITEMS_LOOKED_AT = 4
# What one place alone says, on old pages and on new ones, is worth this many bits.
ALONE_BITS = 8.0
CURRENCY = "_currency"
PLACE_COST = 0.01
# What names an element by its place alone.
_PLACE = re.compile(r":nth-|\+")
_LABEL = re.compile(r"[^\W\d_][\w .-]{1,30}").fullmatch
SOURCE_KEYS = frozenset({*SOURCES, "path", "any"})


@dataclass(slots=True)
class Case:
    """A page of today, what is known of its product, and the page that this was read of, where it
    was recorded."""

    expected: dict[str, Any]
    now: Document
    old: Document | None = None
    sample: ProductSample = field(init=False)

    def __post_init__(self) -> None:
        self.sample = ProductSample(self.now, None)


@dataclass(frozen=True, slots=True)
class Count:
    """Of the pages that know the field: how many show the known value, and how many another."""

    right: int
    wrong: int
    pages: int

    def __str__(self) -> str:
        return f"{self.right} of {self.pages}"


@dataclass(frozen=True, slots=True)
class Repair:
    """`value`: the field as a definition writes it; None where nothing is certain enough, and
    `nearest` is what came next. `before`, `now`: the definition and the proposal on pages of today;
    `old`: the proposal on the recorded ones."""

    name: str
    before: Count
    value: dict[str, Any] | None = None
    confidence: float = 0.0
    now: Count | None = None
    old: Count | None = None
    nearest: str = ""


def case_of(expected: dict[str, Any], asked: str, now: Fetched, old: Fetched | None = None) -> Case:
    """`asked`: the URL that both pages were asked for by."""
    return Case(
        json.loads(dumps(expected)),
        Document(now, asked, PATIENT),
        None if old is None else Document(old, asked, PATIENT),
    )


def item_cases(
    site: Site, rows: Mapping[str, dict[str, Any]], asked: str, now: Fetched, old: Fetched | None
) -> list[Case]:
    """Of a page with several products, `rows` by their ids, some: each as its part of the page."""
    reader = ItemsReader(site.product, site.url_rules)
    pages = [None if page is None else Document(page, asked, PATIENT) for page in (now, old)]
    cases = []
    for external_id in list(rows)[:: max(1, len(rows) // ITEMS_LOOKED_AT)]:
        part, before = (page and reader.find(page, external_id) for page in pages)
        if part is not None:
            cases.append(Case(json.loads(dumps(rows[external_id])), part, before))
    return cases


def spec_of(site: Site, name: str, *, inner: bool) -> FieldSpec:
    """`inner`: of the page's items."""
    return (site.product.own_fields if inner else site.product.fields)[name]


def is_broken(site: Site, name: str, cases: Sequence[Case], *, inner: bool = False) -> bool:
    count = _count(name, cases, _values(name, spec_of(site, name, inner=inner), cases))
    return count.pages > 0 and count.right < READ_SHARE * count.pages


def repair_field(
    site: Site, name: str, written: Any, cases: Sequence[Case], *, inner: bool = False
) -> Repair:
    """The most certain source of the field. `written`: the field as its definition has it."""
    spec = spec_of(site, name, inner=inner)
    before = _count(name, cases, _values(name, spec, cases))
    if before.pages < VALUES_MIN or before.right == before.pages:
        return Repair(name, before)
    recorded = [case for case in cases if case.old is not None]
    texts = _Texts.of(spec, cases)
    best: tuple[tuple[float, float], Repair] | None = None
    for rank, source in _sources(name, spec, cases):
        value = _with(source, written)
        try:
            proposed = FieldSpec.model_validate(value)
        except ValidationError:
            continue
        values = _values(name, proposed, cases, wrong_max=len(cases) // 5)
        now = _count(name, cases, values)
        if now.right < VALUES_MIN:
            continue
        old = _count(name, recorded, _values(name, proposed, recorded, old=True))
        confidence = _confidence_now(name, proposed, cases, values, texts)
        confidence *= 1 - old.wrong / max(1, old.pages)
        confidence -= PLACE_COST * len(_PLACE.findall(source.get("css", "")))
        order = round(confidence, 2), old.right / max(1, old.pages) - rank
        if best is None or order > best[0]:
            nearest = next(iter(source.values()))
            best = order, Repair(name, before, value, confidence, now, old, str(nearest))
    if best is None:
        return Repair(name, before)
    repair = best[1]
    if repair.confidence < OFFERED:
        return replace(repair, value=None)
    assert repair.value is not None
    return replace(repair, value=_with_rivals(repair.value, name, written, cases))


class _Texts(NamedTuple):
    """What the field was read of on each recorded page, before it became a value (None: nothing, or
    the page was not recorded). `alone`: each stands in one place of its page, then and now."""

    old: list[str | None]
    alone: bool

    @classmethod
    def of(cls, spec: FieldSpec, cases: Sequence[Case]) -> _Texts:
        raw = [_raw(spec, case.old) if case.old is not None else [] for case in cases]
        old = [texts[0] if texts else None for texts in raw]
        return cls(old, all(map(_stands_alone, cases, old)))


def _confidence_now(
    name: str, proposed: FieldSpec, cases: Sequence[Case], values: Sequence[Any], texts: _Texts
) -> float:
    """How certain the proposal is by the pages of today. Where it reads the very texts that the
    field was read of, these count: they tell more than what they mean, for "14 left" is yes."""
    expected = [case.expected.get(name) for case in cases]
    agreeing = [known == value for known, value in zip(expected, values, strict=False)]
    same = [text for text in texts.old if text]
    if len(same) == len(cases) and all(
        _raw(proposed, case.now)[:1] == [text] for case, text in zip(cases, same, strict=True)
    ):
        return _confidence(same, agreeing, ALONE_BITS * texts.alone)
    return _confidence([json.dumps(known) for known in expected], agreeing, 0.0)


def _values(
    name: str,
    spec: FieldSpec,
    cases: Sequence[Case],
    *,
    old: bool = False,
    wrong_max: int | None = None,
) -> list[Any]:
    """What it gives on each page; shorter where more than `wrong_max` are not as known."""
    reader = field_reader(name, spec)
    values: list[Any] = []
    wrong = 0
    for case in cases:
        document = case.old if old else case.now
        assert document is not None
        data = json.loads(dumps(reader(document)[0]))
        value, currency = data.get(name), f"{name}{CURRENCY}"
        if value == case.expected.get(name) and data.get(currency) != case.expected.get(currency):
            # An amount in another currency, or in none, is another price.
            value = None
        if old and spec.when is not None and not _raw(spec, document):
            # That an old page has no such place does not mean no.
            value = None
        values.append(value)
        wrong += value != case.expected.get(name)
        if wrong_max is not None and wrong > wrong_max:
            break
    return values


def _count(name: str, cases: Sequence[Case], values: Sequence[Any]) -> Count:
    """A value where none is known is wrong."""
    pairs = list(zip((case.expected.get(name) for case in cases), values, strict=False))
    return Count(
        sum(expected is not None and value == expected for expected, value in pairs),
        sum(value is not None and value != expected for expected, value in pairs),
        sum(case.expected.get(name) is not None for case in cases),
    )


def _confidence(kinds: Sequence[str], agreeing: Sequence[bool], bits: float) -> float:
    """How likely the next page agrees where these do, (n + 1) / (n + 2), unless all do so by
    chance, 2^(-bits / 2). `kinds`: what is to be the same on each page; a rare one says more."""
    seen = Counter(kinds)
    pairs = zip(kinds, agreeing, strict=False)
    bits += sum(-math.log2(seen[kind] / len(kinds)) for kind, agrees in pairs if agrees)
    return (sum(agreeing) + 1) / (len(kinds) + 2) * (1 - 2 ** (-bits / 2))


def _sources(
    name: str, spec: FieldSpec, cases: Sequence[Case]
) -> list[tuple[float, dict[str, Any]]]:
    """Sources that may give the field, each with its rank on the page where it is worst: a low one
    lasts."""
    sources: dict[str, tuple[float, dict[str, Any]]] = {}

    def add(rank: float, source: dict[str, Any]) -> None:
        key = json.dumps(source, sort_keys=True)
        if key not in sources or rank > sources[key][0]:
            sources[key] = rank, source

    if isinstance(cases[0].now.value, dict):
        for case in cases[:CASES_LOOKED_AT]:
            for path in find_text_paths(case.now.value):
                add(path.count("."), {"path": path})
        return sorted(sources.values(), key=lambda pair: pair[0])
    if name in TYPES and not isinstance(cases[0].now, PageItem):
        for candidate in find_candidates(name, [case.sample for case in cases]):
            if candidate.origin != "script":
                machine = candidate.origin in ("json-ld", "microdata", "rdfa", "meta")
                add(candidate.rank - 2.0 * machine, candidate.source)
    shows_former = name == "list_price" or FORMER_WORD.search(name.replace("_", "-")) is not None
    former = spec.type != "price" or shows_former
    regexes = dict.fromkeys((None, *(reading.regex for reading in spec.readings)))
    for case in cases[:: max(1, len(cases) // CASES_LOOKED_AT)]:
        for rank, css in _places(_needles(name, spec, case), case, former=former):
            for regex in regexes:
                add(rank, {"css": css} if regex is None else {"css": css, "regex": regex})
    return sorted(sources.values(), key=lambda pair: pair[0])


def _needles(name: str, spec: FieldSpec, case: Case) -> list[str]:
    """Texts that the field was read of, and its value."""
    texts = [] if case.old is None else _raw(spec, case.old)
    expected = case.expected.get(name)
    texts += [expected] if isinstance(expected, str) else []
    return [text for text in dict.fromkeys(map(clean_text, texts)) if text]


def _raw(spec: FieldSpec, document: Document) -> list[str]:
    """What its sources match, before it becomes a value."""
    texts: list[str] = []
    for reading in spec.readings:
        try:
            texts += compile_source(reading)(document, False)[:1]
        except SELECTOR_ERRORS:
            continue
    return texts


def _places(needles: Sequence[str], case: Case, *, former: bool) -> Iterator[tuple[float, str]]:
    """Selectors of the elements that hold one of the texts and little else, the closest first.
    `former`: a crossed-out price, too, which on a sale is what the price was."""
    holding: list[tuple[int, LexborNode, str, str]] = []
    for element in case.sample.elements if needles else ():
        text = case.sample.text(element)
        for needle in needles:
            if len(text) <= 3 * len(needle) + 60 and needle in text:
                label = text[: text.index(needle)].strip(" :#")
                holding.append((len(text) - len(needle), element, "", label))
            for key, value in element.attributes.items():
                if value and _is_in(value, needle, key):
                    holding.append((abs(len(value) - len(needle)), element, f"::attr({key})", ""))
    holding.sort(key=lambda entry: entry[0])
    for _, element, suffix, label in holding[:ELEMENTS_MAX]:
        if not former and _is_former(element):
            continue
        kept = 0
        for path in (*find_paths(element), *_labelled(element, label)):
            if case.sample.first_match(path.css) == element.mem_id:
                # What matches once is what is meant. (lexbor alone knows no :contains().)
                several = ":contains(" in path.css or len(case.now.dom.css(path.css)) > 1
                yield path.rank + several, path.css + suffix
                kept += 1
                if kept >= PATHS_MAX:
                    break


def _is_former(element: LexborNode) -> bool:
    above = any(is_named_former(up, itself=False) for up in ancestors(element, 4))
    return above or is_named_former(element, itself=True)


def _labelled(element: LexborNode, label: str) -> Iterator[ElementPath]:
    """By the word that it begins with: `.facts > p:contains("Brand")`."""
    parent = element.parent
    if not _LABEL(label) or parent is None:
        return
    own = f'{element.tag}:contains("{label}")'
    yield ElementPath(own, 3)
    for above in find_paths(parent)[:3]:
        yield ElementPath(f"{above.css} > {own}", 3 + above.rank)


def _is_in(value: str, needle: str, key: str) -> bool:
    """Whether an attribute says it: an address in whatever form, another text with little else."""
    if key in ("href", "src"):
        return len(value) > 4 and needle.endswith(value)
    return key != "style" and len(value) <= 3 * len(needle) + 60 and needle in value


def _stands_alone(case: Case, text: str | None) -> bool:
    """Whether the text that the field was read of stands in one place of the page, then and now."""
    if case.old is None or not text:
        return False
    return _number(clean_text(text), case.old) == _number(clean_text(text), case.now) == 1


def _number(text: str, page: Document) -> int:
    body = None if isinstance(page, PageItem) else page.dom.body
    return clean_text(whole_text(body)).casefold().count(text.casefold()) if body is not None else 0


def _with(source: dict[str, Any], written: Any) -> dict[str, Any]:
    """The field with this source, and its other options."""
    options = written.items() if isinstance(written, dict) else ()
    kept = {key: value for key, value in options if key not in SOURCE_KEYS}
    return {**source, **{key: value for key, value in kept.items() if key not in source}}


def _with_rivals(
    value: dict[str, Any], name: str, written: Any, cases: Sequence[Case]
) -> dict[str, Any]:
    """Of the alternatives that it had, those that still say what is right, and nothing else, stay
    behind it."""
    living = []
    for rival in written.get("any", ()) if isinstance(written, dict) else ():
        source = expand_css(rival)
        spec = FieldSpec.model_validate(_with(source, written))
        count = _count(name, cases, _values(name, spec, cases))
        if count.right and not count.wrong:
            living.append(rival)
    if not living:
        return value
    own = {key: value[key] for key in value if key in SOURCE_KEYS or key not in written}
    rest = {key: option for key, option in value.items() if key not in own}
    return {**rest, "any": [own, *(rival for rival in living if expand_css(rival) != own)]}
