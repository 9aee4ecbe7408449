"""The elements or JSON objects within which a definition reads fields: a `PageItem` each. Pure.

A `PageItem` is a document: selectors see its element and the elements inside, paths its object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from selectolax.lexbor import LexborNode

from scraper.extract.bounds import ParseCost
from scraper.extract.document import Document
from scraper.extract.sources import compile_source
from scraper.extract.structured import jsonld
from scraper.extract.structured.jsonld_blocks import load_json
from scraper.extract.text import Element
from scraper.rules.decoding import Decoded
from scraper.sites.grammar import selectors
from scraper.sites.grammar.css import parse_css
from scraper.sites.grammar.sources import SCOPES, Source, holds_json

# The maximum length of a text that is read as JSON.
TEXT_MAX = 5_000_000


class PageItem(Document):
    """A part of a page. What is not in the part, such as the base of links, comes from the page."""

    def __init__(self, page: Document, part: Element | dict[str, Any]) -> None:
        self._whole = page
        self.page = page.page
        self.budget = page.budget
        self._isolated = page._isolated  # noqa: SLF001
        self.url = page.url
        self.page_url = page.page_url
        self._parses_in_thread = False
        self._by_xpath, self._by_css, self._captured, self._parsed = {}, {}, {}, {}
        if isinstance(part, dict):
            self.value = part
        else:
            # Selectors use the part as they use a whole page, through lexbor or lxml.
            name = "dom" if isinstance(part, LexborNode) else "root"
            self._parsed[name] = part

    @property
    def decoded(self) -> Decoded:
        return self._whole.decoded

    @property
    def base(self) -> str:
        return self._whole.base

    @property
    def _parse_cost(self) -> ParseCost:
        return self._whole._parse_cost  # noqa: SLF001


class MatchedItems(NamedTuple):
    """The first matching items, and the number of all that match."""

    items: list[PageItem]
    matched: int


Parts = Callable[[Document], Iterator[Any]]


def compile_scope(source: Source, most: int) -> Callable[[Document], MatchedItems]:
    """Compiles a scope: a function that returns up to `most` items. It raises the same errors as
    that of `compile_source`."""
    parts = _compile_parts(source)

    def read_items(document: Document) -> MatchedItems:
        matched = list(islice(parts(document), most * 10))
        return MatchedItems([PageItem(document, part) for part in matched[:most]], len(matched))

    return read_items


def _compile_parts(source: Source) -> Parts:
    if source.jsonld is not None:
        parsed = selectors.parse_jsonld_objects(source.jsonld)
        return lambda document: jsonld.find_objects(document.jsonld, parsed)
    if source.microdata is not None:
        parsed = selectors.parse_jsonld_objects(source.microdata)
        return lambda document: jsonld.find_objects(document.microdata, parsed)
    if source.state is not None:
        steps = selectors.parse_json(source.state)
        return lambda document: _find_in_first(document.state, steps)
    if source.path is not None and all(getattr(source, key) is None for key in SCOPES):
        steps = selectors.parse_json(source.path)
        return lambda document: jsonld.find_objects_at(document.value, steps)
    if source.response is not None:
        steps = selectors.parse_json(source.path or "")
        name = source.response
        return lambda document: jsonld.find_objects_at(document.captured_json(name), steps)
    if holds_json(source):
        return _compile_text_parts(source)
    if source.css is not None:
        selector = parse_css(source.css)
        return lambda document: iter(document.css(selector))
    xpath = selectors.compile_xpath(source.xpath or "")
    return lambda document: _keep_elements(document.xpath(xpath))


def _find_in_first(documents: list[Any], steps: jsonld.Steps) -> Iterator[dict[str, Any]]:
    """Yields the objects at a path of the first document that has any."""
    for document in documents:
        empty = True
        for item in jsonld.find_objects_at(document, steps):
            empty = False
            yield item
        if not empty:
            return


def _compile_text_parts(source: Source) -> Parts:
    """Compiles a scope of the objects in the JSON of a text or an attribute."""
    texts = compile_source(Source.model_construct(css=source.css, xpath=source.xpath))
    steps = selectors.parse_json(source.path) if source.path is not None else ()

    def read_parts(document: Document) -> Iterator[dict[str, Any]]:
        for text in texts(document, True):
            document.budget.check("JSON in its texts")
            if len(text) <= TEXT_MAX:
                yield from jsonld.find_objects_at(load_json(text), steps)

    return read_parts


def _keep_elements(matches: Any) -> Iterator[Element]:
    """Yields the elements among the matches, without comments and texts."""
    for match in matches if isinstance(matches, list) else ():
        if isinstance(getattr(match, "tag", None), str):
            yield match
