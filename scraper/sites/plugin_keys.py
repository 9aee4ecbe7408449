"""The keys that plug-ins add to definitions: `Site` inherits from each plug-in's class of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel

from scraper.sites.grammar.model import Model, Problems

if TYPE_CHECKING:
    from scraper.sites.definition import Site


class DefinitionKeys(Model):
    """The base of a plug-in's keys: pydantic fields, each with a default that means "not used".

    `reading_keys` names the keys that decide what is sent for a product page or read from it: a
    page that has not changed is read again once one of them changes. `places` maps a dotted key to
    the model of the mapping that stands there, for hints at misspelt keys."""

    reading_keys: ClassVar[frozenset[str]] = frozenset()
    places: ClassVar[Mapping[str, type[BaseModel]]] = {}

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        """Adds what these keys and others say together and cannot be."""
