"""Reads YAML 1.2's core schema with PyYAML's safe loader, and keeps the line of every key.

`no`, `yes`, `on` and `off` stay texts (pydantic reads them as booleans where it expects some), as
do `12:30` and `2025-01-01`. Only mappings, lists and scalars are allowed; duplicate keys are
problems."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import yaml

Path = tuple[str | int, ...]
DEPTH_MAX = 40
# Every use of an alias counts: a file of 1 KB can otherwise expand to billions of nodes.
NODES_MAX = 50_000


class Parsed(NamedTuple):
    """`lines`: the line of each key and list entry, counted from 1. `problems`: (line,
    sentence)."""

    data: Any
    lines: dict[Path, int]
    problems: list[tuple[int, str]]


class _Loader(yaml.SafeLoader):
    """PyYAML's loader without YAML 1.1's resolvers."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lines: dict[Path, int] = {}
        self.problems: list[tuple[int, str]] = []

    def read_node(self, node: yaml.Node, path: Path) -> Any:
        if len(path) > DEPTH_MAX or len(self.lines) > NODES_MAX:
            problem = "too deep or too large"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            entries = []
            for index, entry in enumerate(node.value):
                self.lines[(*path, index)] = entry.start_mark.line + 1
                entries.append(self.read_node(entry, (*path, index)))
            return entries
        return self._read_scalar(node)

    def _read_mapping(self, node: yaml.MappingNode, path: Path) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                fix = "quote it if it starts with { or ["
                self.problems.append((line, f"a key must be a plain text (fix: {fix})"))
                continue
            # Keys stay texts: in `map: {1: one, true: yes}` the page's texts are compared with "1"
            # and "true".
            key = key_node.value
            if key in mapping:
                dotted, first = ".".join(map(str, (*path, key))), self.lines[(*path, key)]
                sentence = f"{dotted}: written twice, first in line {first} (fix: remove one)"
                self.problems.append((line, sentence))
                continue
            self.lines[(*path, key)] = line
            mapping[key] = self.read_node(value_node, (*path, key))
        return mapping

    def _read_scalar(self, node: yaml.Node) -> Any:
        try:
            return self.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError):
            sentence = f"cannot read {str(node.value)[:60]!r} (fix: quote it)"
            self.problems.append((node.start_mark.line + 1, sentence))
            return str(node.value)


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


def _construct_int(_: _Loader, node: yaml.ScalarNode) -> int:
    # PyYAML reads 010 as an octal number, as YAML 1.1 does.
    return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def parse(text: str) -> Parsed:
    """Raises `yaml.YAMLError`, which `explain_error` explains."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        data = loader.read_node(root, ()) if root is not None else None
        return Parsed(data, loader.lines, loader.problems)
    finally:
        loader.dispose()


def find_end(text: str, node: yaml.Node) -> int:
    """Returns the index after the last character of a node of this text. YAML itself ends a block
    where the next node begins, behind the comments in between."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return find_end(text, last[1] if isinstance(last, tuple) else last)
    index: int = node.end_mark.index
    while text[index - 1].isspace():
        index -= 1
    return index


# Without quotes, a `#` after a space starts a comment and cuts off the value.
_COMMENT = re.compile(r"[:,\[{] +#[\w-]")
# The first row with a part of PyYAML's message gives the fix.
_FIXES = (
    (("'\\t'",), "indent with spaces, never with tabs"),
    (("alias", "anchor"), 'quote a value that starts with * or &, as in schedule: "*/5 * * * *"'),
    (
        ("mapping values are not allowed",),
        'quote a value that holds ": ", or check the indentation',
    ),
    (("escape",), "write regular expressions in 'single quotes', where a backslash is a backslash"),
    (("cannot start any token",), "quote a value that starts with @, `, % or |"),
    (
        ("expected <block end>", "block mapping"),
        "check the indentation: keys of one mapping start in one column; quote a value that starts "
        "with [ or {",
    ),
    (("stream end", "quoted scalar", "end of stream"), "close the quote or bracket"),
    (
        ("expected ',' or",),
        'quote a value within [ ] or { } that holds ?, [, { or : , as in "a[href]"',
    ),
    (
        ("could not find expected ':'",),
        "a space after each colon, as in `price: .price`; check the indentation",
    ),
    (("",), "check the indentation and the quotes"),
)


def explain_error(error: yaml.YAMLError, text: str = "") -> tuple[int, str]:
    """Returns the line of an error in `text`, and a sentence with a fix."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = " ".join(
        str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).split()
    )
    if mark is None:
        return 1, f"YAML: {problem} (fix: save it as UTF-8 text without control characters)"
    lines = enumerate(text.splitlines()[: mark.line + 1], 1)
    comment = next((number for number, line in lines if _COMMENT.search(line)), None)
    if comment is not None:
        fix = f'quote what starts with # in line {comment}, as in "#main a": it starts a comment'
    else:
        message = f"{getattr(error, 'context', '')} {problem}"
        fix = next(fix for parts, fix in _FIXES if any(part in message for part in parts))
    return mark.line + 1, f"YAML, column {mark.column + 1}: {problem} (fix: {fix})"
