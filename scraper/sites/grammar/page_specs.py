"""What is read from which pages of a site: sitemaps, listing pages, product pages. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scraper.sites.grammar import auto_fields, scalars
from scraper.sites.grammar.fields import FieldSpec, IdSource
from scraper.sites.grammar.items import Items
from scraper.sites.grammar.links import Links, Pages
from scraper.sites.grammar.model import FieldName, Function, Model, Regex, as_css, wrong
from scraper.sites.grammar.routes import Proxy, Queue
from scraper.sites.grammar.sources import alternatives, path_problem

StartUrl = Annotated[str, AfterValidator(scalars.check_start_url)]


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


STRINGS = BeforeValidator(as_list, json_schema_input_type=str | list[str])
UrlList = Annotated[tuple[StartUrl, ...], STRINGS, Field(max_length=10_000)]


class Sitemap(Model):
    """Where the shop lists its own pages."""

    urls: UrlList = Field(
        min_length=1, description="sitemaps, sitemap indexes, or robots.txt (its Sitemap: lines)"
    )
    products: Regex | None = Field(
        None, description="product URLs; default: all that `listings` does not take"
    )
    listings: Regex | None = Field(None, description="listing URLs; default: none")


class Listing(Model):
    """What is taken from listing pages."""

    products: Links = Field((), description="links to product pages")
    listings: Links = Field((), description="links to further listing pages, such as categories")
    next: Links = Field((), description="the link to the next listing page")
    pages: Pages | None = Field(None, description="numbered listing pages")
    function: Function | None = Field(
        None, description="`module:function`, in place of or beside the selectors"
    )
    queue: Queue | None = Field(
        None, description="for listing pages and sitemaps; default: the site's"
    )
    proxy: Proxy | None = Field(
        None, description="for listing pages and sitemaps; default: the site's"
    )

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.products or self.listings or self.function):
            raise wrong(("", "finds no links (mend: give products, listings or function)"))
        return self


class ProductPage(Model):
    """What is taken from product pages."""

    id: (
        Annotated[IdSource, BeforeValidator(as_css, json_schema_input_type=str | IdSource)] | None
    ) = Field(None, description="the shop's own id; default: the URL")
    fields: Annotated[
        dict[
            FieldName,
            Annotated[FieldSpec, BeforeValidator(as_css, json_schema_input_type=str | FieldSpec)],
        ],
        BeforeValidator(
            auto_fields.as_fields,
            json_schema_input_type=Literal["auto"] | dict[FieldName, str | FieldSpec],
        ),
    ] = Field(
        default_factory=dict, max_length=500, description="name -> CSS, auto, or a mapping; or auto"
    )
    items: Annotated[
        Items | None, BeforeValidator(as_css, json_schema_input_type=str | Items | None)
    ] = Field(
        None, description="several products on a page, such as variants; `fields` are all of theirs"
    )
    function: Function | None = Field(None, description="`module:function`, in place of fields")
    queue: Queue | None = Field(None, description="for product pages; default: the site's")
    proxy: Proxy | None = Field(None, description="for product pages; default: the site's")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        named = self.all_fields
        if not named and self.function is None:
            problems.append(
                ("", "has no fields (mend: `fields:` with at least one, or `function:`)")
            )
        if self.function is not None and (self.fields or self.id is not None or self.items):
            problems.append((
                "function",
                "takes the place of id, fields and items (mend: remove it, or remove them)",
            ))  # fmt: skip
        if "id" in self.fields:
            problems.append(
                ("fields.id", "the id has a place of its own (mend: move it to `product.id`)")
            )
        problems += self._items_problems()
        for name, spec in named.items():
            key = f"fields.{name}" if name in self.fields else f"items.fields.{name}"
            if spec.type == "price" and f"{name}_currency" in named:
                problems.append((
                    f"{key}_currency",
                    f"the price {name} already gives {name}_currency (mend: remove it, or use "
                    f"another name)",
                ))  # fmt: skip
            if spec.auto_read and f"{name}_confidence" in named:
                problems.append((
                    f"fields.{name}_confidence",
                    f"`auto` already gives {name}_confidence (mend: use another name)",
                ))  # fmt: skip
        sources = alternatives("id", self.id) if self.id is not None else {}
        for name, spec in self.fields.items():
            sources |= alternatives(f"fields.{name}", spec)
        for key, source in sources.items():
            if source.described.startswith("path "):
                problems.append((f"{key}.path", path_problem(None)[1]))
        if problems:
            raise wrong(*problems)
        return self

    def _items_problems(self) -> list[tuple[str, str]]:
        if self.items is None:
            return []
        problems: list[tuple[str, str]] = []
        for name, spec in self.items.fields.items():
            of_page = self.fields.get(name)
            if of_page is None:
                continue
            if not self.items.optional:
                text = "is a field of the page, too (mend: keep one of the two)"
                problems.append((f"items.fields.{name}", text))
            elif of_page.type != spec.type:
                text = f"is of type {of_page.type} on pages without items (mend: one type for both)"
                problems.append((f"items.fields.{name}", text))
        if "id" in self.items.fields:
            mend = "move it to `product.items.id`"
            problems.append(("items.fields.id", f"the id has a place of its own (mend: {mend})"))
        if self.id is not None and not self.items.optional:
            problems.append(("id", (
                "with `items` each product has its own, `items.id` (mend: remove it; or write "
                "`items: {optional: true}` where pages without any are products, too)"
            )))  # fmt: skip
        return problems

    @property
    def all_fields(self) -> dict[str, FieldSpec]:
        """Those of the page and those of its items, by their names in the stored product."""
        return {**self.fields, **self.own_fields} if self.items is not None else self.fields

    @property
    def own_fields(self) -> dict[str, FieldSpec]:
        """Those of its items; none where a page has one product."""
        return self.items.fields if self.items is not None else {}

    @property
    def required(self) -> list[str]:
        return [name for name, spec in self.all_fields.items() if spec.required]
