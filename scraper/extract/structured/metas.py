"""The <meta> tags of a page by their names: OpenGraph's, product:*, and the old ones. Pure."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

METAS_MAX = 1000


def contents(dom: LexborHTMLParser) -> dict[str, list[str]]:
    """What each name (in lower case; `property`, `name` or `itemprop`) holds, in the order of the
    page."""
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
