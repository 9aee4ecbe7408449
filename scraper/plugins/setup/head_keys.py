"""Sets the keys of a form in a definition's text, and leaves all else, comments too. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from scraper.errors import ConfigError
from scraper.sites.grammar import yaml12

# The keys of the form, in the order in which they are added.
KEYS = ("rate", "schedule", "timezone", "queue", "tags")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(/[A-Za-z0-9_+-]+)*|\d+/[a-z]+").fullmatch
# What ends a line of YAML.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]").search
_MEANS_MORE = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def read_keys(text: str) -> dict[str, str]:
    """Returns the form's values in a definition; none of a text that is not YAML."""
    try:
        data = yaml12.parse(text).data
    except (yaml.YAMLError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    values = {name: data[name] for name in ("name", *KEYS) if data.get(name) is not None}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in values.items()
    }


def set_keys(text: str, values: Mapping[str, str]) -> str:
    """Returns the definition with these values; an empty value removes its key. Raises
    `ConfigError` if the text does not allow that.

    >>> set_keys("name: a\\nrate: 4/s   # polite\\n", {"rate": "2/s", "tags": "new, b"})
    'name: a\\ntags: [new, b]\\nrate: 2/s   # polite\\n'
    """
    for name, value in values.items():
        text = _set_key(text, name, value)
    written = read_keys(text)
    for name, value in values.items():
        words = ", ".join(_split_tags(value)) if name == "tags" else value
        if written.get(name, "") != words:
            raise ConfigError(f"{name} cannot be set in this text (fix: write it there)")
    return text


def _set_key(text: str, name: str, value: str) -> str:
    root = _read_root(text)
    written = _write_value(name, value)
    nodes = {key.value: (key, node) for key, node in root.value}
    if name not in nodes:
        return text if not written else _add_line(text, root, nodes, f"{name}: {written}\n")
    key, node = nodes[name]
    start, end = node.start_mark.index, yaml12.find_end(text, node)
    line = key.start_mark.index - key.start_mark.column
    first = start - node.start_mark.column
    if written and line == first and end > start:
        return text[:start] + written + text[end:]
    line_end = _LINE_END(text, end)
    behind = line_end.end() if line_end else len(text)
    if not written:
        return text[:line] + text[behind:]
    colon = text.index(":", key.end_mark.index) + 1
    if end <= start:
        return f"{text[:colon]} {written}{text[colon:]}"
    # The value begins below its key.
    return f"{text[:colon]} {written}{text[colon:first]}{text[behind:]}"


def _add_line(text: str, root: yaml.MappingNode, nodes: Mapping[str, Any], line: str) -> str:
    """Adds a line below `name:`, or else above the first key."""
    lines = text.splitlines(keepends=True)
    at = root.start_mark.line
    if "name" in nodes:
        at = nodes["name"][1].end_mark.line + 1
    if at > 0 and not lines[at - 1].endswith("\n"):
        lines[at - 1] += "\n"
    return "".join([*lines[:at], line, *lines[at:]])


def _read_root(text: str) -> yaml.MappingNode:
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        raise ConfigError("the text is not YAML (fix: see its problems)") from None
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise ConfigError("the text has no keys (fix: start with `name: my-shop`)")
    return root


def _write_value(name: str, value: str) -> str:
    if name == "tags":
        tags = _split_tags(value)
        return f"[{', '.join(map(_write_text, tags))}]" if tags else ""
    return _write_text(value) if value else ""


def _split_tags(value: str) -> list[str]:
    return [tag for tag in re.split(r"[\s,]+", value) if tag]


def _write_text(text: str) -> str:
    if _BARE(text) and text.lower() not in _MEANS_MORE:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
