"""The microdata of a page (WHATWG HTML, "Microdata"), as objects like those of its JSON-LD. Pure.

So much text is read of a page and no more, since properties within properties would be read again
and again. `itemref` is not followed: shops do not write it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.extract.text import whole_text

OBJECTS_MAX = 2000
PROPERTIES_MAX = 5000
# Characters of all texts together.
TEXTS_MAX = 500_000
DEPTH_MAX = 20
# Where an element's value is, if it is not its text (WHATWG HTML, "Values").
_ATTRIBUTES = {
    "a": "href", "area": "href", "link": "href", "audio": "src", "embed": "src", "iframe": "src",
    "img": "src", "source": "src", "track": "src", "video": "src", "object": "data",
    "data": "value", "meter": "value", "time": "datetime",
}  # fmt: skip
# What is inside is read as the shop means it: a link that is called "brand" has the brand's name.
_LINKS = frozenset({"a", "area"})
_URL_PROPERTIES = frozenset({"url", "sameas", "image", "thumbnailurl", "logo", "availability"})


def objects(dom: LexborHTMLParser) -> list[dict[str, Any]]:
    """Every object, outer ones before the ones inside them."""
    items: dict[int, dict[str, Any]] = {}
    for element in dom.css("[itemscope]"):
        if len(items) >= OBJECTS_MAX:
            break
        items.setdefault(element.mem_id, {"@type": _types(element)})
    inside: set[int] = set()
    read = 0
    for element in dom.css("[itemprop]")[:PROPERTIES_MAX] if items else ():
        owner = _owner(element, items)
        if owner is None:
            continue
        if read > TEXTS_MAX:
            break
        names = (element.attributes.get("itemprop") or "").split()
        inner = items.get(element.mem_id)
        if inner is None and "itemscope" in element.attributes:
            # It is one of more objects than are read.
            continue
        value: Any = inner if inner is not None else value_of(element, names)
        if inner is not None:
            inside.add(element.mem_id)
        if value in (None, ""):
            continue
        read += len(value)
        for name in names:
            add(owner, name, value)
    outer = [item for identifier, item in items.items() if identifier not in inside]
    inner_items = [item for identifier, item in items.items() if identifier in inside]
    return [*outer, *inner_items]


def add(owner: dict[str, Any], name: str, value: Any) -> None:
    """A property that comes twice is a list."""
    if name == "@type":
        return
    before = owner.get(name)
    if before is None:
        owner[name] = value
    elif isinstance(before, list):
        before.append(value)
    else:
        owner[name] = [before, value]


def _owner(element: LexborNode, items: dict[int, dict[str, Any]]) -> dict[str, Any] | None:
    parent = element.parent
    for _ in range(DEPTH_MAX):
        if parent is None:
            return None
        item = items.get(parent.mem_id)
        if item is not None:
            return item
        parent = parent.parent
    return None


def _types(element: LexborNode) -> list[str]:
    return (element.attributes.get("itemtype") or "").split()


def value_of(element: LexborNode, names: Collection[str]) -> str | None:
    """The attribute that holds what the element says of the properties, which shops write on any
    element, or else its text."""
    attributes = element.attributes
    content = attributes.get("content")
    if content is not None:
        return content
    tag = element.tag or ""
    if tag not in _LINKS or _URL_PROPERTIES.intersection(map(str.lower, names)):
        value = attributes.get(_ATTRIBUTES.get(tag, ""))
        if value:
            return value
    return whole_text(element)
