"""A page's <meta> tags by name: OpenGraph, product:*, and the older ones. Pure."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

METAS_MAX = 1000


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
