"""A page as a plain list of elements and texts, for a browser to draw without the page's own
markup: no attribute, script, style or address of the shop is in it. Pure.

Elements are numbered in the order of the document, so that a number names the same element
whenever the page is read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.rules.decoding import clean_text

ELEMENTS_MAX = 10_000
TEXTS_MAX_CHARS = 400_000
TEXT_MAX_CHARS = 2000
DEPTH_MAX = 80
# What is drawn under its own name; anything else is drawn as a block or as a part of a line.
_is_drawn = re.compile(
    "h[1-6]|p|ul|ol|li|dl|dt|dd|table|thead|tbody|tfoot|tr|td|th|caption|strong|b|em|i|del|ins|s"
    "|small|sub|sup|pre|blockquote|br|hr"
).fullmatch
_is_inline = re.compile(
    "a|span|label|button|time|data|abbr|cite|code|font|u|q|mark|bdi|output|option|img|input"
).fullmatch
_is_unseen = re.compile(
    "head|script|style|template|i?frame|frameset|object|embed|applet|svg|math|canvas|audio"
    "|video|source|track|link|meta|base|param|portal|xmp|plaintext"
).fullmatch


class PageElement(NamedTuple):
    """An element, and the number of elements that it is in."""

    node: LexborNode
    depth: int


class PageText(NamedTuple):
    """A text, and the number of elements that it is in."""

    text: str
    depth: int


def walk_page(page: LexborHTMLParser) -> Iterator[PageElement | PageText]:
    """Yields what a reader sees of the page, in its order; recurses nowhere."""
    body = page.body
    node, depth = body, 0
    while node is not None:
        inner: LexborNode | None = None
        if node.is_text_node:
            text = clean_text(node.text_content or "")
            if text:
                yield PageText(text[:TEXT_MAX_CHARS], depth)
        elif node.is_element_node and not _is_unseen(_name(node)):
            yield PageElement(node, depth)
            inner = node.child
        if inner is not None:
            node, depth = inner, depth + 1
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
            if node is None or depth <= 0:
                return
        node = node.next if node is not None and depth > 0 else None


def list_elements(page: LexborHTMLParser) -> dict[str, Any]:
    """Returns `elements`, each [depth, name, number] or [depth, text], and whether the page was
    `cut`: it has more than can be shown."""
    rows: list[list[Any]] = []
    number = chars = 0
    for part in walk_page(page):
        depth = min(part.depth, DEPTH_MAX)
        if isinstance(part, PageText):
            chars += len(part.text)
            rows.append([depth, part.text])
        else:
            tag = _name(part.node)
            rows.append([depth, _choose_name(tag), number])
            number += 1
            shown = _describe_element(part.node, tag)
            if shown:
                rows.append([min(part.depth + 1, DEPTH_MAX), shown])
        if number >= ELEMENTS_MAX or chars >= TEXTS_MAX_CHARS:
            return {"elements": rows, "cut": True}
    return {"elements": rows, "cut": False}


def find_element(page: LexborHTMLParser, number: int) -> LexborNode | None:
    """Returns the element that `list_elements` numbers so."""
    nodes = (part.node for part in walk_page(page) if isinstance(part, PageElement))
    return next((node for at, node in enumerate(nodes) if at == number), None)


def _name(node: LexborNode) -> str:
    return (node.tag or "").lower()


def _choose_name(tag: str) -> str:
    if _is_drawn(tag):
        return tag
    return "span" if _is_inline(tag) else "div"


def _describe_element(node: LexborNode, tag: str) -> str:
    """Returns the words for an element that shows no text of its own."""
    if tag == "img":
        return f"[picture] {clean_text(node.attributes.get('alt') or '')[:TEXT_MAX_CHARS]}".strip()
    if tag == "input":
        return clean_text(node.attributes.get("value") or "")[:TEXT_MAX_CHARS]
    return ""
