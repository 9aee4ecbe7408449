"""Pages that sell several products: variants, each with a number and a price of its own, in the
page's JSON. They are proposed only if each variant has a unique number and the page's own price is
the price of one of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from scraper.extract.document import Document
from scraper.extract.heuristics.state_fields import find_field_paths_within, find_variant_lists
from scraper.extract.items.scopes import compile_scope
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.trial import field_reader
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.items import Items

# Fewer pages with several products prove nothing.
PAGES_MIN = 3
ITEMS_MAX = 2500
_IDS = ("sku", "offers.sku", "itemOffered.sku", "gtin13", "gtin", "mpn", "productID")
_OWN: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "price": (("offers.price", "price"), {"type": "price"}),
    "availability": (("offers.availability", "availability"), {"type": "bool"}),
    "sku": (("sku", "offers.sku", "itemOffered.sku"), {}),
    "gtin": (("gtin13", "gtin", "gtin12", "gtin8", "offers.gtin13", "offers.gtin"), {}),
    "mpn": (("mpn",), {}),
    "size": (("size", "itemOffered.size"), {}),
    "color": (("color", "itemOffered.color"), {}),
    "variant": (("name", "itemOffered.name"), {}),
}
# The numbers of a state's entries, the shop's article number first.
_STATE_IDS = ("sku", "gtin", "id")


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """`items` as a definition writes it. `pages`: the number of pages with several products,
    `smallest` to `largest` of them each. `example`: the id of one product."""

    items: dict[str, Any]
    pages: int
    smallest: int
    largest: int
    example: str

    @property
    def sizes(self) -> str:
        if self.smallest < self.largest:
            return f"{self.smallest} to {self.largest}"
        return str(self.largest)


def propose_items(
    samples: Sequence[ProductSample], fields: Mapping[str, FieldChoice]
) -> VariantChoice | None:
    """Returns the first scope whose items are certainly products of their own."""
    for scope in _list_scopes(samples):
        choice = _choose_items(scope, samples, fields)
        if choice is not None:
            return choice
    return None


def _list_scopes(samples: Sequence[ProductSample]) -> Iterator[dict[str, str]]:
    for key in ("jsonld", "microdata"):
        for path in ("hasVariant", "offers"):
            yield {key: path}
    paths = Counter(
        path for sample in samples for path in set(find_variant_lists(sample.document.state))
    )
    for path, _ in paths.most_common(3):
        yield {"state": path}


def _choose_items(
    scope: dict[str, str], samples: Sequence[ProductSample], fields: Mapping[str, FieldChoice]
) -> VariantChoice | None:
    parts = compile_scope(Items.model_validate({**scope, "id": "x"}).scope, ITEMS_MAX)
    pages = [parts(sample.document).items for sample in samples]
    sizes = [len(items) for items in pages if len(items) > 1]
    if len(sizes) < PAGES_MIN:
        return None
    every = [item for items in pages for item in items]
    # Objects in script state have no standard paths; the names of their keys decide.
    by_state = "state" in scope
    path = _find_id_path(every, by_state=by_state)
    if path is None:
        return None
    own: dict[str, dict[str, Any]] = {}
    for name, (paths, options) in _OWN.items():
        for own_path in _find_paths(name, every) if by_state else paths:
            values = _read_values(every, {"path": own_path, **options}, name)
            if _is_own_field(name, values, pages, own):
                own[name] = {"path": own_path, **options}
                break
    if "price" not in own or not _prices_agree(own, pages, fields):
        return None
    items = {**scope, "id": path, "optional": True, "fields": {
        name: spec["path"] if spec.keys() == {"path"} else spec for name, spec in own.items()
    }}  # fmt: skip
    try:
        Items.model_validate(items)
    except ValidationError:
        return None
    (example,) = _read_values(every[:1], {"path": path})
    return VariantChoice(items, len(sizes), min(sizes), max(sizes), str(example))


def _find_id_path(items: Sequence[Document], *, by_state: bool) -> str | None:
    """Returns the first path that gives each item a number of its own."""
    paths: Iterable[str] = _IDS
    if by_state:
        paths = (path for name in _STATE_IDS for path in _find_paths(name, items))
    for path in paths:
        ids = _read_values(items, {"path": path})
        if None not in ids and len(set(ids)) == len(items):
            return path
    return None


def _find_paths(name: str, items: Sequence[Document]) -> list[str]:
    """Returns paths of the field within objects of script state, the shortest first."""
    counted = Counter(
        path for item in items[:50] for path in find_field_paths_within(name, item.value)
    )
    return sorted(counted, key=lambda path: (path.count("."), -counted[path]))[:3]


def _read_values(items: Sequence[Document], spec: dict[str, Any], name: str = "id") -> list[Any]:
    reader = field_reader(name, FieldSpec.model_validate(spec))
    return [reader(item)[0].get(name) for item in items]


def _is_own_field(
    name: str, values: list[Any], pages: Sequence[Sequence[Document]], own: Mapping[str, Any]
) -> bool:
    """Returns whether the items have the field: all of them a price, half of them an availability
    or a name, and any of them another field. A name counts only without a size or a colour."""
    if name == "price":
        return None not in values
    if name == "variant" and ("size" in own or "color" in own):
        return False
    if name in ("availability", "variant"):
        return sum(value is not None for value in values) * 2 >= len(values)
    return any(value is not None for value in values)


def _prices_agree(
    own: dict[str, dict[str, Any]],
    pages: Sequence[Sequence[Document]],
    fields: Mapping[str, FieldChoice],
) -> bool:
    """Returns whether one of the prices on each page is the page's own, on enough pages with
    several products.

    Adds the page's currency to `own` where the items do not state one.
    """
    shown = fields["price"].combined
    if shown is None:
        return False
    compared = 0
    for price, items in zip(shown.values, pages, strict=True):
        if items and price is not None:
            if price not in _read_values(items, own["price"], "price"):
                return False
            compared += len(items) > 1
    if compared < PAGES_MIN:
        return False
    code = fields["price"].currency
    if code is None:
        codes = {code for code in shown.currencies if code is not None}
        code = next(iter(codes)) if len(codes) == 1 else None
    reader = field_reader("price", FieldSpec.model_validate(own["price"]))
    if all(reader(item)[0].get("price_currency") for items in pages for item in items):
        return True
    if code is not None:
        own["price"]["currency"] = code
    return code is not None
