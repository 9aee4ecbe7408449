"""One fetched page, read at most once in each way it is asked for: text, tree, JSON-LD, base URL.
Never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from html import unescape
from itertools import repeat
from typing import Any

from lxml import etree

from scraper.domain import Fetched
from scraper.extract.css_index import CssIndex
from scraper.rules import urls
from scraper.rules.decoding import Decoded, decode, parse_html

JSONLD_NODES_MAX = 10_000
MENDED_MAX_CHARS = 300_000
_BASE = etree.XPath("//base/@href", smart_strings=False)
_CAPITALS = "'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'"
_JSONLD = etree.XPath(f"//script[contains(translate(@type, {_CAPITALS}), 'ld+json')]")
_HAS_JSONLD = re.compile(rb"ld\+json", re.IGNORECASE).search
_WRAPPER = re.compile(
    r"(?:<!--|-->|(?://|/\*)?[ \t]{0,9}(?:<!\[CDATA\[|\]\]>)[ \t]{0,9}(?:\*/)?|;)"
).match
_WRAPPERS_MAX = 5
# A comma before the end of an object or a list; or a text, which may hold one, to its end. Nothing
# is looked at twice, however it is written.
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|,(?=\s{0,1000}[}\]])', re.DOTALL)
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset",
    "figcaption", "figure",
    "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol",
    "option", "p",
    "pre", "section", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
})  # fmt: skip
_HIDDEN = frozenset({"script", "style", "template", "noscript"})
_STRUCK = frozenset({"del", "s", "strike"})
_HIDDEN_OR_STRUCK = _HIDDEN | _STRUCK


class Document:
    """The page as selectors see it. `url` is final, `page_url` the one the frontier has."""

    def __init__(self, page: Fetched, page_url: str) -> None:
        self.page = page
        self.url = page.url
        self.page_url = page_url
        self._found: dict[etree.XPath, Any] = {}
        self._captured: dict[str, list[Any]] = {}

    def find(self, xpath: etree.XPath) -> Any:
        """What the XPath gives; two fields with one selector pay once."""
        result = self._found.get(xpath)
        if result is None:
            result = self._found[xpath] = xpath(self.root)
        return result

    @cached_property
    def decoded(self) -> Decoded:
        return decode(self.page.body, self.page.headers.get("content-type"))

    @property
    def text(self) -> str:
        """The page's source, decoded."""
        return self.decoded.text

    @cached_property
    def root(self) -> etree._Element:
        return parse_html(self.decoded.utf8)

    @cached_property
    def index(self) -> CssIndex:
        return CssIndex(self.root)

    def parse(self) -> None:
        """Reads the tree now."""
        self.root  # noqa: B018

    @cached_property
    def base(self) -> str:
        """What relative links are relative to: <base href>, else the final URL."""
        if b"<base" not in self.decoded.utf8.lower():
            return self.url
        hrefs = _BASE(self.root)
        return (
            isinstance(hrefs, list) and hrefs and urls.clean(str(hrefs[0]), self.url, _KEEP_ALL)
        ) or self.url

    @cached_property
    def jsonld(self) -> list[dict[str, Any]]:
        """Every JSON-LD object of the page, outer ones before the ones inside them."""
        source = self.decoded.utf8
        if b"ld+json" not in source and _HAS_JSONLD(source) is None:
            return []
        blocks = []
        for script in _elements(_JSONLD(self.root)):
            blocks.append(_loaded(script.text or ""))
        level: list[Any] = blocks
        nodes: list[dict[str, Any]] = []
        while level and len(nodes) < JSONLD_NODES_MAX:
            below: list[Any] = []
            for value in _flat(level):
                nodes.append(value)
                below += [inner for inner in value.values() if isinstance(inner, dict | list)]
            level = below
        return nodes

    def captured(self, name: str) -> list[Any]:
        """The JSON answers that a browser captured under that name, in the order in which they
        came."""
        answers = self._captured.get(name)
        if answers is None:
            answers = self._captured[name] = [
                _loaded(decode(body, None).text) for body in self.page.captured.get(name, ())
            ]
        return answers


_KEEP_ALL = urls.UrlRules(keep=("*",))


def unstruck_text(element: etree._Element) -> str:
    """As `whole_text`, without what is crossed out; all of it where all is."""
    text = "" if element.tag in _STRUCK else whole_text(element, _HIDDEN_OR_STRUCK)
    return text if text.strip() else whole_text(element)


def whole_text(element: etree._Element, hidden: frozenset[str] = _HIDDEN) -> str:
    """The text a reader sees: without scripts, and with a space between blocks, so that two
    paragraphs stay two words. `hidden` are the elements that are left out."""
    tag = element.tag
    if not isinstance(tag, str):
        return ""
    if len(element) == 0:
        return element.text or ""
    # One level is the usual, and costs a third of what walking does.
    if tag not in _HIDDEN and not any(map(len, element)):
        space = " " if tag in _BLOCKS else ""
        return "".join(
            (space, element.text or "", *map(_with_tail, element, repeat(hidden)), space)
        )
    parts: list[str] = []
    depth = 0
    for event, node in etree.iterwalk(element, events=("start", "end", "comment", "pi")):
        tag = node.tag
        if not isinstance(tag, str):
            text = node.tail
        elif event == "start":
            depth += tag in hidden
            if tag in _BLOCKS:
                parts.append(" ")
            text = node.text
        else:
            depth -= tag in hidden
            if tag in _BLOCKS:
                parts.append(" ")
            text = None if node is element else node.tail
        if text and not depth:
            parts.append(text)
    return "".join(parts)


def _with_tail(child: etree._Element, hidden: frozenset[str]) -> str:
    """Of an element without children, or a comment: its text, and what follows it."""
    tag, tail = child.tag, child.tail or ""
    if not isinstance(tag, str) or tag in hidden:
        return tail
    text = child.text or ""
    return f" {text} {tail}" if tag in _BLOCKS else text + tail


def _elements(found: Any) -> list[etree._Element]:
    return found if isinstance(found, list) else []


def _flat(values: list[Any]) -> Iterator[dict[str, Any]]:
    """The objects among `values`, lists and @graph opened in place."""
    for value in values:
        if isinstance(value, dict):
            graph = value.get("@graph")
            if isinstance(graph, list) and "@type" not in value:
                yield from (node for node in graph if isinstance(node, dict))
            else:
                yield value
        elif isinstance(value, list):
            yield from (node for node in value if isinstance(node, dict))


def _loaded(text: str) -> Any:
    """The block's JSON; None where it is none. Numbers stay text, so that 19.90 keeps its zero and
    a long SKU its digits."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        return _mended(text)


def _mended(text: str) -> Any:
    """As shops write it: within comments, with references to characters, commas too many, or one
    object after the other. None for what is longer than people write."""
    if len(text) > MENDED_MAX_CHARS:
        return None
    if "&quot;" in text and '"' not in text:
        text = unescape(text)
    text = text.lstrip()
    for _ in range(_WRAPPERS_MAX):
        wrapper = _WRAPPER(text)
        if wrapper is None:
            break
        text = text[wrapper.end() :].lstrip()
    text = _TRAILING_COMMA.sub(r"\1", text)
    values: list[Any] = []
    at = 0
    while at < len(text) and len(values) < JSONLD_NODES_MAX:
        try:
            value, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values.append(value)
        behind = _NEXT(text, end)
        at = behind.start() if behind is not None else len(text)
    return values[0] if len(values) == 1 else values or None


def _number(text: str) -> str:
    if "e" not in text and "E" not in text:
        return text
    number = Decimal(text)
    return format(number, "f") if abs(number.adjusted()) <= 40 else ""


# Where the next object or list begins.
_NEXT = re.compile(r"[{\[]").search
# Not strict: shops leave line breaks inside strings, which JSON forbids and browsers' parsers alone
# would notice.
_decoder = json.JSONDecoder(
    parse_float=_number, parse_int=_number, parse_constant=lambda _: None, strict=False
)
