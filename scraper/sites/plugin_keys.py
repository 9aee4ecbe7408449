"""The keys that plug-ins add to definitions: `Site` inherits from each plug-in's class of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel

from scraper.sites.grammar.model import Model, Problems

if TYPE_CHECKING:
    from scraper.sites.definition import Site


class DefinitionKeys(Model):
    """The base class of a plug-in's keys: pydantic fields, whose defaults mean "not used".

    `reading_keys`: the keys that affect the request for a product page or what is read from it; if
    one of them changes, unchanged pages are read again. `places`: the models of nested mappings by
    dotted key, for hints at misspelt keys. Such a model inherits from
    `scraper.sites.grammar.model.Model`, which refuses unknown keys.
    """

    reading_keys: ClassVar[frozenset[str]] = frozenset()
    places: ClassVar[Mapping[str, type[BaseModel]]] = {}

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        """Adds the problems of these keys in combination with others."""
