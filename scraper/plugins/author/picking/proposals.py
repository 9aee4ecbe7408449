"""Sources for a field that a person points at on one page, each proved on all recorded pages.
Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from selectolax.lexbor import LexborNode

from scraper.domain import as_json
from scraper.errors import ConfigError, NotFoundError, ScraperError
from scraper.extract.document import Document
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.css_paths import (
    count_position,
    element_before,
    find_paths,
    matches_first,
)
from scraper.plugins.author.discovery.fields.standard import TYPES
from scraper.plugins.author.discovery.trial import PATIENT, field_reader
from scraper.plugins.author.picking.page_elements import find_element
from scraper.plugins.author.repair.records import Record
from scraper.plugins.author.repair.repairing import SOURCE_KEYS
from scraper.plugins.author.repair.rewriting import add_field, read_written_field, rewrite_field
from scraper.rules.decoding import clean_text
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSpec

SHOWN = 5
PATHS_MAX = 60
# Ancestors with the same text, whose selectors may last longer.
AROUND_MAX = 2
# Less lasting than selectors with names, and the last resort.
LABEL_RANK, POSITION_RANK = 5, 30
STEPS_MAX = 20
LABELLED_MAX = 200
_PAIR = re.compile(r'^([^:：#"\\]{2,40}?)\s*[:：#]\s*(\S.*)$').match
_LABEL = re.compile(r'[^"\\]{2,40}').fullmatch


class PickedSource(NamedTuple):
    """A source, what it gives on each page (None: nothing), and the definition's text with it."""

    source: str
    pages: int
    values: list[str | None]
    text: str


class _RankedField(NamedTuple):
    order: tuple[int, int, int]
    value: dict[str, Any]
    values: list[str | None]


def propose_sources(
    site: Site, path: Path, text: str, records: Sequence[Record], at: int, number: int, name: str
) -> list[PickedSource]:
    """Returns the best sources that read element `number` of page `at` as field `name`. Raises
    `ScraperError` if there is none, and `NotFoundError` for an element that the page does not
    have."""
    if name in site.product.own_fields:
        raise ConfigError(
            f"{name} is read for each variant of a page (fix: change product.items in the text)"
        )
    documents = [Document(record.page, record.asked, PATIENT) for record in records]
    element = find_element(documents[at].dom, number)
    if element is None:
        raise NotFoundError(f"the page has no element {number}")
    written = read_written_field(text, name)
    ranked = _rank_fields(name, written, element, documents, at)
    if not ranked:
        raise ScraperError(f"no selector reads this element as {name} (fix: choose another one)")
    change = rewrite_field if written is not None else add_field
    return [
        PickedSource(
            ", ".join(field.value[key] for key in ("css", "regex") if key in field.value),
            -field.order[0],
            field.values,
            change(text, path, name, field.value),
        )
        for field in ranked[:SHOWN]
    ]


def _rank_fields(
    name: str, written: Any, element: LexborNode, documents: Sequence[Document], at: int
) -> list[_RankedField]:
    """Returns the fields that read the element, those that give most values first. Of fields that
    give the same values the most lasting one is kept."""
    best: dict[str, _RankedField] = {}
    selectors = _list_selectors(element, documents[at], name, written)
    for rank, source in [*selectors, *_list_labelled(element)]:
        for value in _write_fields(name, written, source):
            values = _read_values(name, value, documents)
            if values is None or values[at] is None:
                continue
            given = [shown for shown in values if shown is not None]
            order = (-len(given), -len(set(given)), rank)
            key = json.dumps(values)
            if key not in best or order < best[key].order:
                best[key] = _RankedField(order, value, values)
    return sorted(best.values(), key=lambda field: field.order)


def _list_selectors(
    element: LexborNode, page: Document, name: str, written: Any
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields sources whose first match is the element, or one around it with the same text, each
    with its rank."""
    attribute = _choose_attribute(element, name, written)
    around: list[LexborNode] = [element]
    shown = (element.text(deep=True) or "").split()
    parent = element.parent
    while not attribute and parent is not None and len(around) <= AROUND_MAX:
        if parent.tag in ("body", "html") or (parent.text(deep=True) or "").split() != shown:
            break
        around.append(parent)
        parent = parent.parent
    for distance, target in enumerate(around):
        for path in find_paths(target)[:PATHS_MAX]:
            if matches_first(path.css, target, page.dom):
                yield path.rank + distance, {"css": f"{path.css}{attribute}"}
    position = _write_position(element)
    if matches_first(position, element, page.dom):
        yield POSITION_RANK, {"css": f"{position}{attribute}"}


def _list_labelled(element: LexborNode) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields sources by the label before a value: in the same text, or in the element before."""
    text = clean_text(whole_text(element))
    pair = _PAIR(text) if len(text) <= LABELLED_MAX else None
    if pair is not None:
        label = pair[1].strip()
        regex = rf"{re.escape(label)}\s*[:：#]\s*(\S.*)".replace("\\ ", " ")
        yield LABEL_RANK, {"css": f'{element.tag}:contains("{label}")', "regex": regex}
    before = element_before(element)
    label = clean_text(whole_text(before)) if before is not None else ""
    if before is not None and _LABEL(label):
        yield LABEL_RANK, {"css": f'{before.tag}:contains("{label}") + {element.tag}'}


def _write_position(element: LexborNode) -> str:
    """Returns the way to an element from the body: tags and their numbers."""
    steps: list[str] = []
    node: LexborNode | None = element
    while node is not None and node.tag not in ("body", "html", None) and len(steps) < STEPS_MAX:
        steps.append(f"{node.tag}:nth-child({count_position(node)})")
        node = node.parent
    if node is None or node.tag != "body":
        return " > ".join(reversed(steps))
    return " > ".join(["body", *reversed(steps)])


def _choose_attribute(element: LexborNode, name: str, written: Any) -> str:
    """Returns what to append to a selector where an attribute has the value."""
    kind = (written if isinstance(written, dict) else TYPES.get(name, {})).get("type")
    if element.tag == "img":
        lazy = ("data-src", "data-original", "src")
        return next((f"::attr({key})" for key in lazy if element.attributes.get(key)), "")
    if element.tag == "a" and kind == "url":
        return "::attr(href)"
    if element.tag in ("input", "meta"):
        return "::attr(value)" if element.tag == "input" else "::attr(content)"
    return ""


def _write_fields(name: str, written: Any, source: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yields the field with this source: with the options that it has, then without those that
    belong to its old source."""
    options: Mapping[str, Any] = written if isinstance(written, dict) else {}
    if written is None:
        options = TYPES.get(name, {})
    kept = {key: option for key, option in options.items() if key not in SOURCE_KEYS}
    yield {**source, **{key: option for key, option in kept.items() if key not in source}}
    fewer = {key: option for key, option in kept.items() if key not in ("map", "table", "key")}
    if "regex" in options and "regex" not in source:
        yield {**source, "regex": options["regex"], **kept}
    if fewer != kept:
        yield {**source, **{key: option for key, option in fewer.items() if key not in source}}


def _read_values(
    name: str, value: dict[str, Any], documents: Sequence[Document]
) -> list[str | None] | None:
    """Returns the field's value on each page as a person reads it; None if it is not a field."""
    try:
        reader = field_reader(name, FieldSpec.model_validate(value))
    except ValidationError:
        return None
    return [format_value(name, reader(document)[0]) for document in documents]


def format_value(name: str, data: Mapping[str, Any]) -> str | None:
    """Returns a value with its currency."""
    if data.get(name) is None:
        return None
    value = json.loads(as_json(data[name]))
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    currency = data.get(f"{name}_currency")
    return f"{shown} {currency}" if currency else shown
