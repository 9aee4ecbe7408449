"""Fields with nested values: a table as an object, and a list of objects. Pure.

Keys are in PostgreSQL's order of JSONB keys, so that a stored value reads back unchanged. Pairs,
objects and their total characters are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.items.scopes import compile_scope
from scraper.extract.text import whole_text
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.css import parse_css
from scraper.sites.grammar.fields import FieldSource

PAIRS_MAX = 1000
OBJECTS_MAX = 1000
KEY_MAX = 200
# The characters of all texts together: nested elements repeat the same text.
CHARS_MAX = 500_000
# Reads the value, or None, from a document, and adds faults as sentences.
ReadValue = Callable[[Document, list[str]], Any]


class NestedField(Protocol):
    """A field that can be read within a part of a page."""

    name: str

    def read(
        self,
        document: Document,
        data: dict[str, Any],
        problems: list[str],
        found: list[str],
        mistyped: list[str],
    ) -> bool: ...


def compile_table(name: str, source: FieldSource, max_length: int) -> ReadValue:
    """Compiles a table: in each row, a name and the values up to the next name, such as `th` and
    `td`, or `dt` and `dd` of a list. The first value of a name counts."""
    rows, keys = parse_css(source.table or ""), parse_css(source.key or "")
    cells = parse_css(f"{source.key}, {source.value}")

    def read_table(document: Document, faults: list[str]) -> dict[str, str] | None:
        pairs: dict[str, str] = {}
        left = CHARS_MAX
        for row in document.css(rows):
            names = {element.mem_id for element in keys.select_all(row)}
            for key, texts in _collect_pairs(cells.select_all(row), names, document, name):
                text = ", ".join(texts)
                if not key or not text or key in pairs:
                    continue
                if len(text) > max_length:
                    faults.append(f"{name}: {len(text):,} characters, cut")
                    text = text[:max_length]
                left -= len(key) + len(text)
                if left < 0 or len(pairs) == PAIRS_MAX:
                    faults.append(f"{name}: more than {_describe_limit(PAIRS_MAX, 'pairs')}, cut")
                    return sort_keys(pairs)
                pairs[key] = text
        return sort_keys(pairs) or None

    return read_table


def _collect_pairs(
    cells: list[LexborNode], names: set[int], document: Document, field: str
) -> list[tuple[str, list[str]]]:
    pairs: list[tuple[str, list[str]]] = []
    for cell in cells[: PAIRS_MAX * 2]:
        document.budget.check(field)
        text = clean_text(whole_text(cell))
        if cell.mem_id in names:
            pairs.append((text.rstrip(" :")[:KEY_MAX], []))
        elif pairs and text:
            pairs[-1][1].append(text)
    return pairs


def compile_objects(name: str, source: FieldSource, fields: Sequence[NestedField]) -> ReadValue:
    """Compiles a list with an object for each matching part. Objects that lack a required field are
    left out."""
    scope = compile_scope(source, OBJECTS_MAX)

    def read_objects(document: Document, faults: list[str]) -> list[dict[str, Any]] | None:
        parts, matched = scope(document)
        values: list[dict[str, Any]] = []
        left = CHARS_MAX
        for part in parts:
            data: dict[str, Any] = {}
            filled_in: list[str] = []
            lacking = [field for field in fields if not field.read(part, data, [], filled_in, [])]
            document.budget.check(name)
            if lacking or not filled_in:
                continue
            left -= count_chars(data)
            if left < 0:
                break
            values.append(sort_keys(data))
        if left < 0 or matched > len(parts):
            faults.append(f"{name}: more than {_describe_limit(OBJECTS_MAX, 'objects')}, cut")
        return values or None

    return read_objects


def count_chars(data: dict[str, Any]) -> int:
    """Returns about how many characters the values have."""
    return sum(len(value) if isinstance(value, str) else len(str(value)) for value in data.values())


def sort_keys(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the data with its keys in JSONB's order: by length, then by bytes."""
    return dict(sorted(data.items(), key=lambda pair: (len(key := pair[0].encode()), key)))


def _describe_limit(number: int, of: str) -> str:
    return f"{number:,} {of} or {CHARS_MAX:,} characters"
