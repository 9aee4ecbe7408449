"""The YAML key `dedup:` of a definition: how a site's fetched pages are remembered. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from scraper.sites.grammar.model import expand_text
from scraper.sites.plugin_keys import DefinitionKeys

if TYPE_CHECKING:
    from scraper.sites.definition import Site
from typing import Literal

from pydantic import Field, model_validator

from scraper.sites.grammar.model import Model, Problems, refuse

# The largest default; a filter grows if it is too small.
CAPACITY_MAX = 10_000_000


class Dedup(Model):
    """How fetched pages are remembered: by their row in the frontier, or by a Bloom filter."""

    by: Literal["exact", "bloom"] = Field(
        description="exact: all pages stay in the frontier; bloom: finished pages leave it"
    )
    capacity: int | None = Field(
        None,
        ge=1000,
        le=10_000_000_000,
        description=(
            "the number of product pages that the filter is made for; default: "
            "limits.products, at most 10,000,000"
        ),
    )

    @model_validator(mode="after")
    def _consistent(self) -> Dedup:
        if self.by == "exact" and self.capacity is not None:
            refuse("capacity", "`by: exact` needs no filter (fix: remove it, or `by: bloom`)")
        return self

    def capacity_for(self, products: int) -> int:
        """Returns the filter's capacity in URLs; `products` is the limit of a crawl."""
        return self.capacity or max(1000, min(products, CAPACITY_MAX))


def check_dedup(dedup: Dedup, revisit_s: float, problems: Problems) -> None:
    """Adds a problem if the filter would forget pages at once."""
    if dedup.by == "bloom" and revisit_s <= 0:
        problems.add(
            "dedup",
            "a filter remembers pages for as long as `revisit` says, and that is 0 (fix: "
            "`revisit: 7d`)",
        )


class DedupKeys(DefinitionKeys):
    dedup: Annotated[
        Dedup,
        BeforeValidator(
            expand_text("by"), json_schema_input_type=Literal["exact", "bloom"] | Dedup
        ),
    ] = Field(
        Dedup.model_validate({"by": "exact"}),
        description="how fetched pages are remembered: exact, or bloom",
    )

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        check_dedup(site.of(cls).dedup, site.revisit_s, problems)
