"""What a selector alone matches on a page, and, where it matches nothing, the nearest part of it
that does. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scraper.domain import Fetched
from scraper.extract.document import Document
from scraper.extract.sources import compile_source
from scraper.sites.grammar.fields import SOURCES, Source

_KEYED = re.compile(rf"({'|'.join(SOURCES)}):\s*(.+)", re.DOTALL)
# Where a CSS selector may be cut: before a descendant, and before a class, id or attribute.
_CUTS = re.compile(r"\s*[>+~]\s*|\s+|(?=[.#\[:])")


@dataclass(frozen=True, slots=True)
class Matches:
    url: str
    source: str
    matches: tuple[str, ...]
    nearest: str | None = None


def source_of_text(text: str) -> Source:
    """CSS; XPath where it begins as that does; or `key:value` with a source's key. Raises
    pydantic's ValidationError."""
    keyed = _KEYED.fullmatch(text)
    if keyed is not None and keyed[1] != "url":
        return Source.model_validate({keyed[1]: keyed[2]})
    key = "xpath" if text.startswith(("/", "(", "./")) else "css"
    return Source.model_validate({key: text})


def select(source: Source, page: Fetched) -> Matches:
    document = Document(page, page.url)
    matches = tuple(compile_source(source)(document, True))
    nearest = None
    if not matches and source.css is not None:
        nearest = _nearest(source.css, document)
    return Matches(page.url, source.described, matches, nearest)


def _nearest(css: str, document: Document) -> str | None:
    """The longest beginning of the selector that matches something."""
    for end in sorted({match.start() for match in _CUTS.finditer(css)}, reverse=True):
        try:
            shorter = Source.model_validate({"css": css[:end].strip()})
        except ValueError:
            continue
        if compile_source(shorter)(document, False):
            return shorter.css
    return None
