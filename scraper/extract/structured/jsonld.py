"""Values by path in a page's JSON-LD: `Product.offers[0].price`. Pure, except that prices expire.

A single value comes only from the first object of the type (and its variants): another product on
the same page, such as a recommendation, must not fill a gap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from scraper.sites.grammar.selectors import JsonPath

Steps = tuple[str | int, ...]
Elsewhere = Callable[[Any, str], Iterator[str]]

# schema.org's subtypes of Product, and the creative works that shops sell with their own `offers`.
_PRODUCTS = frozenset(
    """
    Product ProductGroup ProductModel ProductCollection IndividualProduct SomeProducts Vehicle Car
    Motorcycle MotorizedBicycle BusOrCoach Drug DietarySupplement Book Audiobook Movie Game
    VideoGame MusicAlbum MusicRelease SoftwareApplication MobileApplication WebApplication
""".lower().split()
)
_AGGREGATES = frozenset({"aggregateoffer"})
# Where an offer may hold a value that is missing at its usual key.
_OFFER_PARTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "price": (
        *(("priceSpecification", "price"), ("priceSpecification", "minPrice"), ("lowPrice",)),
        *(("minPrice",), ("offers", "price")),
    ),
    "priceCurrency": (("priceSpecification", "priceCurrency"), ("offers", "priceCurrency")),
    # An AggregateOffer has it on each of its offers.
    "availability": (("offers", "availability"),),
}
# The types of prices that no customer pays for the product, and of those that only some pay.
_OTHER_PRICE = re.compile(
    r"ListPrice|Strike-?through|SRP|MinimumAdvertised|InvoicePrice"
    r"|Delivery|Shipping|Payment|Instal+ment|Down-?payment|Subscription|Fee\b",
    re.I,
).search
_SOME_PAY = re.compile(
    r"reseller|business|institution|lease|\brent|member|tier|student", re.I
).search
_SOME_KEYS = ("eligibleCustomerType", "businessFunction")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d").match


def put_own_first(
    nodes: list[dict[str, Any]], rank: Callable[[dict[str, Any]], float]
) -> list[dict[str, Any]]:
    """Returns the objects with the page's own product, which has the highest rank, before other
    products, such as recently viewed ones. A first product of rank 2 is the page's own."""
    products = [node for node in nodes if _has_type(node, _PRODUCTS)]
    if len(products) < 2 or products[0].get("hasVariant") or rank(products[0]) >= 2:
        return nodes
    own = max(products, key=rank)
    return nodes if own is products[0] else [own, *(node for node in nodes if node is not own)]


def find_texts(nodes: list[dict[str, Any]], path: JsonPath, every: bool) -> Iterator[str]:
    """Yields the texts at `path` in the first object of the type, or in `every` one."""
    wanted = _PRODUCTS if path.type == "Product" else frozenset({path.type.lower()})
    for node in nodes:
        if not _has_type(node, wanted):
            continue
        empty = True
        for value in _texts_at(node, path.steps, _find_elsewhere):
            empty = False
            yield value
        if every:
            continue
        # A ProductGroup has its offers on its variants.
        if empty:
            for variant in as_list(node.get("hasVariant")):
                yield from _texts_at(variant, path.steps, _find_elsewhere)
        return


def find_texts_in_documents(documents: list[Any], steps: Steps) -> Iterator[str]:
    """Yields the texts at a path of any JSON, document after document."""
    for document in documents:
        yield from _texts_at(document, steps)


def _texts_at(value: Any, steps: Steps, elsewhere: Elsewhere | None = None) -> Iterator[str]:
    """Yields the texts at a path. JSON that is nested too deeply to walk ends the search."""
    with suppress(RecursionError):
        yield from _walk_texts(value, steps, elsewhere)


def _has_type(node: dict[str, Any], wanted: frozenset[str]) -> bool:
    """Returns whether an object has one of the types, which are given in lower case."""
    named = node.get("@type")
    if isinstance(named, str):
        return _short_name(named) in wanted
    return isinstance(named, list) and any(
        isinstance(name, str) and _short_name(name) in wanted for name in named
    )


def _short_name(name: str) -> str:
    """Returns a type's name without its vocabulary, such as "https://schema.org/"."""
    return name.replace("#", "/").replace(":", "/").rsplit("/", 1)[-1].lower()


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _walk_texts(value: Any, steps: Steps, elsewhere: Elsewhere | None = None) -> Iterator[str]:
    """Yields the texts at a path. `elsewhere` finds a missing last step in another place."""
    if not steps:
        yield from _leaf_texts(value)
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        listed = as_list(value)
        if -len(listed) <= step < len(listed):
            yield from _walk_texts(listed[step], rest, elsewhere)
    elif isinstance(value, list):
        is_price = len(value) > 1 and elsewhere is not None and step in ("price", "priceCurrency")
        for item in (is_price and _current_prices(value)) or value:
            yield from _walk_texts(item, steps, elsewhere)
    elif isinstance(value, dict) and value.get(step) is not None:
        yield from _walk_texts(value[step], rest, elsewhere)
    elif elsewhere is not None and not rest:
        yield from elsewhere(value, step)


def _find_elsewhere(value: Any, step: str) -> Iterator[str]:
    """Yields what JSON-LD holds in another place than `step`: an offer's price, or the name of a
    brand that is a plain text."""
    if isinstance(value, str) and step == "name":
        yield value
    if not isinstance(value, dict):
        return
    for key, *rest in _OFFER_PARTS.get(step, ()):
        for text in _walk_texts(_current_prices(as_list(value.get(key)))[:1], tuple(rest)):
            yield text
            return


def _current_prices(parts: list[Any]) -> list[Any]:
    """Returns the parts of an offer, or the offers, whose price is one for the product. The price
    that everyone pays now for a single piece comes first."""
    ranked = [(rank, part) for part in parts if (rank := _rank_price(part)) is not None]
    return [part for _, part in sorted(ranked, key=lambda pair: pair[0])]


def _rank_price(part: Any) -> int | None:
    """Returns how many conditions a price has, or None if it is not a price of the product."""
    if not isinstance(part, dict):
        return 1
    kind = f"{part.get('priceType', '')} {part.get('priceComponentType', '')} {part.get('@type')}"
    if "referenceQuantity" in part or _OTHER_PRICE(kind):
        return None
    inner = part.get("priceSpecification") if part.get("price") is None else None
    ranks = [rank for spec in as_list(inner) if (rank := _rank_price(spec)) is not None]
    rank = 0 if "SalePrice" in kind else 2 if "RegularPrice" in kind else 1
    if inner is not None:
        rank = min(ranks, default=9)
    if part.get("validForMemberTier") or _SOME_PAY(f"{[part.get(key) for key in _SOME_KEYS]}"):
        return 8
    if _least_quantity(part.get("eligibleQuantity")) > 1:
        return max(rank, 7)
    return max(rank, 6) if _is_out_of_date(part) else rank


def _least_quantity(quantity: Any) -> float:
    if isinstance(quantity, dict):
        quantity = quantity.get("minValue", quantity.get("value"))
    try:
        return float(quantity)
    except (TypeError, ValueError):
        return 0


def _is_out_of_date(part: dict[str, Any]) -> bool:
    """Returns whether a price has expired, or is not valid yet."""
    ends = str(part.get("validThrough") or part.get("priceValidUntil"))
    begins = str(part.get("validFrom"))
    dated = _ISO_DATE(ends), _ISO_DATE(begins)
    today = f"{datetime.now(UTC):%Y-%m-%d}" if any(dated) else ""
    return bool(dated[0] and ends[:10] < today) or bool(dated[1] and begins[:10] > today)


def _leaf_texts(value: Any) -> Iterator[str]:
    """Yields a leaf as text. An object becomes its @value, name, url or @id, as `brand` and `image`
    use objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, list):
        for item in value:
            if not isinstance(item, list):
                yield from _leaf_texts(item)
    elif isinstance(value, dict):
        for key in ("@value", "name", "url", "@id"):
            if isinstance(value.get(key), str):
                yield value[key]
                return


def find_objects(nodes: list[dict[str, Any]], path: JsonPath) -> Iterator[dict[str, Any]]:
    """Yields the objects at `path` in the first object of the type that has any; without steps,
    every object of exactly that type. A reference yields the object that it names, and an
    AggregateOffer yields its offers."""
    if not path.steps:
        exact = frozenset({path.type.lower()})
        yield from (node for node in nodes if _has_type(node, exact))
        return
    wanted = _PRODUCTS if path.type == "Product" else frozenset({path.type.lower()})
    for node in nodes:
        if not _has_type(node, wanted):
            continue
        empty = True
        for item in _resolve_references(find_objects_at(node, path.steps), nodes):
            empty = False
            offers = item.get("offers") if _has_type(item, _AGGREGATES) else None
            yield from find_objects_at(offers, ()) if offers else (item,)
        if not empty:
            return


def _resolve_references(
    items: Iterator[dict[str, Any]], nodes: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    by_id: dict[Any, dict[str, Any]] | None = None
    for item in items:
        if item.keys() != {"@id"}:
            yield item
            continue
        if by_id is None:
            named = [node for node in nodes if len(node) > 1 and isinstance(node.get("@id"), str)]
            by_id = {node["@id"]: node for node in reversed(named)}
        name = item["@id"]
        yield by_id.get(name, item) if isinstance(name, str) else item


def find_objects_at(value: Any, steps: Steps) -> Iterator[dict[str, Any]]:
    """Yields the objects at a path of any JSON, including those within lists."""
    with suppress(RecursionError):
        yield from _walk_objects(value, steps)


def _walk_objects(value: Any, steps: Steps) -> Iterator[dict[str, Any]]:
    if not steps:
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list):
            for item in value:
                yield from _walk_objects(item, ())
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        listed = as_list(value)
        if -len(listed) <= step < len(listed):
            yield from _walk_objects(listed[step], rest)
    elif isinstance(value, list):
        for item in value:
            yield from _walk_objects(item, steps)
    elif isinstance(value, dict) and value.get(step) is not None:
        yield from _walk_objects(value[step], rest)


def find_texts_in_object(value: dict[str, Any], steps: Steps) -> Iterator[str]:
    """Yields the texts at a path of one object, or where JSON-LD may hold them instead."""
    return _texts_at(value, steps, _find_elsewhere)
