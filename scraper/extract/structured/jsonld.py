"""Values by path in a page's JSON-LD: `Product.offers[0].price`. Pure.

One value is looked for in the first object of the type alone (with its variants): another product
on the same page, such as a recommendation, must not fill a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from scraper.sites.grammar.selectors import JsonPath

Steps = tuple[str | int, ...]
Elsewhere = Callable[[Any, str], Iterator[str]]

# schema.org's subtypes of Product, and the creative works that shops sell with `offers` of their
# own.
_PRODUCTS = frozenset(
    """
    Product ProductGroup ProductModel ProductCollection IndividualProduct SomeProducts Vehicle Car
    Motorcycle MotorizedBicycle BusOrCoach Drug DietarySupplement Book Audiobook Movie Game
    VideoGame MusicAlbum MusicRelease SoftwareApplication MobileApplication WebApplication
""".lower().split()
)
# Where offers say what they do not say themselves.
_OFFER_PARTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "price": (("priceSpecification", "price"), ("lowPrice",), ("offers", "price")),
    "priceCurrency": (("priceSpecification", "priceCurrency"), ("offers", "priceCurrency")),
    # An AggregateOffer says it of each of its offers.
    "availability": (("offers", "availability"),),
}
# A price that is crossed out, and one for a kilogram.
_OTHER_PRICES = ("ListPrice", "StrikethroughPrice", "SRP", "MSRP")


def values(nodes: list[dict[str, Any]], path: JsonPath, every: bool) -> Iterator[str]:
    """The texts at `path`; of the first object of the type, or of `every` one."""
    wanted = _PRODUCTS if path.type == "Product" else frozenset({path.type.lower()})
    for node in nodes:
        if wanted.isdisjoint(_types(node)):
            continue
        empty = True
        for value in _found(node, path.steps, _elsewhere):
            empty = False
            yield value
        if every:
            continue
        # A ProductGroup's offers stand on its variants.
        if empty:
            for variant in _as_list(node.get("hasVariant")):
                yield from _found(variant, path.steps, _elsewhere)
        return


def within(documents: list[Any], steps: Steps) -> Iterator[str]:
    """The texts at a path of any JSON, document after document."""
    for document in documents:
        yield from _found(document, steps)


def _found(value: Any, steps: Steps, elsewhere: Elsewhere | None = None) -> Iterator[str]:
    """The texts at a path; lists within lists may be deeper than can be walked."""
    with suppress(RecursionError):
        yield from _walk(value, steps, elsewhere)


def _types(node: dict[str, Any]) -> Iterator[str]:
    for name in _as_list(node.get("@type")):
        if isinstance(name, str):
            yield name.replace("#", "/").replace(":", "/").rsplit("/", 1)[-1].lower()


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _walk(value: Any, steps: Steps, elsewhere: Elsewhere | None = None) -> Iterator[str]:
    """The texts at a path. `elsewhere` may know where a value says its missing last step."""
    if not steps:
        yield from _texts(value)
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        listed = _as_list(value)
        if -len(listed) <= step < len(listed):
            yield from _walk(listed[step], rest, elsewhere)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, steps, elsewhere)
    elif isinstance(value, dict) and value.get(step) is not None:
        yield from _walk(value[step], rest, elsewhere)
    elif elsewhere is not None and not rest:
        yield from elsewhere(value, step)


def _elsewhere(value: Any, step: str) -> Iterator[str]:
    """What JSON-LD says in another place than `step`: an offer its price, and a brand that is a
    text its own name."""
    if isinstance(value, str) and step == "name":
        yield value
    if not isinstance(value, dict):
        return
    for key, *rest in _OFFER_PARTS.get(step, ()):
        parts = [part for part in _as_list(value.get(key)) if not _is_other_price(part)]
        for text in _walk(parts[:1], tuple(rest)):
            yield text
            return


def _is_other_price(part: Any) -> bool:
    return isinstance(part, dict) and (
        "referenceQuantity" in part or str(part.get("priceType", "")).endswith(_OTHER_PRICES)
    )


def _texts(value: Any) -> Iterator[str]:
    """A leaf as text. Of an object its @value, name, url or @id: what `brand` or `image` mean by an
    object."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, list):
        for item in value:
            if not isinstance(item, list):
                yield from _texts(item)
    elif isinstance(value, dict):
        for key in ("@value", "name", "url", "@id"):
            if isinstance(value.get(key), str):
                yield value[key]
                return


def objects(nodes: list[dict[str, Any]], path: JsonPath) -> Iterator[dict[str, Any]]:
    """The objects at `path` of the first object of the type that has some; every object of that
    very type where there are no steps. A reference stands for the object it names, and an offer
    that holds others for those."""
    if not path.steps:
        name = path.type.lower()
        yield from (node for node in nodes if name in _types(node))
        return
    wanted = _PRODUCTS if path.type == "Product" else frozenset({path.type.lower()})
    for node in nodes:
        if wanted.isdisjoint(_types(node)):
            continue
        empty = True
        for item in _dereferenced(objects_at(node, path.steps), nodes):
            empty = False
            offers = item.get("offers") if "aggregateoffer" in _types(item) else None
            yield from objects_at(offers, ()) if offers else (item,)
        if not empty:
            return


def _dereferenced(
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


def objects_at(value: Any, steps: Steps) -> Iterator[dict[str, Any]]:
    """The objects at a path of any JSON; of lists, each of theirs."""
    with suppress(RecursionError):
        yield from _objects_at(value, steps)


def _objects_at(value: Any, steps: Steps) -> Iterator[dict[str, Any]]:
    if not steps:
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list):
            for item in value:
                yield from _objects_at(item, ())
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        listed = _as_list(value)
        if -len(listed) <= step < len(listed):
            yield from _objects_at(listed[step], rest)
    elif isinstance(value, list):
        for item in value:
            yield from _objects_at(item, steps)
    elif isinstance(value, dict) and value.get(step) is not None:
        yield from _objects_at(value[step], rest)


def values_within(value: dict[str, Any], steps: Steps) -> Iterator[str]:
    """The texts at a path of one object, which JSON-LD may say in another place."""
    return _found(value, steps, _elsewhere)
