"""Compiles a definition's sources: functions from a `Document` to the cleaned, non-empty texts in
it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from lxml import etree
from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.structured import jsonld
from scraper.extract.text import Element, strip_tags, text_nodes, unescape_twice, whole_text
from scraper.rules.decoding import clean_text
from scraper.sites.grammar import selectors
from scraper.sites.grammar.css import CssSelector, parse_css
from scraper.sites.grammar.sources import STRUCTURED, Source

VALUES_MAX = 1000
# The errors of a selector that takes too much time or memory on a page.
SELECTOR_ERRORS = (TimeoutError, etree.XPathError)
Texts = Callable[[Document, bool], list[str]]
# From an element to its text.
TextOf = Callable[[Element], str]


def explain_failure(error: Exception) -> str:
    """Returns one of `SELECTOR_ERRORS` as a sentence."""
    if isinstance(error, TimeoutError):
        return f"a regular expression took longer than {selectors.REGEX_TIMEOUT_S:g} s on this page"
    return f"XPath gave up on this page: {str(error)[:100]}"


def compile_source(source: Source, text_of: TextOf = whole_text) -> Texts:
    """Returns `read_texts(document, every)`, which returns the first text, or up to 1,000.
    `text_of` reads an element's text.

    `read_texts` raises one of `SELECTOR_ERRORS`: `TimeoutError` if a regular expression takes too
    long, `lxml.etree.XPathError` if XPath reaches its limits."""
    if source.url is not None:
        return _compile_url_regex(source.url)
    pattern = selectors.compile_regex(source.regex) if source.regex is not None else None
    structured = next((key for key in STRUCTURED if getattr(source, key) is not None), None)
    if structured is not None:
        raw = _compile_structured(structured, getattr(source, structured))
    elif source.meta is not None:
        raw = _compile_meta(source.meta)
    elif source.state is not None:
        raw = _compile_state(source.state)
    elif source.auto is not None:
        raw = _compile_auto(source.auto)
    elif source.response is not None:
        raw = _compile_response(source.response, source.path or "")
    elif source.path is not None:
        raw = _compile_path(source.path)
    elif source.css is not None or source.xpath is not None:
        raw = (
            _compile_css(source.css, text_of)
            if source.css is not None
            else _compile_xpath(selectors.compile_xpath(source.xpath or ""), text_of)
        )
    else:
        return _compile_page_regex(source.regex or "")
    if pattern is None:
        return raw
    return _pick_by_pattern(raw, pattern)


def _compile_css(css: str, text_of: TextOf) -> Texts:
    selector = parse_css(css)
    elements_wanted = selector.selects_elements

    def read_texts(document: Document, every: bool) -> list[str]:
        if not every:
            first = document.css_first(selector)
            if first is None:
                return []
            if elements_wanted:
                text = clean_text(text_of(first))
                cleaned = [text] if text else []
            else:
                cleaned = _clean_texts(_select_parts([first], selector), False, text_of)
            if cleaned:
                return cleaned
        return _clean_texts(
            _select_parts(document.css(selector), selector), every, text_of, document
        )

    return read_texts


def _select_parts(elements: list[LexborNode], selector: CssSelector) -> Iterable[str | Element]:
    """Returns the parts of the elements that the selector asks for."""
    if selector.text:
        return text_nodes(elements)
    if selector.attribute is None:
        return elements
    values = (element.attributes.get(selector.attribute) for element in elements)
    return (value for value in values if value is not None)


def _compile_xpath(xpath: etree.XPath, text_of: TextOf) -> Texts:
    def read_texts(document: Document, every: bool) -> list[str]:
        matches = document.xpath(xpath)
        if not isinstance(matches, list):
            matches = [_scalar_text(matches)]
        return _clean_texts(matches, every, text_of, document)

    return read_texts


def _compile_structured(origin: str, path: str) -> Texts:
    parsed = selectors.parse_jsonld(path)
    return lambda document, every: _clean_texts(
        map(unescape_twice, jsonld.find_texts(getattr(document, origin), parsed, every)), every
    )


def _compile_meta(name: str) -> Texts:
    lower = name.lower()
    return lambda document, every: _clean_texts(
        map(unescape_twice, document.metas.get(lower, ())), every
    )


def _compile_state(path: str) -> Texts:
    steps = selectors.parse_json(path)

    def read_texts(document: Document, every: bool) -> list[str]:
        for state in document.state:
            cleaned = _clean_texts(
                map(strip_tags, jsonld.find_texts_in_documents([state], steps)), every
            )
            if cleaned:
                return cleaned
        return []

    return read_texts


def _compile_auto(field: str) -> Texts:
    def read_texts(document: Document, every: bool) -> list[str]:
        answer = document.auto.read(field)
        return [] if answer is None else _clean_texts([answer.text], every)

    return read_texts


def _compile_response(name: str, path: str) -> Texts:
    steps = selectors.parse_json(path)
    return lambda document, every: _clean_texts(
        jsonld.find_texts_in_documents(document.captured_json(name), steps), every
    )


def _compile_path(path: str) -> Texts:
    steps = selectors.parse_json(path)
    return lambda document, every: _clean_texts(
        jsonld.find_texts_in_object(document.value, steps), every
    )


def _compile_page_regex(pattern: str) -> Texts:
    compiled = selectors.compile_regex(pattern)

    def read_texts(document: Document, every: bool) -> list[str]:
        return _clean_texts(
            selectors.find_all(compiled, document.text, VALUES_MAX if every else 1), every
        )

    return read_texts


def _compile_url_regex(pattern: str) -> Texts:
    compiled = selectors.compile_regex(pattern)

    def read_texts(document: Document, every: bool) -> list[str]:
        for url in (document.url, document.page_url):
            matches = selectors.find_first(compiled, url)
            if matches:
                return _clean_texts([matches], every)
        return []

    return read_texts


def _pick_by_pattern(raw: Texts, pattern: Any) -> Texts:
    """Searches all texts for the pattern: `::text` gives every text node, and only one holds the
    number."""

    def read_texts(document: Document, every: bool) -> list[str]:
        picked = (selectors.find_first(pattern, text) for text in raw(document, True))
        return _clean_texts((text for text in picked if text is not None), every)

    return read_texts


def _clean_texts(
    raw: Iterable[str | Element],
    every: bool,
    text_of: TextOf = whole_text,
    document: Document | None = None,
) -> list[str]:
    cleaned: list[str] = []
    for item in raw:
        # Elements may be nested, so that reading each of them is quadratic.
        if document is not None:
            document.budget.check("the texts of its elements")
        text = clean_text(item if isinstance(item, str) else text_of(item))
        if text:
            cleaned.append(text)
            if not every or len(cleaned) >= VALUES_MAX:
                break
    return cleaned


def _scalar_text(value: Any) -> str:
    """Returns an XPath string, boolean or number as text; count() and sum() give floats."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else "" if math.isnan(value) else repr(value)
    return str(value)
