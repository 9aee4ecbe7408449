"""The YAML key `one_address:` of a definition. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from scraper.sites.grammar import selectors
from scraper.sites.grammar.model import Problems
from scraper.sites.plugin_keys import DefinitionKeys

if TYPE_CHECKING:
    from scraper.sites.definition import Site


class CoverageKeys(DefinitionKeys):
    one_address: bool = Field(
        False,
        description="read a product at one of its addresses: those with the same `product.id.url`",
    )

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        if site.of(cls).one_address and _find_pattern(site) is None:
            problems.add(
                "one_address",
                "needs an id that is read from addresses (fix: `product: {id: {url: REGEX}}`)",
            )


def id_of_address(site: Site) -> Callable[[str], str | None] | None:
    """Returns what reads a product's id from an address; None without `one_address`."""
    pattern = _find_pattern(site) if site.of(CoverageKeys).one_address else None
    if pattern is None:
        return None
    compiled = selectors.compile_regex(pattern)
    return lambda url: selectors.find_first(compiled, url) or None


def _find_pattern(site: Site) -> str | None:
    source = site.product.id
    return source.url if source is not None and not source.any else None
