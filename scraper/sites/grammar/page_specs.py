"""The three kinds of pages in a definition: sitemaps, listing pages and product pages. Pure."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scraper.sites.grammar import auto_fields, scalars
from scraper.sites.grammar.fields import FieldSpec, IdSource
from scraper.sites.grammar.items import Items
from scraper.sites.grammar.links import Links, Pages
from scraper.sites.grammar.model import (
    STRINGS,
    FieldName,
    Function,
    Model,
    Problems,
    Regex,
    expand_css,
    refuse,
)
from scraper.sites.grammar.routes import Proxy, Queue
from scraper.sites.grammar.sources import list_alternatives, make_path_problem

StartUrl = Annotated[str, AfterValidator(scalars.check_start_url)]
UrlList = Annotated[tuple[StartUrl, ...], STRINGS, Field(max_length=10_000)]


class Sitemap(Model):
    """The sitemaps in which the shop lists its pages."""

    urls: UrlList = Field(
        min_length=1, description="sitemaps, sitemap indexes, or robots.txt (its Sitemap: lines)"
    )
    products: Regex | None = Field(
        None, description="regex of product URLs; default: all that do not match `listings`"
    )
    listings: Regex | None = Field(None, description="regex of listing URLs; default: none")
    follow: bool = Field(True, description="false: it is read for the number of its products alone")


class Listing(Model):
    """What is read from listing pages."""

    products: Links = Field((), description="links to product pages")
    listings: Links = Field((), description="links to more listing pages, such as categories")
    next: Links = Field((), description="the link to the next listing page")
    pages: Pages | None = Field(None, description="numbered listing pages")
    function: Function | None = Field(
        None, description="`module:function`, instead of the selectors or in addition to them"
    )
    queue: Queue | None = Field(
        None, description="for listing pages and sitemaps; default: the site's"
    )
    proxy: Proxy | None = Field(
        None, description="for listing pages and sitemaps; default: the site's"
    )

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not (self.products or self.listings or self.function):
            refuse("", "finds no links (fix: give products, listings or function)")
        return self


class ProductPage(Model):
    """What is read from product pages."""

    id: (
        Annotated[IdSource, BeforeValidator(expand_css, json_schema_input_type=str | IdSource)]
        | None
    ) = Field(None, description="the shop's own product id; default: the URL")
    fields: Annotated[
        dict[
            FieldName,
            Annotated[
                FieldSpec, BeforeValidator(expand_css, json_schema_input_type=str | FieldSpec)
            ],
        ],
        BeforeValidator(
            auto_fields.expand_fields,
            json_schema_input_type=Literal["auto"] | dict[FieldName, str | FieldSpec],
        ),
    ] = Field(
        default_factory=dict,
        max_length=500,
        description="name -> CSS, auto, or a mapping; or auto for all",
    )
    items: Annotated[
        Items | None, BeforeValidator(expand_css, json_schema_input_type=str | Items | None)
    ] = Field(
        None, description="several products on a page, such as variants; all of them share `fields`"
    )
    function: Function | None = Field(None, description="`module:function`, instead of fields")
    strip_params: Annotated[tuple[str, ...], STRINGS] = Field(
        (), description="further query parameters to drop from links to products; * allowed"
    )
    queue: Queue | None = Field(None, description="for product pages; default: the site's")
    proxy: Proxy | None = Field(None, description="for product pages; default: the site's")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        problems = Problems()
        named = self.all_fields
        if not named and self.function is None:
            problems.add("", "has no fields (fix: `fields:` with at least one, or `function:`)")
        if self.function is not None and (self.fields or self.id is not None or self.items):
            problems.add(
                "function", "replaces id, fields and items (fix: remove it, or remove them)"
            )
        if "id" in self.fields:
            problems.add("fields.id", "the id has its own key (fix: move it to `product.id`)")
        if self.items is not None:
            self._check_items(self.items, problems)
        for name, spec in named.items():
            key = f"fields.{name}" if name in self.fields else f"items.fields.{name}"
            if spec.type == "price" and f"{name}_currency" in named:
                problems.add(
                    f"{key}_currency",
                    f"the price {name} already gives {name}_currency (fix: remove it, or use "
                    "another name)",
                )
            if spec.has_auto and f"{name}_confidence" in named:
                problems.add(
                    f"fields.{name}_confidence",
                    f"`auto` already gives {name}_confidence (fix: use another name)",
                )
        sources = list_alternatives("id", self.id) if self.id is not None else {}
        for name, spec in self.fields.items():
            sources |= list_alternatives(f"fields.{name}", spec)
        for key, source in sources.items():
            if source.described.startswith("path "):
                problems.add(f"{key}.path", make_path_problem(None)[1])
        problems.raise_any()
        return self

    def _check_items(self, items: Items, problems: Problems) -> None:
        for name, spec in items.fields.items():
            of_page = self.fields.get(name)
            if of_page is None:
                continue
            key = f"items.fields.{name}"
            if not items.optional:
                problems.add(key, "is also a field of the page (fix: keep one of the two)")
            elif of_page.type != spec.type:
                problems.add(
                    key,
                    f"is of type {of_page.type} on pages without items (fix: one type for both)",
                )
        if "id" in items.fields:
            problems.add(
                "items.fields.id", "the id has its own key (fix: move it to `product.items.id`)"
            )
        if self.id is not None and not items.optional:
            problems.add(
                "id",
                "with `items` each product has its own id, `items.id` (fix: remove it; or write "
                "`items: {optional: true}` if pages without items are products, too)",
            )

    @property
    def all_fields(self) -> dict[str, FieldSpec]:
        """The fields of the page and of its items, by their names in the stored product."""
        return {**self.fields, **self.own_fields} if self.items is not None else self.fields

    @property
    def own_fields(self) -> dict[str, FieldSpec]:
        """The fields of the items; empty if a page has one product."""
        return self.items.fields if self.items is not None else {}

    @property
    def required(self) -> list[str]:
        return [name for name, spec in self.all_fields.items() if spec.required]
