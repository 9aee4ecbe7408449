"""One field of a definition's text, written anew: every other line stays as it is, comments too.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from scraper.errors import DefinitionError, ScraperError
from scraper.plugins.author.discovery.writing import write_inline
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.sites.grammar import yaml12
from scraper.sites.grammar.fields import FieldSpec

_FIELDS, _ITEMS = ("fields",), ("items", "fields")


def with_field(
    text: str, path: Path, name: str, value: Mapping[str, Any], *, inner: bool = False
) -> str:
    """The text with this field, known to define the same site but for it. `inner`: a field of its
    items. Raises `ScraperError` where the field cannot be written there."""
    keys = (*(_ITEMS if inner else _FIELDS), name)
    pair = _field(yaml.compose(text, Loader=yaml.SafeLoader), "product", *keys)
    if pair is not None:
        key, node = pair
        before = written_field(text, name, inner=inner)
        for written in (_by_line(text, before, node, value), _whole(text, key, node, value)):
            if written is not None and _differs_by(text, written, path, keys, value):
                return written
    raise ScraperError(
        f"{path}: product.{'.'.join(keys)} cannot be written by itself (fix: write it there as "
        f"{write_inline(value)})"
    )


def written_field(text: str, name: str, *, inner: bool = False) -> Any:
    """The field as the text has it; None where it is not there."""
    fields = yaml12.parse(text).data["product"]
    for key in _ITEMS if inner else _FIELDS:
        fields = fields.get(key) if isinstance(fields, dict) else None
    return fields.get(name) if isinstance(fields, dict) else None


def _field(node: yaml.Node | None, *names: str) -> tuple[yaml.Node, yaml.Node] | None:
    """The key of the field and its value."""
    pair = None
    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        pair = next((pair for pair in node.value if pair[0].value == name), None)
        node = pair[1] if pair is not None else None
    return pair


def _by_line(text: str, before: Any, node: yaml.Node, value: Mapping[str, Any]) -> str | None:
    """Only the keys that differ, where each has lines of its own."""
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        return None
    indent = " " * node.start_mark.column
    due = {key: given for key, given in value.items() if before.get(key) != given}
    edits: list[tuple[int, int, str]] = []
    for key, inner in node.value:
        start, end = key.start_mark.index, _end(inner)
        if key.value in due:
            edits.append((start, end, _entry(key.value, due.pop(key.value))))
        elif key.value not in value:
            edits.append((start, end, ""))
    # What is new takes the place of what goes; what is left goes with its line.
    for at, (start, end, entry) in enumerate(edits):
        if not entry and due:
            edits[at] = start, end, f"\n{indent}".join(_entry(*pair) for pair in due.items())
            due = {}
    if due:
        return None
    for start, end, entry in sorted(edits, reverse=True):
        if entry:
            text = text[:start] + entry + text[end:]
            continue
        line = text.rfind("\n", 0, start) + 1
        behind = text.find("\n", end)
        if text[line:start].strip() or behind < 0:
            return None
        text = text[:line] + text[behind + 1 :]
    return text


def _whole(text: str, key: yaml.Node, node: yaml.Node, value: Mapping[str, Any]) -> str:
    """The field on one line, in place of all that it was."""
    short = isinstance(node, yaml.ScalarNode) and list(value) == ["css"]
    entry = write_inline(value["css"] if short else value)
    return f"{text[: key.end_mark.index]}: {entry}{text[_end(node) :]}"


def _entry(key: str, value: Any) -> str:
    return f"{key}: {write_inline(value)}"


def _end(node: yaml.Node) -> int:
    """Where its last character is. (A block is said to end where the next thing begins.)"""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    index: int = node.end_mark.index
    return index


def _differs_by(
    text: str, written: str, path: Path, keys: tuple[str, ...], value: Mapping[str, Any]
) -> bool:
    """Whether the new text defines the site of before with this field."""

    def parts(site: Site) -> tuple[Any, Any]:
        data = site.model_dump(mode="json")
        fields = data["product"]
        for key in keys[:-1]:
            fields = fields[key]
        return fields.pop(keys[-1]), data

    try:
        field, others = parts(loader.load_text(written, path))
        _, before = parts(loader.load_text(text, path))
    except DefinitionError:
        return False
    return bool(
        others == before and field == FieldSpec.model_validate(dict(value)).model_dump(mode="json")
    )
