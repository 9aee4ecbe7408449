"""The proposals that wait for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.infra.database import rows_as
from scraper.infra.statements import sql

PROPOSED = sa.text(sql("plugins/matching/proposed_links.sql"))
COUNTS = sa.text("""
SELECT state, method, count(*) AS links FROM offer_links GROUP BY 1, 2 ORDER BY 1, 2
""")
AT_ONCE = 50


# Confidence, and the ids of both offers.
Place = tuple[float, int, int]


class Proposal(NamedTuple):
    """Two offers that may be one product, with the evidence."""

    left_id: int
    right_id: int
    confidence: float
    evidence: dict[str, Any]
    left_site: str
    left_external_id: str
    left_title: str
    left_price: Any
    left_currency: str | None
    left_url: str | None
    right_site: str
    right_external_id: str
    right_title: str
    right_price: Any
    right_currency: str | None
    right_url: str | None

    @property
    def place(self) -> Place:
        """The place in the order of review."""
        return self.confidence, self.left_id, self.right_id


def read_proposals(
    connection: sa.Connection, after: Place | None = None, most: int = AT_ONCE
) -> list[Proposal]:
    """Returns the next proposals after a place in their order, the most confident first."""
    confidence, left, right = after or (None, None, None)
    values = {"confidence": confidence, "left": left, "right": right, "most": most}
    return rows_as(Proposal, connection.execute(PROPOSED, values))


def iterate_proposals(engine: sa.Engine) -> Iterator[Proposal]:
    """Yields proposals, and reads further ones when they are asked for: decisions in between are
    respected."""
    last: Place | None = None
    while True:
        with engine.connect() as connection:
            batch = read_proposals(connection, last, 1)
        if not batch:
            return
        last = batch[0].place
        yield batch[0]


def count_links(connection: sa.Connection) -> list[dict[str, Any]]:
    """Returns how many links there are, by state and method."""
    return [dict(row) for row in connection.execute(COUNTS).mappings()]


def describe_evidence(evidence: dict[str, Any]) -> str:
    """Returns the evidence as one line for people.

    >>> describe_evidence({"brand": "same", "title": 0.91, "price_ratio": 1.2})
    'brand same, titles 91% alike, prices differ by a factor of 1.2'
    """
    keys = [key for key in ("contradiction", "gtin", "mpn", "brand") if key in evidence]
    parts = [f"{key} {evidence[key]}" for key in keys]
    if "title" in evidence:
        parts.append(f"titles {evidence['title']:.0%} alike")
    if "price_ratio" in evidence:
        parts.append(f"prices differ by a factor of {evidence['price_ratio']:g}")
    return ", ".join(parts)
