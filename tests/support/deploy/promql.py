"""What a PromQL expression asks for: the names of its metrics, and the labels it distinguishes them
by. Not a full parser: it reads what our rules and panels are made of, and stops at what it does not
know."""

from __future__ import annotations

import re
from dataclasses import dataclass

FUNCTIONS = frozenset(
    {
        "absent",
        "avg",
        "bottomk",
        "count",
        "histogram_quantile",
        "increase",
        "max",
        "max_over_time",
        "min",
        "rate",
        "sum",
    }
    | {"topk", "vector"}
)
WORDS = frozenset({"and", "or", "unless", "by", "without", "on", "ignoring"})
TOKEN = re.compile(
    r"""\s+ | (?P<text>"(?:[^"\\]|\\.)*") | (?P<number>\d+(?:\.\d+)?) | (?P<name>[a-zA-Z_:][\w:]*) |
        (?P<range>\[[^\]]+\]) | (?P<mark>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){},])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Asked:
    metrics: frozenset[str]
    labels: frozenset[str]
    # metric, label, value: of `label="value"`
    matches: frozenset[tuple[str, str, str]]


def asked(expression: str) -> Asked:
    tokens, at = [], 0
    while at < len(expression):
        found = TOKEN.match(expression, at)
        assert found, f"not understood: {expression[at:]!r}"
        at = found.end()
        if found.lastgroup:
            tokens.append((found.lastgroup, found[0]))
    metrics: set[str] = set()
    labels: set[str] = set()
    matches: set[tuple[str, str, str]] = set()
    k, metric = 0, ""
    while k < len(tokens):
        kind, text = tokens[k]
        after = tokens[k + 1][1] if k + 1 < len(tokens) else ""
        if kind == "name" and text in WORDS:
            if after == "(" and text in ("by", "without", "on", "ignoring"):
                k += 2
                while tokens[k][1] != ")":
                    labels |= {tokens[k][1]} - {","}
                    k += 1
        elif kind == "name" and (after == "(" or text in FUNCTIONS):
            assert text in FUNCTIONS, f"unknown function {text} in {expression}"
        elif kind == "name":
            metric = text
            metrics.add(text)
        elif text == "{":
            k += 1
            while tokens[k][1] != "}":
                label, operator, value = (tokens[k + n][1] for n in range(3))
                labels.add(label)
                if operator == "=":
                    matches.add((metric, label, value.strip('"')))
                k += 3 if tokens[k + 3][1] == "}" else 4
        k += 1
    return Asked(frozenset(metrics), frozenset(labels), frozenset(matches))
