"""Which products the operator waits for a change of. A plug-in fills the protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import sqlalchemy as sa

    from scraper.settings import Settings


@dataclass(frozen=True, slots=True)
class WatchRule:
    """Names products of a site: the one with this id, or those with these values of fields."""

    id: str | None = None
    where: Mapping[str, Any] = field(default_factory=dict)


def names_product(
    name: str | None, where: Mapping[str, Any], ids: Collection[str], data: Mapping[str, Any]
) -> bool:
    """Returns whether a rule's id and `where` name a product: one of `ids`, with these values.

    >>> names_product("7", {}, ["7"], {}), names_product(None, {"brand": "Lux"}, ["7"], {})
    (True, False)
    """
    return (name is None or name in ids) and all(
        data.get(field) == value for field, value in where.items()
    )


class WatchedProducts(Protocol):
    """Returns the rules that name some of a site's products, but not all."""

    def __call__(
        self, connection: sa.Connection, settings: Settings, site: str
    ) -> Sequence[WatchRule]: ...
