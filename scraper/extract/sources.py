"""A source of a definition, compiled: from a `Document` to the texts it finds there, cleaned, none
of them empty."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from lxml import etree
from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.structured import jsonld
from scraper.extract.text import Element, text_nodes, whole_text, without_tags
from scraper.rules.decoding import clean_text
from scraper.sites.grammar import selectors
from scraper.sites.grammar.css import CssSelector, parse_css
from scraper.sites.grammar.sources import Source

VALUES_MAX = 1000
# What a selector raises on a page that it takes too long or too much for.
GIVES_UP = (TimeoutError, etree.XPathError)
Texts = Callable[[Document, bool], list[str]]
# From an element to its text.
TextOf = Callable[[Element], str]


def gave_up(error: Exception) -> str:
    """One of `GIVES_UP` in words."""
    if isinstance(error, TimeoutError):
        return f"a regular expression took longer than {selectors.REGEX_TIMEOUT_S:g} s on this page"
    return f"XPath gave up on this page: {str(error)[:100]}"


def compile_source(source: Source, text_of: TextOf = whole_text) -> Texts:
    """`texts(document, every)`: the first text, or every one, 1,000 at the most. `text_of` gives an
    element's.

    Raises one of `GIVES_UP`: `TimeoutError` where a regular expression takes too long,
    `lxml.etree.XPathError` where XPath meets its limits.
    """
    if source.url is not None:
        return _on_url(source.url)
    pattern = selectors.compile_regex(source.regex) if source.regex is not None else None
    if source.jsonld is not None:
        raw = _on_jsonld(source.jsonld)
    elif source.microdata is not None:
        raw = _on_microdata(source.microdata)
    elif source.rdfa is not None:
        raw = _on_rdfa(source.rdfa)
    elif source.meta is not None:
        raw = _on_meta(source.meta)
    elif source.state is not None:
        raw = _on_state(source.state)
    elif source.auto is not None:
        raw = _on_auto(source.auto)
    elif source.response is not None:
        raw = _on_response(source.response, source.path or "")
    elif source.path is not None:
        raw = _on_value(source.path)
    elif source.css is not None or source.xpath is not None:
        raw = (
            _on_css(source.css, text_of)
            if source.css is not None
            else _on_tree(selectors.compile_xpath(source.xpath or ""), text_of)
        )
    else:
        return _on_page(source.regex or "")
    if pattern is None:
        return raw
    return _within(raw, pattern)


def _on_css(css: str, text_of: TextOf) -> Texts:
    selector = parse_css(css)
    elements_wanted = selector.selects_elements

    def texts(document: Document, every: bool) -> list[str]:
        if not every:
            first = document.first(selector)
            if first is None:
                return []
            if elements_wanted:
                text = clean_text(text_of(first))
                cleaned = [text] if text else []
            else:
                cleaned = _cleaned(_parts([first], selector), False, text_of)
            if cleaned:
                return cleaned
        return _cleaned(_parts(document.css(selector), selector), every, text_of, document)

    return texts


def _parts(elements: list[LexborNode], selector: CssSelector) -> Iterable[str | Element]:
    """What the selector takes of each element."""
    if selector.text:
        return text_nodes(elements)
    if selector.attribute is None:
        return elements
    values = (element.attributes.get(selector.attribute) for element in elements)
    return (value for value in values if value is not None)


def _on_tree(xpath: etree.XPath, text_of: TextOf) -> Texts:
    def texts(document: Document, every: bool) -> list[str]:
        matches = document.xpath(xpath)
        if not isinstance(matches, list):
            matches = [_scalar(matches)]
        return _cleaned(matches, every, text_of, document)

    return texts


def _on_jsonld(path: str) -> Texts:
    parsed = selectors.parse_jsonld(path)
    return lambda document, every: _cleaned(
        jsonld.find_texts(document.jsonld, parsed, every), every
    )


def _on_microdata(path: str) -> Texts:
    parsed = selectors.parse_jsonld(path)
    return lambda document, every: _cleaned(
        jsonld.find_texts(document.microdata, parsed, every), every
    )


def _on_rdfa(path: str) -> Texts:
    parsed = selectors.parse_jsonld(path)
    return lambda document, every: _cleaned(jsonld.find_texts(document.rdfa, parsed, every), every)


def _on_meta(name: str) -> Texts:
    lower = name.lower()
    return lambda document, every: _cleaned(document.metas.get(lower, ()), every)


def _on_state(path: str) -> Texts:
    steps = selectors.parse_json(path)

    def texts(document: Document, every: bool) -> list[str]:
        for state in document.state:
            cleaned = _cleaned(
                map(without_tags, jsonld.find_texts_in_documents([state], steps)), every
            )
            if cleaned:
                return cleaned
        return []

    return texts


def _on_auto(field: str) -> Texts:
    def texts(document: Document, every: bool) -> list[str]:
        answer = document.auto.read(field)
        return [] if answer is None else _cleaned([answer.text], every)

    return texts


def _on_response(name: str, path: str) -> Texts:
    steps = selectors.parse_json(path)
    return lambda document, every: _cleaned(
        jsonld.find_texts_in_documents(document.captured(name), steps), every
    )


def _on_value(path: str) -> Texts:
    steps = selectors.parse_json(path)
    return lambda document, every: _cleaned(
        jsonld.find_texts_in_object(document.value, steps), every
    )


def _on_page(pattern: str) -> Texts:
    compiled = selectors.compile_regex(pattern)

    def texts(document: Document, every: bool) -> list[str]:
        return _cleaned(
            selectors.find_all(compiled, document.text, VALUES_MAX if every else 1), every
        )

    return texts


def _on_url(pattern: str) -> Texts:
    compiled = selectors.compile_regex(pattern)

    def texts(document: Document, every: bool) -> list[str]:
        for url in (document.url, document.page_url):
            matches = selectors.find(compiled, url)
            if matches:
                return _cleaned([matches], every)
        return []

    return texts


def _within(raw: Texts, pattern: Any) -> Texts:
    """Of all texts found the ones the pattern matches: `::text` gives every text node, and the
    number is in one."""

    def texts(document: Document, every: bool) -> list[str]:
        picked = (selectors.find(pattern, text) for text in raw(document, True))
        return _cleaned((text for text in picked if text is not None), every)

    return texts


def _cleaned(
    raw: Iterable[str | Element],
    every: bool,
    text_of: TextOf = whole_text,
    document: Document | None = None,
) -> list[str]:
    cleaned: list[str] = []
    for item in raw:
        # Each of the elements may hold all the others.
        if document is not None:
            document.patience.check("the texts of its elements")
        text = clean_text(item if isinstance(item, str) else text_of(item))
        if text:
            cleaned.append(text)
            if not every or len(cleaned) >= VALUES_MAX:
                break
    return cleaned


def _scalar(value: Any) -> str:
    """XPath's own string, boolean or number: count() and sum() give floats."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else "" if math.isnan(value) else repr(value)
    return str(value)
