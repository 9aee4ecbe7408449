"""Reads several products from one page: each has the page's shared fields and its own. Pure.

An item that lacks a required field or its id is not stored, but its siblings are. Elements with
neither an id nor a field of their own, such as a table's head, are ignored.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from scraper.domain import Extracted, ItemsRead, Product
from scraper.extract.document import Document
from scraper.extract.field_reader import FieldReader, IdReader
from scraper.extract.items.nested import count_chars
from scraper.extract.items.scopes import PageItem, compile_scope
from scraper.extract.product import ProductReader
from scraper.rules import urls
from scraper.sites.grammar.page_specs import ProductPage

# The items read from a page. (A Shopify product has up to 2,048 variants.)
ITEMS_MAX = 2500
# The characters of all items together: nested elements repeat the same text.
CHARS_MAX = 5_000_000
PROBLEMS_MAX = 20


class _Shared(NamedTuple):
    """The fields that all products of a page share."""

    data: dict[str, Any]
    filled_in: tuple[str, ...]


class ItemsReader:
    """Compiled once for each site."""

    def __init__(self, product: ProductPage, rules: urls.UrlRules) -> None:
        assert product.items is not None
        self._scope = compile_scope(product.items.scope, ITEMS_MAX)
        self._described = product.items.scope.described
        self._id = IdReader(product.items.id)
        # A page's field with the name of an item's field is for pages without items: no product
        # may get its siblings' price.
        self._shared = [
            FieldReader(name, spec)
            for name, spec in product.fields.items()
            if name not in product.items.fields
        ]
        self._own = [FieldReader(name, spec) for name, spec in product.items.fields.items()]
        self._single_product = ProductReader(product, rules) if product.items.optional else None

    def read(self, document: Document, last_content: UUID | None = None) -> Extracted:
        """Reads the page's products. `last_content`: as in `ProductReader.read`, for a page of one
        product."""
        items, matched = self._scope(document)
        if not items:
            if self._single_product is not None:
                return _as_single_product(self._single_product.read(document, last_content))
            problem = f"items: nothing matched {self._described}"
            return Extracted(problems=[problem], complete=False)
        problems: list[str] = []
        filled_in: list[str] = []
        mistyped: list[str] = []
        data: dict[str, Any] = {}
        complete = True
        for field in self._shared:
            complete &= field.read(document, data, problems, filled_in, mistyped)
            document.budget.check(field.name)
        if not complete:
            return Extracted(
                problems=problems, complete=False, found=tuple(filled_in), mistyped=tuple(mistyped)
            )
        reading = _PageItems(self._id, self._own, _Shared(data, tuple(filled_in)))
        for item in items:
            reading.add(item)
            document.budget.check("its items")
            if reading.chars > CHARS_MAX:
                break
        return reading.to_extracted(problems, matched)

    def find_item(self, document: Document, external_id: str | None) -> PageItem | None:
        """Returns the item with that id, or the first item with an id if it is None."""
        for item in self._scope(document).items:
            named = self._id.read(item, [])
            if named is not None and external_id in (None, named):
                return item
        return None


class _PageItems:
    """Collects the products of one page."""

    def __init__(self, ids: IdReader, own: list[FieldReader], shared: _Shared) -> None:
        self._ids = ids
        self._own = own
        self._shared = shared
        self._data: dict[str, dict[str, Any]] = {}
        self._found: dict[str, tuple[str, ...]] = {}
        self._all_found: list[str] = []
        self._mistyped: list[str] = []
        self._unread: dict[str, None] = {}
        self._problems: Counter[str] = Counter()
        self._example: dict[str, str] = {}
        self._records = 0
        self._parts = 0
        self._unnamed = 0
        self.chars = 0

    def add(self, item: PageItem) -> None:
        """Reads an item. A repeated item with the same content counts once."""
        data = dict(self._shared.data)
        problems: list[str] = []
        filled_in: list[str] = []
        self._parts += 1
        external_id = self._ids.read(item, problems)
        complete = True
        for field in self._own:
            complete &= field.read(item, data, problems, filled_in, self._mistyped)
        if external_id is None and not filled_in:
            return
        twice = external_id in self._data
        if external_id is not None and twice and self._data[external_id] == data:
            return
        self._records += 1
        names = tuple(dict.fromkeys((*self._shared.filled_in, *filled_in)))
        self._all_found += names
        self._note_problems(problems, external_id)
        if external_id is None:
            self._unnamed += 1
        elif twice:
            del self._data[external_id]
            self._unread[external_id] = None
            self._note_problems(
                [f"id: {external_id!r} belongs to products that differ"], external_id
            )
        elif complete and external_id not in self._unread:
            self._data[external_id] = data
            self._found[external_id] = names
            self.chars += count_chars(data)
        else:
            self._unread[external_id] = None

    def _note_problems(self, problems: list[str], external_id: str | None) -> None:
        for problem in problems:
            self._problems[problem] += 1
            self._example.setdefault(problem, external_id or "an item without an id")

    def to_extracted(self, problems: list[str], matched: int) -> Extracted:
        cut = matched - self._parts
        problems = [*problems, *self._summarize_problems()]
        if cut:
            more = f"{matched:,} or more" if matched >= ITEMS_MAX * 10 else f"{matched:,}"
            problems.append(f"items: {more} on the page, the first {self._parts:,} are read")
        if not self._records:
            problems.append("items: none of them has an id or a field of its own")
        return Extracted(
            products=[Product(external_id, data) for external_id, data in self._data.items()],
            problems=problems,
            complete=bool(self._data),
            found=tuple(self._all_found),
            mistyped=tuple(self._mistyped),
            items=ItemsRead(
                max(1, self._records),
                self._found,
                tuple(self._unread),
                whole=not cut and not self._unnamed,
            ),
        )

    def _summarize_problems(self) -> list[str]:
        """Returns each problem once, with the number of items that have it."""
        return [
            problem
            if self._records == 1
            else f"{problem} ({count} of {self._records} items, such as {self._example[problem]})"
            for problem, count in self._problems.most_common(PROBLEMS_MAX)
        ]


def _as_single_product(extracted: Extracted) -> Extracted:
    """Marks a page without items as the page of a single product."""
    if not extracted.complete:
        return extracted
    by_id = {product.external_id: extracted.found for product in extracted.products}
    return replace(extracted, items=ItemsRead(1, by_id))
