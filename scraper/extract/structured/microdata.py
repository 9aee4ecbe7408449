"""A page's microdata (WHATWG HTML, "Microdata") as objects in the shape of JSON-LD. Pure.

The text read from a page is limited, because nested properties repeat the same text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.extract.text import whole_text

OBJECTS_MAX = 2000
PROPERTIES_MAX = 5000
# The characters of all texts together.
TEXTS_MAX = 500_000
DEPTH_MAX = 60
# The ids that an object may refer to, and the objects that may share one.
IDS_MAX, OWNERS_MAX = 50, 20
# The attribute that holds an element's value instead of its text (WHATWG HTML, "Values").
_ATTRIBUTES = {
    "a": "href", "area": "href", "link": "href", "audio": "src", "embed": "src", "iframe": "src",
    "img": "src", "source": "src", "track": "src", "video": "src", "object": "data",
    "data": "value", "meter": "value", "time": "datetime",
}  # fmt: skip
# These links are read by their text, as shops mean it: a link named "brand" holds the brand's name.
_LINKS = frozenset({"a", "area"})
_URL_PROPERTIES = frozenset({"url", "sameas", "image", "thumbnailurl", "logo", "availability"})


def read_objects(dom: LexborHTMLParser) -> list[dict[str, Any]]:
    """Returns every object, outer objects before the objects inside them."""
    items: dict[int, dict[str, Any]] = {}
    for element in dom.css("[itemscope]"):
        if len(items) >= OBJECTS_MAX:
            break
        items.setdefault(element.mem_id, {"@type": _item_types(element)})
    referred = _find_referred(dom, items)
    inside: set[int] = set()
    read = 0
    for element in dom.css("[itemprop]")[:PROPERTIES_MAX] if items else ():
        owners = _find_owners(element, items, referred)
        if not owners:
            continue
        if read > TEXTS_MAX:
            break
        names = (element.attributes.get("itemprop") or "").split()
        inner = items.get(element.mem_id)
        if inner is None and "itemscope" in element.attributes:
            # The element is an object beyond OBJECTS_MAX.
            continue
        value: Any = inner if inner is not None else read_value(element, names)
        if inner is not None:
            inside.add(element.mem_id)
        if value in (None, ""):
            continue
        read += len(value)
        for owner, name in product(owners, names):
            add_property(owner, name, value)
    outer = [item for identifier, item in items.items() if identifier not in inside]
    inner_items = [item for identifier, item in items.items() if identifier in inside]
    return [*outer, *inner_items]


def add_property(owner: dict[str, Any], name: str, value: Any) -> None:
    """Adds a property to an object; a repeated property becomes a list."""
    if name == "@type":
        return
    before = owner.get(name)
    if before is None:
        owner[name] = value
    elif isinstance(before, list):
        before.append(value)
    else:
        owner[name] = [before, value]


def _find_referred(
    dom: LexborHTMLParser, items: Mapping[int, dict[str, Any]]
) -> dict[int, list[dict[str, Any]]]:
    """Returns the elements whose properties belong to objects that name them in `itemref`."""
    names: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for element in dom.css("[itemscope][itemref]"):
        item = items.get(element.mem_id)
        for name in set((element.attributes.get("itemref") or "").split()[:IDS_MAX]):
            if item is not None and len(names[name]) < OWNERS_MAX:
                names[name].append(item)
    # The first element of an id counts, as in browsers.
    named = reversed(dom.css("[id]") if names else ())
    first = {element.attributes.get("id"): element for element in named}
    return {first[name].mem_id: owners for name, owners in names.items() if name in first}


def _find_owners(
    element: LexborNode,
    items: Mapping[int, dict[str, Any]],
    referred: Mapping[int, list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    if element.mem_id in referred:
        return referred[element.mem_id]
    parent = element.parent
    for _ in range(DEPTH_MAX):
        if parent is None:
            break
        if parent.mem_id in items:
            return [items[parent.mem_id]]
        if parent.mem_id in referred:
            return referred[parent.mem_id]
        parent = parent.parent
    return []


def _item_types(element: LexborNode) -> list[str]:
    return (element.attributes.get("itemtype") or "").split()


def read_value(element: LexborNode, names: Collection[str]) -> str | None:
    """Returns the element's value: its `content`, which shops write on any element, the attribute
    of its tag, or its text."""
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
