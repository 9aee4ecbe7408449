"""Finds the page's product, and lists of products with their URLs, in the JSON that the page's
scripts start with. Goes by the names of keys, whatever the shop's language. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

DEPTH_MAX = 14
NODES_MAX = 50_000
# How deep below a product its fields may be: `pricing.current.value`.
FIELD_DEPTH = 4
# Names, except those of a single thing: "Product:123".
_KEY = re.compile(r"(?![A-Z]\w*:)[@\w:-]+").fullmatch
_BESIDE = re.compile(
    r"related|recommend|similar|upsell|cross|recent|viewed|bestsell|popular|cart|basket|wish|menu"
    r"|navig|footer|header|translat|i18n|locale|filter|facet|config",
    re.I,
)
_PRODUCT = re.compile(r"product|item|article|artikel|pdp|sku|detail|offer", re.I)
# Other things that have a name.
_OTHERS = re.compile(
    r"brand|manufacturer|vendor|categor|breadcrumb|seller|shop|store|merchant|user|author|review"
    r"|image|media|option|attribute|tag|collection|seo|page",
    re.I,
)
# The last key in lower case without punctuation; with a dot, the key before it must match as well.
_FIELDS: dict[str, str] = {
    "title": r"(?:product|display|full)?(?:name|title)",
    "price": r"(?:current|sale|sales|final|selling|unit|base|our)?price(?:amount|value|inctax)?"
    r"|\w*price\w*\.(?:value|amount|current|now|final|gross|sale|centamount|price"
    r"|formatted\w*|display\w*|text)",
    "list_price": r"(?:list|regular|old|original|was|previous|strike|compareat|former)price"
    r"|rrp|msrp|compareatprice|\w*price\w*\.(?:was|old|regular|original|list|msrp|rrp)"
    r"|(?:list|regular|old|original|was|previous|strike|compareat|former)price"
    r"\.(?:value|amount|formatted\w*|display\w*|text)",
    "availability": r"availability|(?:is)?(?:instock|available|buyable|purchasable)"
    r"|(?:stock|availability|inventory)status|(?:stock|availability|inventory)"
    r"\.(?:status|(?:is)?available|(?:is)?instock)",
    "stock": r"stock|(?:stock|inventory|available)(?:quantity|level|count|qty)?"
    r"|quantityavailable|(?:stock|inventory|availability)\.(?:quantity|level|count|qty|available)",
    "sku": r"sku|(?:product|article|item|part|model)(?:number|no|code|nr)|artno|artnr|code",
    "gtin": r"gtin\d*|ean\d*|upc|barcode|isbn\d*",
    "mpn": r"mpn|manufacturer(?:part|product)?number",
    "brand": r"brand(?:name)?|manufacturer(?:name)?|vendor"
    r"|(?:brand|manufacturer|vendor)\.(?:name|title|label)",
    "category": r"(?:main|primary)?category(?:name)?|(?:\w*category|categories)\.(?:name|title)",
    "image": r"(?:main|primary|hero)?(?:image|picture|photo)(?:url|src)?|thumbnail|images|pictures"
    r"|(?:\w*image|images|\w*picture|pictures|photos|media|gallery)\.(?:url|src|href|original|large)",
    "description": r"(?:long|full|product)?description(?:html|text)?",
    "rating": r"rating(?:value|average)?|average(?:rating|score)|stars"
    r"|(?:rating|ratings|reviews|reviewsummary)\.(?:value|average|averagerating|score)",
    "size": r"size(?:name|label)?|size\.(?:name|value|label)",
    "color": r"colou?r(?:name|label)?|colou?r\.(?:name|value|label)",
    "variant": r"(?:variant)?(?:name|title|label)",
    "id": r"(?:variant|article|sku)?id",
}
_MATCH = {name: re.compile(pattern).fullmatch for name, pattern in _FIELDS.items()}
_VARIANTS = re.compile(r"(?:product)?(?:variants|variations|skus|articles|models|offers)").fullmatch
_CURRENCY = re.compile(r"(?:price)?currency(?:code|iso|isocode)?").fullmatch
_ADDRESS = re.compile(
    r"(?:product|canonical|pdp|detail)?(?:url|href|link|path|permalink|uri)|to|route"
).fullmatch
_NEXT = re.compile(r"next(?:page)?(?:url|link|href|path)?").fullmatch
# Currencies without a smaller unit in use.
WHOLE_CURRENCIES = frozenset(
    {"JPY", "KRW", "CLP", "ISK", "HUF", "VND", "IDR", "PYG", "UGX", "XAF", "XOF"}
)


class StatePath(NamedTuple):
    """A path as a definition writes it. The lower `rank`, the likelier it belongs to the
    product."""

    path: str
    rank: int


class _Node(NamedTuple):
    path: str
    keys: tuple[str, ...]
    value: Any


def find_field_paths(name: str, documents: list[Any]) -> Iterator[StatePath]:
    """Yields the paths that may hold the field, in all objects that may be the page's product."""
    if name not in _MATCH:
        return
    for number, product in enumerate(_likely_products(documents)):
        for node in _text_leaves(product):
            inner = node.keys[len(product.keys) :]
            if not _is_named(node._replace(keys=inner), name):
                continue
            if name == "title" and any(map(_OTHERS.search, inner[:-1])):
                continue
            beside = 3 * any(map(_PRODUCT.search, inner[:-1])) if len(inner) > 2 else 0
            yield StatePath(node.path, 2 * number + len(inner) - 1 + beside)


def find_currencies(documents: list[Any]) -> Iterator[str]:
    for product in _likely_products(documents)[:1]:
        for node in _text_leaves(product):
            if _CURRENCY(node.keys[-1]) and re.fullmatch(r"[A-Z]{3}", node.value):
                yield node.value


def find_variant_lists(documents: list[Any]) -> list[str]:
    """Returns the paths of lists in the page's product that are named as variants."""
    paths = []
    for product in _likely_products(documents)[:1]:
        for node in _walk_nodes([{}, product.value]):
            entries = node.value if isinstance(node.value, list) else ()
            several = sum(isinstance(entry, dict) for entry in entries) > 1
            if several and node.keys and _VARIANTS(node.keys[-1]) and "[" not in node.path:
                paths.append(f"{product.path}.{node.path}" if product.path else node.path)
    return paths


def find_text_paths(entry: Any) -> list[str]:
    """Returns the paths of an object's texts."""
    return [node.path for node in _text_leaves(_Node("", (), entry))]


def find_field_paths_within(name: str, entry: Any) -> list[str]:
    """Returns the paths of the field in an object."""
    return [node.path for node in _text_leaves(_Node("", (), entry)) if _is_named(node, name)]


def find_object_lists(documents: list[Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields the path and the objects of each list, except lists about something else, such as
    recommendations."""
    for node in _walk_nodes(documents):
        if isinstance(node.value, list) and not any(map(_BESIDE.search, node.keys)):
            yield node.path, [entry for entry in node.value if isinstance(entry, dict)]


def find_next_page_addresses(documents: list[Any]) -> Iterator[tuple[str, str]]:
    """Yields the paths that are named as the next page's address, and their texts."""
    for node in _walk_nodes(documents):
        if isinstance(node.value, dict):
            for child in _child_nodes(node, every=True):
                text = child.value
                if isinstance(text, str) and _NEXT(child.keys[-1]) and re.search("[/?]", text):
                    yield child.path, text


def is_address_key(key: str) -> bool:
    """Returns whether the key names a product's address."""
    return bool(_KEY(key) and _ADDRESS(_plain_key(key)))


def read_texts(entry: dict[str, Any], *names: str) -> dict[str, str]:
    """Returns the object's first text for each field."""
    texts: dict[str, str] = {}
    for node in _text_leaves(_Node("", (), entry)):
        for name in names:
            if name not in texts and _is_named(node, name):
                texts[name] = node.value
    return texts


def _likely_products(documents: list[Any]) -> list[_Node]:
    """Returns at most three objects with a title and a price or SKU. Objects that are named as a
    product come first, entries of lists last."""
    listed: list[tuple[int, _Node]] = []
    paths: set[str] = set()
    for node in _walk_nodes(documents):
        if not isinstance(node.value, dict) or any(map(_BESIDE.search, node.keys)):
            continue
        titled = any(_MATCH["title"](_plain_key(key)) for key in node.value)
        steps = accumulate(node.path.split("."), "{}.{}".format)
        if not titled or any(above in paths for above in steps if above != node.path):
            continue
        if any(_is_named(leaf, name) for leaf in _text_leaves(node) for name in ("price", "sku")):
            own = bool(node.keys) and _PRODUCT.search(node.keys[-1]) is not None
            paths.add(node.path)
            listed.append((len(node.keys) + 20 * ("[" in node.path) - 10 * own, node))
    return [node for _, node in sorted(listed, key=lambda pair: pair[0])[:3]]


def _walk_nodes(documents: list[Any]) -> Iterator[_Node]:
    """Yields the objects and lists; the paths in named documents start with the name."""
    named, others = (documents[0], documents[1:]) if documents else ({}, [])
    values = {id(value) for value in named.values()}
    stack = [_Node(key, (_plain_key(key),), value) for key, value in named.items() if _KEY(key)]
    stack += [_Node("", (), value) for value in others if id(value) not in values]
    stack.reverse()
    for _ in range(NODES_MAX):
        if not stack:
            return
        node = stack.pop()
        yield node
        if len(node.keys) >= DEPTH_MAX:
            continue
        stack += reversed(list(_child_nodes(node, every=False)))


def _child_nodes(node: _Node, *, every: bool) -> Iterator[_Node]:
    """Yields the node's children; a list yields its first entry only. `every`: also texts."""
    if isinstance(node.value, list):
        for entry in node.value[:1]:
            if node.path and (every or isinstance(entry, dict | list)):
                yield node._replace(path=f"{node.path}[0]", value=entry)
    elif isinstance(node.value, dict):
        for key, value in node.value.items():
            if _KEY(key) and (every or isinstance(value, dict | list)):
                path = f"{node.path}.{key}" if node.path else key
                yield _Node(path, (*node.keys, _plain_key(key)), value)


def _text_leaves(product: _Node) -> Iterator[_Node]:
    """Yields the texts in an object, except in parts about something else."""
    stack = [product]
    for _ in range(NODES_MAX // 10):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node.value, bool):
            yield node._replace(value=str(node.value).lower())
        elif isinstance(node.value, str):
            if node is not product and node.value:
                yield node
        elif len(node.keys) - len(product.keys) < FIELD_DEPTH:
            inner = _child_nodes(node, every=True)
            stack += reversed([child for child in inner if not _BESIDE.search(child.keys[-1])])


def _is_named(node: _Node, name: str) -> bool:
    if name == "price" and _is_named(node, "list_price"):
        return False
    matches = _MATCH[name]
    return bool(matches(node.keys[-1]) or matches(".".join(node.keys[-2:])))


def _plain_key(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())
