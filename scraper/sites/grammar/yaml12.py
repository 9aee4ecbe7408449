"""YAML as people mean it: 1.2's core schema over PyYAML's safe loader, with the line of every key.

`no`, `yes`, `on` and `off` stay texts (pydantic reads them as booleans where a boolean is meant),
`12:30` is no number, `2025-01-01` no date. Nothing but mappings, lists and scalars can be written;
duplicate keys are problems.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import yaml

Path = tuple[str | int, ...]
DEPTH_MAX = 40
# Aliases are counted every time they are used: a file of 1 KB can otherwise mean billions of nodes.
NODES_MAX = 50_000


class Parsed(NamedTuple):
    """`lines`: where each key or list entry stands, counted from 1. `problems`: (line,
    sentence)."""

    data: Any
    lines: dict[Path, int]
    problems: list[tuple[int, str]]


class _Loader(yaml.SafeLoader):
    """PyYAML's, without YAML 1.1's resolvers."""


_Loader.yaml_implicit_resolvers = {}

for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_first)
    )


def parse(text: str) -> Parsed:
    """Raises `yaml.YAMLError`; `sentence` explains it."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        lines: dict[Path, int] = {}
        problems: list[tuple[int, str]] = []
        data = _value(loader, root, (), lines, problems) if root is not None else None
        return Parsed(data, lines, problems)
    finally:
        loader.dispose()


def _value(
    loader: _Loader,
    node: yaml.Node,
    path: Path,
    lines: dict[Path, int],
    problems: list[tuple[int, str]],
) -> Any:
    if len(path) > DEPTH_MAX or len(lines) > NODES_MAX:
        raise yaml.MarkedYAMLError(problem="too deep or too large", problem_mark=node.start_mark)
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, path, lines, problems)
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            items.append(_value(loader, item, (*path, index), lines, problems))
        return items
    return _scalar(loader, node, problems)


def _mapping(
    loader: _Loader,
    node: yaml.MappingNode,
    path: Path,
    lines: dict[Path, int],
    problems: list[tuple[int, str]],
) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(
                (line, "a key must be a plain text (fix: quote it if it starts with { or [)")
            )
            continue
        # A key is what was written: in `map: {1: one, true: yes}` the page's texts are compared
        # with "1" and "true".
        key = key_node.value
        if key in mapping:
            dotted = ".".join(map(str, (*path, key)))
            problems.append(
                (
                    line,
                    f"{dotted}: written twice, first in line {lines[(*path, key)]} (fix: "
                    f"remove one)",
                )
            )
            continue
        lines[(*path, key)] = line
        mapping[key] = _value(loader, value_node, (*path, key), lines, problems)
    return mapping


def _scalar(loader: _Loader, node: yaml.Node, problems: list[tuple[int, str]]) -> Any:
    try:
        return loader.construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError):
        problems.append(
            (node.start_mark.line + 1, f"cannot read {str(node.value)[:60]!r} (fix: quote it)")
        )
        return str(node.value)


# Without quotes a `#` after a space begins a remark, and the value before it is cut off.
_REMARK = re.compile(r"[:,\[{] +#[\w-]")


def sentence(error: yaml.YAMLError, text: str = "") -> tuple[int, str]:
    """(line, what is wrong and how to mend it) of what was read from `text`."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = " ".join(
        str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).split()
    )
    if mark is None:
        return 1, f"YAML: {problem} (fix: save it as UTF-8 text without control characters)"
    line = mark.line + 1
    lines = text.splitlines()[: mark.line + 1]
    remark = next((number for number, one in enumerate(lines, 1) if _REMARK.search(one)), None)
    if remark is not None:
        fix = f'quote what starts with # in line {remark}, as in "#main a": it begins a remark'
        return line, f"YAML, column {mark.column + 1}: {problem} (fix: {fix})"
    fix = _mend(f"{getattr(error, 'context', '')} {problem}")
    return line, f"YAML, column {mark.column + 1}: {problem} (fix: {fix})"


def _mend(problem: str) -> str:
    if "'\\t'" in problem:
        return "indent with spaces, never with tabs"
    if "alias" in problem or "anchor" in problem:
        return 'quote a value that starts with * or &, as in schedule: "*/5 * * * *"'
    if "mapping values are not allowed" in problem:
        return 'quote a value that holds ": ", or check the indentation'
    if "escape" in problem:
        return "write regular expressions in 'single quotes', where a backslash is a backslash"
    if "cannot start any token" in problem:
        return "quote a value that starts with @, `, % or |"
    if "expected <block end>" in problem or "block mapping" in problem:
        return (
            "check the indentation: keys of one mapping start in one column; quote a value that "
            "starts with [ or {"
        )
    if "expected ',' or" in problem and "stream end" not in problem:
        return 'quote a value within [ ] or { } that holds ?, [, { or : , as in "a[href]"'
    if "quoted scalar" in problem or "end of stream" in problem or "stream end" in problem:
        return "close the quote or bracket"
    if "could not find expected ':'" in problem:
        return "a space after each colon, as in `price: .price`; check the indentation"
    return "check the indentation and the quotes"
