"""What alerts need to know of one article over all shops. A plug-in fills the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class ShopOffer:
    """A shop's best offer of an article. `price` and `in_stock` are None if unknown."""

    site: str
    id: str
    url: str | None
    title: str
    price: Decimal | None
    currency: str | None
    in_stock: bool | None


# The name of a shop, its id of a product, and a currency.
OfferKey = tuple[str, str, str | None]


@dataclass(frozen=True, slots=True)
class MarketEvent:
    """How the offers of an article changed. `id` grows in the order of the commits; `crawl` is None
    where the operator's own catalogue changed."""

    id: int
    at: datetime
    article: int
    crawl: int | None
    before: Sequence[ShopOffer]
    after: Sequence[ShopOffer]


class MarketEvents(Protocol):
    """The events of all articles, in the order in which they were committed."""

    def read_events(
        self, connection: sa.Connection, after: int, most: int
    ) -> Sequence[MarketEvent]:
        """Returns the events after one, and of an article once it has several shops."""

    def last_event(self, connection: sa.Connection) -> int:
        """Returns the id of the newest event, or 0."""

    def find_rival(self, connection: sa.Connection, key: OfferKey) -> ShopOffer | None:
        """Returns the cheapest offer, in stock and in that currency, that other shops make of the
        article to which an offer belongs; None if there is none."""
