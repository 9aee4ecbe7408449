"""Which raw pages of a site are kept: the `archive:` of a definition. Pure.

archive: true                       # every good answer of a product page, for 30 days
archive: {pages: all, answers: changed, keep: 90d}
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from scraper.domain import Kind
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import Duration, Model
from scraper.sites.plugin_keys import DefinitionKeys


def _check_keep(text: str) -> str:
    if not scalars.parse_duration(text):
        raise ValueError("keeps nothing (fix: `archive: false`, or how long, as in `keep: 30d`)")
    return text


class ArchiveUse(Model):
    """Which pages are archived, and for how long."""

    pages: Literal["products", "all"] = Field(
        "products", description="all: also listing pages; never sitemaps"
    )
    answers: Literal["all", "changed"] = Field(
        "all",
        description="changed: only pages whose extracted data differs from the last one",
    )
    keep: Annotated[Duration, AfterValidator(_check_keep)] = Field(
        "30d", description="how long: 30d, 12h"
    )

    @property
    def keep_s(self) -> float:
        return scalars.parse_duration(self.keep)

    def wants(self, kind: Kind) -> bool:
        """Returns whether good answers of pages of this kind are kept."""
        return kind is Kind.PRODUCT or (kind is Kind.LISTING and self.pages == "all")


def _as_archive(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if isinstance(value, str):
        raise ValueError(
            f"{value!r} is not an archive (fix: `true`, or a mapping, as in `{{keep: 30d}}`)"
        )
    return value


Archive = Annotated[
    ArchiveUse | None, BeforeValidator(_as_archive, json_schema_input_type=bool | ArchiveUse | None)
]


class ArchiveKeys(DefinitionKeys):
    archive: Archive = Field(
        None, description="true, or a mapping: archive raw pages; default: none"
    )
