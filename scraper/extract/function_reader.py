"""Runs a site's own Python function, and validates and cleans its results for storage. Its errors
become `FunctionFailed`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any

from scraper.domain import Extracted, Fetched, Kind, Link, Product, filled
from scraper.extract.adapter import Adapter, NextPage, origin
from scraper.extract.field_reader import ID_MAX
from scraper.extract.listing import LINKS_MAX, LinkFilter
from scraper.extract.product import make_url_id
from scraper.extract.values import DIGITS_MAX, INT_MAX
from scraper.rules.decoding import clean_text, make_storable
from scraper.sites import functions
from scraper.sites.page import Page

TEXT_MAX = 100_000
LIST_MAX = 1000
DEPTH_MAX = 8
MESSAGE_MAX = 500


class FunctionFailed(Exception):
    """The site's function raised, or yielded a value that cannot be stored. The message is
    limited to MESSAGE_MAX characters."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(make_storable(f"{name}: {reason}")[:MESSAGE_MAX])


class FunctionReader:
    """Calls a site's function, which is imported at the first call if its module is `allowed`."""

    def __init__(self, name: str, allowed: Collection[str], link_filter: LinkFilter) -> None:
        self._name = name
        self._allowed = allowed
        self._link_filter = link_filter

    @cached_property
    def _resolved_function(self) -> functions.PageFunction:
        return functions.resolve_function(self._name, self._allowed)

    def read(self, page: Page) -> Extracted:
        """Returns the function's links and products. Raises `FunctionFailed`."""
        links: dict[str, Link] = {}
        products: list[Product] = []
        problems: list[str] = []
        try:
            for count, item in enumerate(self._resolved_function(page) or ()):
                if count >= LINKS_MAX:
                    problems.append(
                        f"{self._name}: more than {LINKS_MAX:,} results, the others are left out"
                    )
                    break
                self._add_result(item, page, links, products)
        except FunctionFailed:
            raise
        except Exception as error:
            # A user's function may raise anything; the worker turns this error into an outcome.
            raise FunctionFailed(self._name, f"{type(error).__name__}: {error}") from error
        fields = tuple(key for product in products for key in filled(product.data))
        return Extracted(
            links=list(links.values()), products=products, problems=problems, found=fields
        )

    def _add_result(
        self, item: Any, page: Page, links: dict[str, Link], products: list[Product]
    ) -> None:
        match item:
            case str():
                self._add_link(item, Kind.PRODUCT, page, links)
            case Link():
                self._add_link(item.url, item.kind, page, links)
            case Product():
                products.append(self._make_product(item.external_id, item.data))
            case Mapping():
                data = {key: value for key, value in item.items() if key != "id"}
                given = item.get("id")
                products.append(
                    self._make_product(
                        make_url_id(page.url, self._link_filter.rules) if given is None else given,
                        data,
                    )
                )
            case _:
                raise FunctionFailed(
                    self._name,
                    f"yielded {type(item).__name__}; a URL, a Link, a Product or a dict is "
                    f"expected",
                )

    def _add_link(self, url: str, kind: Kind, page: Page, links: dict[str, Link]) -> None:
        cleaned = self._link_filter.clean_url(url, page.url, Kind(kind))
        if cleaned is not None and self._link_filter.owns_url(cleaned):
            links.setdefault(cleaned, Link(cleaned, Kind(kind)))

    def _make_product(self, external_id: Any, data: Mapping[str, Any]) -> Product:
        text = clean_text(str(external_id))
        if not text or len(text) > ID_MAX:
            raise FunctionFailed(
                self._name, f"a product's id must have 1 to {ID_MAX} characters, not {text[:60]!r}"
            )
        return Product(text, self._safe_mapping(data, "product", 0))

    def _safe_mapping(self, data: Mapping[str, Any], where: str, depth: int) -> dict[str, Any]:
        if len(data) > LIST_MAX:
            raise FunctionFailed(self._name, f"{where}: more than {LIST_MAX} keys")
        safe = {}
        for key, value in data.items():
            if not isinstance(key, str) or not 0 < len(key) <= 100:
                raise FunctionFailed(
                    self._name, f"{where}: a key must be a text of 1 to 100 characters"
                )
            safe[make_storable(key)] = self._safe_value(value, f"{where}.{key}", depth + 1)
        return safe

    def _safe_value(self, value: Any, where: str, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise FunctionFailed(self._name, f"{where}: nested deeper than {DEPTH_MAX} levels")
        match value:
            case None | bool():
                return value
            case str():
                return make_storable(str(value))[:TEXT_MAX]
            case int() if -INT_MAX - 1 <= value <= INT_MAX:
                return int(value)
            case float() if math.isfinite(value):
                return float(value)
            case Decimal() if (
                value.is_finite()
                and len(value.as_tuple().digits) <= DIGITS_MAX
                and abs(value.adjusted()) <= DIGITS_MAX
            ):
                return value
            case date():
                return value.isoformat()
            case Mapping():
                return self._safe_mapping(value, where, depth)
            case list() | tuple():
                return [
                    self._safe_value(item, f"{where}[]", depth + 1) for item in value[:LIST_MAX]
                ]
            case _:
                raise FunctionFailed(
                    self._name,
                    f"{where}: {type(value).__name__} {str(value)[:60]!r} cannot be stored",
                )


class AdapterReader(FunctionReader):
    """Reads the pages of a shop's own interface by an adapter. What the adapter gives is checked as
    a function's results are."""

    def __init__(self, adapter: Adapter, link_filter: LinkFilter) -> None:
        super().__init__(adapter.name, (), link_filter)
        self._adapter = adapter

    def read_rows(self, page: Fetched, asked: str) -> Extracted:
        links: list[Link] = []
        products: list[Product] = []
        try:
            for item in self._adapter.read(page, asked):
                if isinstance(item, NextPage):
                    links.append(Link(origin(asked) + item.path, Kind.LISTING))
                else:
                    products.append(self._make_product(item.pop("id"), item))
        except (ValueError, LookupError, TypeError, AttributeError, FunctionFailed) as error:
            # The shop's JSON may contain anything.
            reason = make_storable(f"{type(error).__name__}: {error}")[:MESSAGE_MAX]
            problem = f"its {self._name} interface is not as documented: {reason}"
            return Extracted(problems=[problem], complete=False)
        return Extracted(links, products)
