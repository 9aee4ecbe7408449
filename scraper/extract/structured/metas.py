"""A page's <meta> tags by name: OpenGraph, product:*, and the older ones; its canonical link.
Pure."""

from __future__ import annotations

import re
from html import unescape

from selectolax.lexbor import LexborHTMLParser

METAS_MAX = 1000
# A tag that never ends is left at the next one: searching to the page's end each time is quadratic.
_CANONICAL = re.compile(
    rb"""<link(?=[^<>]*\srel\s*=\s*["']?canonical\b)[^<>]*?"""
    rb"""\shref\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)'|([^\s"'<>]+))""",
    re.I,
).search


def read_metas(dom: LexborHTMLParser) -> dict[str, list[str]]:
    """Returns the contents of each `property`, `name` or `itemprop`, by its name in lower case, in
    the order of the page."""
    by_name: dict[str, list[str]] = {}
    for element in dom.css("meta[content]")[:METAS_MAX]:
        attributes = element.attributes
        content = attributes.get("content")
        for key in ("property", "name", "itemprop"):
            name = attributes.get(key)
            if name and content:
                by_name.setdefault(name.strip().lower(), []).append(content)
                break
    return by_name


def find_canonical(source: bytes) -> str | None:
    """Returns the `href` of the first canonical link. The bytes say it, without a DOM.

    >>> find_canonical(b"<link rel=canonical href='/p/1?a=1&amp;b=2'>")
    '/p/1?a=1&b=2'
    """
    link = _CANONICAL(source)
    if link is None:
        return None
    return unescape((link[1] or link[2] or link[3] or b"").decode("utf-8", "replace"))
