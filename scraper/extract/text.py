"""The text that a reader sees of an element: without scripts, and with a space between blocks, so
that two paragraphs do not run together. Elements are lexbor's (CSS) or lxml's (XPath)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import repeat
from typing import TypeAlias

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.extract.prices.money import mark_former

BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset",
    "figcaption", "figure",
    "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol",
    "option", "p",
    "pre", "section", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
})  # fmt: skip
_HIDDEN = frozenset({"script", "style", "template", "noscript"})
_STRUCK = frozenset({"del", "s", "strike"})
_STRUCK_CSS = "del, s, strike, [style*='line-through'], .line-through"
# Shorter texts have no label and no second amount.
SPOKEN_LEAST = 16
_HIDDEN_OR_STRUCK = _HIDDEN | _STRUCK

_TAG = re.compile(r"</(?:p|div|ul|ol|li|strong|b|em|i|span|h[1-6]|a|table)>|<br\s*/?>", re.I).search
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,30});")
# Marks an element that holds exactly two digits; after a digit they are cents.
CENTS = "\x00"
_CENTS = re.compile(r"(?:(\.\d{3})|(?<=\d)(?<![.,]\d\d))\x00(?=\d\d(?!\d))")

Element: TypeAlias = "LexborNode | etree._Element"  # noqa: SLF001


def price_text(element: Element) -> str:
    """Returns the text without crossed-out parts, or with them if nothing else remains. Separates
    cents in an element of their own from the digits before."""
    text = "" if element.tag in _STRUCK else whole_text(element, _HIDDEN_OR_STRUCK, CENTS)
    text = text if text.strip(f"{CENTS} \n\t") else whole_text(element, mark=CENTS)
    return join_cents(text).replace(CENTS, "") if CENTS in text else text


def join_cents(text: str) -> str:
    """Returns the text with a decimal mark for each `CENTS` between a whole part and its cents."""
    return _CENTS.sub(_separate_cents, text)


def current_price_text(element: Element) -> str:
    """Returns the price's text, where amounts that are also crossed out are marked as former."""
    text = price_text(element)
    if len(text) < SPOKEN_LEAST:
        return text
    struck = element.css(_STRUCK_CSS) if isinstance(element, LexborNode) else element.iter(*_STRUCK)
    former = " ".join(map(whole_text, struck))
    return mark_former(text, former) if former else text


def _separate_cents(cents: re.Match[str]) -> str:
    """Returns the decimal mark, which differs from the mark of thousands before it."""
    return f"{cents[1]}," if cents[1] else "."


def whole_text(element: Element, hidden: frozenset[str] = _HIDDEN, mark: str = "") -> str:
    """Returns the element's text without `hidden` elements. `mark` is put before two digits in an
    element of their own."""
    if isinstance(element, LexborNode):
        return _whole_text_of_lexbor(element, hidden, mark)
    return _whole_text_of_lxml(element, hidden, mark)


def strip_tags(text: str) -> str:
    """Returns the visible text of HTML, and any other text unchanged."""
    if _TAG(text) is None:
        return text
    body = LexborHTMLParser(text).body
    return whole_text(body) if body is not None else ""


def unescape_twice(text: str) -> str:
    """Returns the text without character references, which shops escape up to twice in structured
    data. They end with a semicolon: `&copy=1` is a part of an address."""
    for _ in range(2):
        if "&" not in text or ";" not in text:
            break
        text = _REFERENCE.sub(lambda reference: unescape(reference[0]), text)
    return text


def is_two_digits(text: str | None) -> bool:
    return text is not None and len(text) == 2 and text.isdecimal()


def text_nodes(elements: list[LexborNode]) -> Iterator[str]:
    """Yields the text nodes directly below each element, in document order."""
    wanted = {element.mem_id for element in elements}
    for element in elements:
        # The element is inside an earlier one, and was read with it.
        if element.mem_id not in wanted:
            continue
        levels = [(True, element.iter(include_text=True))]
        wanted.discard(element.mem_id)
        while levels:
            is_wanted, children = levels[-1]
            for child in children:
                if child.is_text_node:
                    if is_wanted and (text := child.text_content):
                        yield text
                elif wanted and child.first_child is not None:
                    within = child.mem_id in wanted
                    wanted.discard(child.mem_id)
                    levels.append((within, child.iter(include_text=True)))
                    break
            else:
                levels.pop()


def _whole_text_of_lexbor(element: LexborNode, hidden: frozenset[str], mark: str) -> str:
    child = element.first_child
    if child is None:
        return ""
    if child.is_text_node and child.next is None:
        return child.text_content or ""
    tag = element.tag
    if tag in hidden and any(not node.is_text_node for node in element.iter(include_text=True)):
        return ""
    space = " " if tag in BLOCKS else ""
    parts = [space]
    levels = [(space, element.iter(include_text=True))]
    while levels:
        space, children = levels[-1]
        for node in children:
            if node.is_text_node:
                parts.append(node.text_content or "")
                continue
            tag = node.tag
            if tag in hidden:
                continue
            inner_space = " " if tag in BLOCKS else ""
            parts.append(inner_space)
            if (first := node.first_child) is not None:
                if mark and first.is_text_node and is_two_digits(first.text_content):
                    parts.append(mark)
                levels.append((inner_space, node.iter(include_text=True)))
                break
        else:
            levels.pop()
            parts.append(space)
    return "".join(parts)


def _whole_text_of_lxml(element: etree._Element, hidden: frozenset[str], mark: str) -> str:
    tag = element.tag
    if not isinstance(tag, str):
        return ""
    if len(element) == 0:
        return element.text or ""
    # Most elements have one level, which costs a third of the walk below.
    if not mark and tag not in _HIDDEN and not any(map(len, element)):
        space = " " if tag in BLOCKS else ""
        return "".join(
            (space, element.text or "", *map(_text_with_tail, element, repeat(hidden)), space)
        )
    parts: list[str] = []
    depth = 0
    for event, node in etree.iterwalk(element, events=("start", "end", "comment", "pi")):
        tag = node.tag
        if not isinstance(tag, str):
            text = node.tail
        elif event == "start":
            depth += tag in hidden
            if tag in BLOCKS:
                parts.append(" ")
            text = node.text
            if mark and node is not element and len(node) == 0 and is_two_digits(text):
                parts.append(mark)
        else:
            depth -= tag in hidden
            if tag in BLOCKS:
                parts.append(" ")
            text = None if node is element else node.tail
        if text and not depth:
            parts.append(text)
    return "".join(parts)


def _text_with_tail(child: etree._Element, hidden: frozenset[str]) -> str:
    """Returns the text of a childless element or a comment, and the text after it."""
    tag, tail = child.tag, child.tail or ""
    if not isinstance(tag, str) or tag in hidden:
        return tail
    text = child.text or ""
    return f" {text} {tail}" if tag in BLOCKS else text + tail
