"""Marks in prose: words and turns that plain English has a better word for.

The patterns are Vale styles (`.vale/Plain/*.yml`), so that an editor with Vale shows the same ones.
Vale itself does not run here: its package on PyPI downloads a program when it first runs, which a
build without that access cannot. Prose is comments, docstrings, messages in the code (strings of
several words that are neither SQL nor Lua), comments of `.sql` and `.lua` files, and Markdown.
Quoted code (`between backticks`, fenced blocks) is not prose.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from tools.house.modules import PACKAGE, ROOT, Module

STYLE = ROOT / ".vale" / "Plain"
PAGES = ("*.md", "docs/**/*.md", ".github/**/*.md")
# Blank out what is quoted, and keep the lines.
FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4,}\S.*\n?)+")
QUOTED = re.compile(r"(`+)(?!`).+?\1|https?://\S+|(?<=\]\()[^)\s]+", re.DOTALL)
DIRECTIVE = re.compile(r"(?:fmt|type|noqa|ruff|mypy|pragma)\b[^#]*|!.*")
COMMENT = re.compile(r"(?:^|\s)#\s(.*)")
NOT_PROSE = re.compile(
    r"\b(?:SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|JOIN|VALUES|CREATE|ALTER|AND NOT|CASE WHEN)\b"
    r"|redis\.call|\bcount\(\*\)|\b(?:IS|NOT) NULL\b|\blocal \w+ ="
)
# A docstring that opens with one of these does not say what its function does or gives.
WEAK_OPENINGS = {
    *("What", "Whether", "How", "Where", "Why", "Which", "When", "Who", "Whom", "Whose", "Whoever"),
    *("Nobody", "Somebody", "One", "Those", "That", "It", "Its", "So", "And", "Another", "Not"),
    *("Of", "By", "On", "From", "At", "In", "To", "With", "Without", "Around", "As", "For"),
    *("Until", "Before", "After", "Once"),
}


@dataclass(frozen=True)
class Prose:
    """A text with the line of its file at which it begins."""

    name: str
    line: int
    text: str

    @property
    def words(self) -> int:
        return len(self.text.split())


@dataclass(frozen=True)
class Style:
    level: str
    message: str
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Mark:
    name: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.name}:{self.line}: {self.message}"


@cache
def styles(level: str) -> tuple[Style, ...]:
    """Reads the styles of one level: `error` for marks, `suggestion` for advice."""
    documents = [yaml.safe_load(path.read_text()) for path in sorted(STYLE.glob("*.yml"))]
    return tuple(
        Style(level, document["message"], compiled(document["tokens"]))
        for document in documents
        if document["level"] == level
    )


def compiled(tokens: list[str]) -> re.Pattern[str]:
    """Joins tokens as Vale's `existence` does; a blank in one also matches a line's end."""
    alternatives = "|".join(token.replace(" ", r"\s+") for token in tokens)
    return re.compile(rf"\b(?:{alternatives})\b", re.IGNORECASE)


def marks(texts: Iterable[Prose], level: str = "error") -> Iterator[Mark]:
    for prose in texts:
        for style in styles(level):
            for match in style.pattern.finditer(prose.text):
                line = prose.line + prose.text.count("\n", 0, match.start())
                yield Mark(prose.name, line, style.message % " ".join(match[0].split()))


def unquoted(text: str) -> str:
    """Blanks out quoted code and addresses; lines stay where they are."""
    return QUOTED.sub(lambda match: re.sub(r"\S", " ", match[0]), text)


def documentation(module: Module) -> Iterator[Prose]:
    """Yields the docstrings and comments of a module."""
    for constant in module.docstrings:
        yield Prose(module.name, constant.lineno, unquoted(str(constant.value)))
    for line, text in comments(module.tokens):
        yield Prose(module.name, line, unquoted(text))


def comments(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[int, str]]:
    """Yields comments; those that follow each other on lines of their own are one."""
    first, lines = 0, list[str]()
    for token in tokens:
        if token.type != tokenize.COMMENT:
            continue
        text = DIRECTIVE.sub("", token.string.lstrip("#").strip())
        alone = token.line.lstrip().startswith("#")
        if not (alone and lines and token.start[0] == first + len(lines)):
            if lines:
                yield first, "\n".join(lines)
            first, lines = token.start[0], []
        lines.append(text)
    if lines:
        yield first, "\n".join(lines)


def comments_by_line(module: Module) -> Iterator[tuple[int, str]]:
    """Yields comments without tokenizing, where a rough figure is enough: part of a string with
    such a sign in it counts, too."""
    for line, text in enumerate(module.lines, 1):
        if match := COMMENT.search(text):
            yield line, DIRECTIVE.sub("", match[1])


def helper_prose(modules: Iterable[Module]) -> Iterator[Prose]:
    """Yields docstrings and comments of tests and tools, and what the names of tests say."""
    for module in modules:
        for constant in module.docstrings:
            yield Prose(module.name, constant.lineno, unquoted(str(constant.value)))
        for line, text in comments_by_line(module):
            yield Prose(module.name, line, unquoted(text))
        for function in module.functions:
            if function.name.startswith("test_"):
                yield Prose(module.name, function.lineno, function.name[5:].replace("_", " "))


def messages(module: Module) -> Iterator[Prose]:
    """Yields strings of three words and more: log events, errors, help texts, screens."""
    skipped = {id(constant) for constant in module.docstrings}
    for node in module.nodes:
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in skipped:
                continue
            text = node.value
        else:
            continue
        if len(text.split()) > 2 and not NOT_PROSE.search(text):
            yield Prose(module.name, node.lineno, unquoted(text))


def statements(folder: Path) -> Iterator[Prose]:
    """Yields the comments of `.sql` and `.lua` files."""
    for path in sorted([*folder.rglob("*.sql"), *folder.rglob("*.lua")]):
        lines = path.read_text().splitlines()
        text = "\n".join(line.partition("--")[2] for line in lines)
        yield Prose(str(path.relative_to(ROOT)), 1, unquoted(text))


def pages() -> Iterator[Prose]:
    """Yields the Markdown of the documentation, without its code."""
    for path in sorted({path for pattern in PAGES for path in ROOT.glob(pattern)}):
        text = path.read_text()
        for code in (FENCED, INDENTED):
            text = code.sub(lambda match: re.sub(r"\S", " ", match[0]), text)
        yield Prose(str(path.relative_to(ROOT)), 1, unquoted(text))


def code_prose(modules: Iterable[Module]) -> list[Prose]:
    return [
        *(prose for module in modules for prose in documentation(module)),
        *statements(PACKAGE),
    ]


def per_thousand(count: int, texts: Iterable[Prose]) -> float:
    words = sum(prose.words for prose in texts)
    return 1000 * count / max(words, 1)


def weak_openings(modules: Iterable[Module]) -> tuple[list[str], int]:
    """Returns functions whose docstring opens with neither verb nor noun, and all with one."""
    places = [
        (docstring.split(maxsplit=1)[0], f"{module.name}:{function.lineno} {docstring[:60]!r}")
        for module in modules
        for function in module.functions
        if (docstring := ast.get_docstring(function))
    ]
    return [place for opening, place in places if opening in WEAK_OPENINGS], len(places)
