"""The JSON that a page's scripts start from: where it holds the page's product, and where a list of
products with their addresses. Told by names of keys, whatever the shop's language is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

DEPTH_MAX = 14
NODES_MAX = 50_000
# So deep below a product its fields stand: `pricing.current.value`.
FIELD_DEPTH = 4
# Names, but not those of one thing alone: "Product:123".
_KEY = re.compile(r"(?![A-Z]\w*:)[@\w:-]+").fullmatch
_BESIDE = re.compile(
    r"related|recommend|similar|upsell|cross|recent|viewed|bestsell|popular|cart|basket|wish|menu"
    r"|navig|footer|header|translat|i18n|locale|filter|facet|config",
    re.I,
)
_PRODUCT = re.compile(r"product|item|article|artikel|pdp|sku|detail|offer", re.I)
# What else has a name of its own.
_OTHERS = re.compile(
    r"brand|manufacturer|vendor|categor|breadcrumb|seller|shop|store|merchant|user|author|review"
    r"|image|media|option|attribute|tag|collection|seo|page",
    re.I,
)
# Last keys in small letters without marks; behind a dot what holds them must match as well.
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
# Currencies that have no smaller unit, or none in use.
WHOLE = frozenset({"JPY", "KRW", "CLP", "ISK", "HUF", "VND", "IDR", "PYG", "UGX", "XAF", "XOF"})


class StatePath(NamedTuple):
    """A path as a definition writes it; a low `rank` is likely the page's product's."""

    path: str
    rank: int


class _Node(NamedTuple):
    path: str
    keys: tuple[str, ...]
    value: Any


def field_paths(name: str, documents: list[Any]) -> Iterator[StatePath]:
    """Where the field may stand, in all objects that may be the page's product."""
    if name not in _MATCH:
        return
    for number, product in enumerate(_products(documents)):
        for node in _leaves(product):
            inner = node.keys[len(product.keys) :]
            if not _is_named(node._replace(keys=inner), name):
                continue
            if name == "title" and any(map(_OTHERS.search, inner[:-1])):
                continue
            beside = 3 * any(map(_PRODUCT.search, inner[:-1])) if len(inner) > 2 else 0
            yield StatePath(node.path, 2 * number + len(inner) - 1 + beside)


def currencies(documents: list[Any]) -> Iterator[str]:
    for product in _products(documents)[:1]:
        for node in _leaves(product):
            if _CURRENCY(node.keys[-1]) and re.fullmatch(r"[A-Z]{3}", node.value):
                yield node.value


def lists_of_variants(documents: list[Any]) -> list[str]:
    """Lists within the page's product that call themselves its variants."""
    paths = []
    for product in _products(documents)[:1]:
        for node in _nodes([{}, product.value]):
            entries = node.value if isinstance(node.value, list) else ()
            several = sum(isinstance(entry, dict) for entry in entries) > 1
            if several and node.keys and _VARIANTS(node.keys[-1]) and "[" not in node.path:
                paths.append(f"{product.path}.{node.path}" if product.path else node.path)
    return paths


def paths_of(entry: Any) -> list[str]:
    """Where an object has texts."""
    return [node.path for node in _leaves(_Node("", (), entry))]


def paths_within(name: str, entry: Any) -> list[str]:
    """Where an object has the field."""
    return [node.path for node in _leaves(_Node("", (), entry)) if _is_named(node, name)]


def lists_of_objects(documents: list[Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Lists by their paths, but for those of other things than the page is about."""
    for node in _nodes(documents):
        if isinstance(node.value, list) and not any(map(_BESIDE.search, node.keys)):
            yield node.path, [entry for entry in node.value if isinstance(entry, dict)]


def addresses_of_next(documents: list[Any]) -> Iterator[tuple[str, str]]:
    """Paths of what calls itself the address of the next page, and what they hold."""
    for node in _nodes(documents):
        if isinstance(node.value, dict):
            for child in _children(node, every=True):
                text = child.value
                if isinstance(text, str) and _NEXT(child.keys[-1]) and re.search("[/?]", text):
                    yield child.path, text


def is_address(key: str) -> bool:
    """Whether a key is called as what holds a product's address."""
    return bool(_KEY(key) and _ADDRESS(_plain(key)))


def texts_of(entry: dict[str, Any], *names: str) -> dict[str, str]:
    """The first text of each field that the object has."""
    texts: dict[str, str] = {}
    for node in _leaves(_Node("", (), entry)):
        for name in names:
            if name not in texts and _is_named(node, name):
                texts[name] = node.value
    return texts


def _products(documents: list[Any]) -> list[_Node]:
    """Objects with a title and a price, the likeliest to be the page's product first: what is named
    as one, and no entry of a list."""
    listed: list[tuple[int, _Node]] = []
    for node in _nodes(documents):
        if not isinstance(node.value, dict) or any(map(_BESIDE.search, node.keys)):
            continue
        titled = any(_MATCH["title"](_plain(key)) for key in node.value)
        if not titled or any(node.path.startswith(f"{other.path}.") for _, other in listed):
            continue
        if any(_is_named(leaf, name) for leaf in _leaves(node) for name in ("price", "sku")):
            own = bool(node.keys) and _PRODUCT.search(node.keys[-1]) is not None
            listed.append((len(node.keys) + 20 * ("[" in node.path) - 10 * own, node))
    return [node for _, node in sorted(listed, key=lambda pair: pair[0])[:3]]


def _nodes(documents: list[Any]) -> Iterator[_Node]:
    """Objects and lists by their paths: those of named documents by their names."""
    named, others = (documents[0], documents[1:]) if documents else ({}, [])
    values = list(named.values())
    stack = [_Node(key, (_plain(key),), value) for key, value in named.items() if _KEY(key)]
    stack += [
        _Node("", (), value) for value in others if not any(value is other for other in values)
    ]
    stack.reverse()
    for _ in range(NODES_MAX):
        if not stack:
            return
        node = stack.pop()
        yield node
        if len(node.keys) >= DEPTH_MAX:
            continue
        stack += reversed(list(_children(node, every=False)))


def _children(node: _Node, *, every: bool) -> Iterator[_Node]:
    """Of a list the first entry stands for all. `every`: texts, too."""
    if isinstance(node.value, list):
        for entry in node.value[:1]:
            if node.path and (every or isinstance(entry, dict | list)):
                yield node._replace(path=f"{node.path}[0]", value=entry)
    elif isinstance(node.value, dict):
        for key, value in node.value.items():
            if _KEY(key) and (every or isinstance(value, dict | list)):
                path = f"{node.path}.{key}" if node.path else key
                yield _Node(path, (*node.keys, _plain(key)), value)


def _leaves(product: _Node) -> Iterator[_Node]:
    """The texts of an object and of what it holds, but for what belongs to others."""
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
            inner = _children(node, every=True)
            stack += reversed([child for child in inner if not _BESIDE.search(child.keys[-1])])


def _is_named(node: _Node, name: str) -> bool:
    if name == "price" and _is_named(node, "list_price"):
        return False
    matches = _MATCH[name]
    return bool(matches(node.keys[-1]) or matches(".".join(node.keys[-2:])))


def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())
