"""Rewrites one field in a definition's text; every other line stays as it is, comments too.
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


def rewrite_field(
    text: str, path: Path, name: str, value: Mapping[str, Any], *, inner: bool = False
) -> str:
    """Returns the text with the new field, and checks that the rest of the site stays the same.

    `inner`: a field of the site's items. Raises `ScraperError` if the field cannot be rewritten.
    """
    keys = (*(_ITEMS if inner else _FIELDS), name)
    pair = _find_field(yaml.compose(text, Loader=yaml.SafeLoader), "product", *keys)
    if pair is not None:
        key, node = pair
        before = read_written_field(text, name, inner=inner)
        by_keys = _replace_keys(text, before, node, value)
        for written in (by_keys, _replace_field(text, key, node, value)):
            if written is not None and _changes_only(text, written, path, keys, value):
                return written
    raise ScraperError(
        f"{path}: product.{'.'.join(keys)} cannot be rewritten by itself (fix: write it there as "
        f"{write_inline(value)})"
    )


def add_field(text: str, path: Path, name: str, value: Mapping[str, Any]) -> str:
    """Returns the text with one more field, likewise checked. Raises `ScraperError`."""
    pair = _find_field(yaml.compose(text, Loader=yaml.SafeLoader), "product", *_FIELDS)
    if pair is not None:
        _, node = pair
        entry = f"{name}: {write_inline(value)}"
        if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
            end = yaml12.find_end(text, node)
            # A comment behind the last field stays with it.
            end = text.find("\n", end) if "\n" in text[end:] else len(text)
            written = f"{text[:end]}\n{' ' * node.start_mark.column}{entry}{text[end:]}"
            if _changes_only(text, written, path, (*_FIELDS, name), value):
                return written
    raise ScraperError(
        f"{path}: {name} cannot be added by itself (fix: write it below product.fields as "
        f"{write_inline(value)})"
    )


def read_written_field(text: str, name: str, *, inner: bool = False) -> Any:
    """Returns the field as the text has it, or None if it has none."""
    fields = yaml12.parse(text).data["product"]
    for key in _ITEMS if inner else _FIELDS:
        fields = fields.get(key) if isinstance(fields, dict) else None
    return fields.get(name) if isinstance(fields, dict) else None


def _find_field(node: yaml.Node | None, *names: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Returns the nodes of the field's key and of its value."""
    pair = None
    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        pair = next((pair for pair in node.value if pair[0].value == name), None)
        node = pair[1] if pair is not None else None
    return pair


def _replace_keys(text: str, before: Any, node: yaml.Node, value: Mapping[str, Any]) -> str | None:
    """Replaces only the keys that differ. Returns None unless each key has lines of its own."""
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        return None
    indent = " " * node.start_mark.column
    due = {key: option for key, option in value.items() if before.get(key) != option}
    edits: list[tuple[int, int, str]] = []
    for key, inner in node.value:
        start, end = key.start_mark.index, yaml12.find_end(text, inner)
        if key.value in due:
            edits.append((start, end, _write_entry(key.value, due.pop(key.value))))
        elif key.value not in value:
            edits.append((start, end, ""))
    # New keys take the place of the first key that goes; the others go with their lines.
    for at, (start, end, entry) in enumerate(edits):
        if not entry and due:
            edits[at] = start, end, f"\n{indent}".join(_write_entry(*pair) for pair in due.items())
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


def _replace_field(text: str, key: yaml.Node, node: yaml.Node, value: Mapping[str, Any]) -> str:
    """Replaces the whole field by one line."""
    short = isinstance(node, yaml.ScalarNode) and list(value) == ["css"]
    entry = write_inline(value["css"] if short else value)
    return f"{text[: key.end_mark.index]}: {entry}{text[yaml12.find_end(text, node) :]}"


def _write_entry(key: str, value: Any) -> str:
    return f"{key}: {write_inline(value)}"


def _changes_only(
    text: str, written: str, path: Path, keys: tuple[str, ...], value: Mapping[str, Any]
) -> bool:
    """Returns whether the new text defines the same site, except for the field."""

    def split_site(site: Site) -> tuple[Any, Any]:
        data = site.model_dump(mode="json")
        fields = data["product"]
        for key in keys[:-1]:
            fields = fields[key]
        return fields.pop(keys[-1], None), data

    try:
        field, others = split_site(loader.load_text(written, path))
        _, before = split_site(loader.load_text(text, path))
    except DefinitionError:
        return False
    return bool(
        others == before and field == FieldSpec.model_validate(dict(value)).model_dump(mode="json")
    )
