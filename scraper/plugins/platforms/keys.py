"""`platform:` in a definition: the shop platform whose own interface is read, and the fields that
its products' pages add. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field

from scraper.sites.grammar import auto_fields
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.model import STRINGS, FieldName, Model, Problems, expand_text
from scraper.sites.plugin_keys import DefinitionKeys

if TYPE_CHECKING:
    from scraper.sites.definition import Site

PlatformName = Literal["shopify", "woocommerce", "magento"]


class Platform(Model):
    """A platform, and what its interface lacks."""

    name: PlatformName = Field(
        description="read products through this platform's own interface, if it is open"
    )
    pages: Annotated[tuple[FieldName, ...], STRINGS] = Field(
        (), description="fields that only product pages have; each page is read once for them"
    )


class PlatformsKeys(DefinitionKeys):
    places: ClassVar[Mapping[str, type[BaseModel]]] = {"platform": Platform}

    platform: (
        Annotated[
            Platform,
            BeforeValidator(
                expand_text("name"), json_schema_input_type=PlatformName | Platform | None
            ),
        ]
        | None
    ) = Field(
        None, description="read products through this platform's own interface, if it is open"
    )

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        platform = site.of(cls).platform
        for at, name in enumerate(platform.pages if platform is not None else ()):
            spec = page_field(site, name)
            # A page is read once, and the interface in each crawl.
            if name in auto_fields.CHANGING or (spec is not None and spec.type == "price"):
                problems.add(
                    f"platform.pages.{at}",
                    f"{name} changes, and a page is read once (fix: remove it: the interface gives "
                    "what changes)",
                )
            elif spec is None:
                others = ", ".join(
                    name for name in auto_fields.TYPES if name not in auto_fields.CHANGING
                )
                problems.add(
                    f"platform.pages.{at}",
                    f"no source gives {name} (fix: add it to `product.fields`, or write one of "
                    f"{others})",
                )


def page_field(site: Site, name: str) -> FieldSpec | None:
    """Returns the source of a field on product pages: the definition's, or `auto`; None if there is
    none."""
    if name in site.product.fields:
        return site.product.fields[name]
    if name not in auto_fields.TYPES:
        return None
    return FieldSpec.model_validate({auto_fields.AUTO: name, **auto_fields.TYPES[name]})
