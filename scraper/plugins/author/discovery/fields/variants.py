"""Pages that sell several products: variants, each with a number and a price of its own, in the
page's JSON. Proposed only where every one of them can be told and the page's own price is one of
theirs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from scraper.extract.document import Document
from scraper.extract.heuristics.state_fields import find_field_paths_within, find_variant_lists
from scraper.extract.items.scopes import compile_scope
from scraper.plugins.author.discovery.fields.candidates import ProductSample
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.trial import field_reader
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.items import Items

# So many pages have several products, at the least.
PAGES_MIN = 3
ITEMS_MAX = 2500
_IDS = ("sku", "offers.sku", "itemOffered.sku", "gtin13", "gtin", "mpn", "productID")
_OWN: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "price": (("offers.price", "price"), {"type": "price", "required": True}),
    "availability": (("offers.availability", "availability"), {"type": "bool"}),
    "sku": (("sku", "offers.sku", "itemOffered.sku"), {}),
    "gtin": (("gtin13", "gtin", "gtin12", "gtin8", "offers.gtin13", "offers.gtin"), {}),
    "mpn": (("mpn",), {}),
    "size": (("size", "itemOffered.size"), {}),
    "color": (("color", "itemOffered.color"), {}),
    "variant": (("name", "itemOffered.name"), {}),
}
# Of a state's entries these are their own numbers, the shop's article number first.
_STATE_IDS = ("sku", "gtin", "id")


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """`items` as a definition says it. `pages` have several, `least` to `most`; `example` is the id
    of one."""

    items: dict[str, Any]
    pages: int
    least: int
    most: int
    example: str

    @property
    def sizes(self) -> str:
        return f"{self.least} to {self.most}" if self.least < self.most else str(self.most)


def propose_items(
    samples: Sequence[ProductSample], fields: Mapping[str, FieldChoice]
) -> VariantChoice | None:
    """The page's products, where they are surely that."""
    for scope in _scopes(samples):
        choice = _choice(scope, samples, fields)
        if choice is not None:
            return choice
    return None


def _scopes(samples: Sequence[ProductSample]) -> Iterator[dict[str, str]]:
    for key in ("jsonld", "microdata"):
        for path in ("hasVariant", "offers"):
            yield {key: path}
    paths = Counter(
        path for sample in samples for path in set(find_variant_lists(sample.document.state))
    )
    for path, _ in paths.most_common(3):
        yield {"state": path}


def _choice(
    scope: dict[str, str], samples: Sequence[ProductSample], fields: Mapping[str, FieldChoice]
) -> VariantChoice | None:
    parts = compile_scope(Items.model_validate({**scope, "id": "x"}).scope, ITEMS_MAX)
    pages = [parts(sample.document).items for sample in samples]
    sizes = [len(items) for items in pages if len(items) > 1]
    if len(sizes) < PAGES_MIN:
        return None
    every = [item for items in pages for item in items]
    # Of objects in scripts the names of keys tell what they hold.
    by_state = "state" in scope
    id_paths = [path for name in _STATE_IDS for path in _paths(name, every)] if by_state else _IDS
    for path in id_paths:
        ids = _read(every, {"path": path})
        if None not in ids and len(set(ids)) == len(every):
            break
    else:
        return None
    own: dict[str, dict[str, Any]] = {}
    for name, (paths, options) in _OWN.items():
        for own_path in _paths(name, every) if by_state else paths:
            values = _read(every, {"path": own_path, **options}, name)
            if _is_own(name, values, pages, own):
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
    return VariantChoice(items, len(sizes), min(sizes), max(sizes), str(ids[0]))


def _paths(name: str, items: Sequence[Document]) -> list[str]:
    """Where objects of scripts have the field, the nearest first."""
    counted = Counter(
        path for item in items[:50] for path in find_field_paths_within(name, item.value)
    )
    return sorted(counted, key=lambda path: (path.count("."), -counted[path]))[:3]


def _read(items: Sequence[Document], spec: dict[str, Any], name: str = "id") -> list[Any]:
    reader = field_reader(name, FieldSpec.model_validate(spec))
    return [reader(item)[0].get(name) for item in items]


def _is_own(
    name: str, values: list[Any], pages: Sequence[Sequence[Document]], own: Mapping[str, Any]
) -> bool:
    """Whether the items have it: all of them a price, some of them what else is theirs; a name only
    where nothing else tells them apart."""
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
    """Whether on each page one of the prices is the page's own, in its currency, which is written
    where the items do not say it."""
    best = fields["price"].best
    if best is None:
        return False
    for at, items in enumerate(pages):
        prices = _read(items, own["price"], "price")
        if items and best.values[at] is not None and best.values[at] not in prices:
            return False
    code = fields["price"].currency
    if code is None:
        shown = {code for code in best.currencies if code is not None}
        code = next(iter(shown)) if len(shown) == 1 else None
    reader = field_reader("price", FieldSpec.model_validate(own["price"]))
    if all(reader(item)[0].get("price_currency") for items in pages for item in items):
        return True
    if code is not None:
        own["price"]["currency"] = code
    return code is not None
