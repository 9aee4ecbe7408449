"""Sources that may read a field on pages of today: candidates as for a new shop, and selectors of
the elements that show a known value. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from selectolax.lexbor import LexborNode

from scraper.extract.heuristics.amounts import FORMER_WORD, is_named_former
from scraper.extract.heuristics.state_fields import find_text_paths
from scraper.extract.items.scopes import PageItem
from scraper.plugins.author.discovery.css_paths import ElementPath, ancestors, find_paths
from scraper.plugins.author.discovery.fields.candidates import find_candidates
from scraper.plugins.author.discovery.fields.standard import TYPES
from scraper.plugins.author.repair.cases import RepairCase, read_texts
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.fields import FieldSpec

ELEMENTS_MAX = 12
PATHS_MAX = 12
CASES_LOOKED_AT = 6
# Sources for machines come before visible elements of the same rank.
MACHINE_BONUS = 2.0
_MACHINE_ORIGINS = frozenset({"json-ld", "microdata", "rdfa", "meta"})
# A label such as "Brand:" before the value, as in `discovery.fields.visible_candidates`.
LABEL_RANK = 3
# An element or attribute may say this much more than the text that is looked for.
EXTRA_CHARS = 60
EXTRA_SHARE = 3
URL_CHARS_MIN = 5
_LABEL = re.compile(r"[^\W\d_][\w .-]{1,30}").fullmatch

# A source and its rank; a low rank lasts.
RankedSource = tuple[float, dict[str, Any]]


def find_sources(name: str, spec: FieldSpec, cases: Sequence[RepairCase]) -> list[RankedSource]:
    """Returns each source once, with its rank on the page where that is highest."""
    sources: dict[str, RankedSource] = {}
    for rank, source in _list_sources(name, spec, cases):
        key = json.dumps(source, sort_keys=True)
        if key not in sources or rank > sources[key][0]:
            sources[key] = rank, source
    return sorted(sources.values(), key=lambda pair: pair[0])


def _list_sources(
    name: str, spec: FieldSpec, cases: Sequence[RepairCase]
) -> Iterator[RankedSource]:
    if isinstance(cases[0].now.value, dict):
        # Items of script state have paths instead of elements.
        for case in cases[:CASES_LOOKED_AT]:
            for path in find_text_paths(case.now.value):
                yield path.count("."), {"path": path}
        return
    if name in TYPES and not isinstance(cases[0].now, PageItem):
        for candidate in find_candidates(name, [case.sample for case in cases]):
            if candidate.origin != "script":
                bonus = MACHINE_BONUS * (candidate.origin in _MACHINE_ORIGINS)
                yield candidate.rank - bonus, candidate.source
    shows_former = name == "list_price" or FORMER_WORD.search(name.replace("_", "-")) is not None
    former = spec.type != "price" or shows_former
    regexes = dict.fromkeys((None, *(reading.regex for reading in spec.readings)))
    for case in cases[:: max(1, len(cases) // CASES_LOOKED_AT)]:
        for rank, css in _select_texts(_list_texts(name, spec, case), case, former=former):
            for regex in regexes:
                yield rank, {"css": css} if regex is None else {"css": css, "regex": regex}


def _list_texts(name: str, spec: FieldSpec, case: RepairCase) -> list[str]:
    """Returns the texts that the field was read from, and its value."""
    texts = [] if case.old is None else read_texts(spec, case.old)
    expected = case.expected.get(name)
    texts += [expected] if isinstance(expected, str) else []
    return [text for text in dict.fromkeys(map(clean_text, texts)) if text]


def _select_texts(
    texts: Sequence[str], case: RepairCase, *, former: bool
) -> Iterator[tuple[float, str]]:
    """Yields rank and CSS of the elements that contain one of the texts and little else, the
    closest first. `former`: also of former prices, which during a sale show the known price."""
    holding: list[tuple[int, LexborNode, str, str]] = []
    for element in case.sample.elements if texts else ():
        shown = case.sample.text(element)
        for text in texts:
            if _is_mostly(shown, text):
                label = shown[: shown.index(text)].strip(" :#")
                holding.append((len(shown) - len(text), element, "", label))
            for key, value in element.attributes.items():
                if value and _states_text(value, text, key):
                    extra = abs(len(value) - len(text))
                    holding.append((extra, element, f"::attr({key})", ""))
    holding.sort(key=lambda entry: entry[0])
    for _, element, suffix, label in holding[:ELEMENTS_MAX]:
        if not former and _shows_former_price(element):
            continue
        selecting = (
            path
            for path in (*find_paths(element), *_find_labelled_paths(element, label))
            if case.sample.first_match(path.css) == element.mem_id
        )
        for path in islice(selecting, PATHS_MAX):
            # Of several matches, the first one may be another element on the next page. (lexbor
            # does not know :contains().)
            several = ":contains(" in path.css or len(case.now.dom.css(path.css)) > 1
            yield path.rank + several, path.css + suffix


def _shows_former_price(element: LexborNode) -> bool:
    above = any(is_named_former(up, itself=False) for up in ancestors(element, 4))
    return above or is_named_former(element, itself=True)


def _find_labelled_paths(element: LexborNode, label: str) -> Iterator[ElementPath]:
    """Yields selectors by the label at the text's start: `.facts > p:contains("Brand")`."""
    parent = element.parent
    if not _LABEL(label) or parent is None:
        return
    own = f'{element.tag}:contains("{label}")'
    yield ElementPath(own, LABEL_RANK)
    for above in find_paths(parent)[:3]:
        yield ElementPath(f"{above.css} > {own}", LABEL_RANK + above.rank)


def _states_text(value: str, text: str, key: str) -> bool:
    """Returns whether an attribute states the text: an address in any form, or mostly the text."""
    if key in ("href", "src"):
        return len(value) >= URL_CHARS_MIN and text.endswith(value)
    return key != "style" and _is_mostly(value, text)


def _is_mostly(value: str, text: str) -> bool:
    """Returns whether the value contains the text and little else."""
    return len(value) <= EXTRA_SHARE * len(text) + EXTRA_CHARS and text in value
