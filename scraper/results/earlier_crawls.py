"""What the crawls of a site before one were like: which of them are to be compared with it, and
what the last one says of it where that was suspect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from scraper.frontier.crawls import REEXTRACT, REPLAY
from scraper.results import plausibility
from scraper.rules import quality as policy
from scraper.rules.quality import Reason

# The crawls of a site before one, but for those that somebody asked for some pages only.
EARLIER = f"""c.site_id = :site_id AND c.id < :id
   AND c.trigger NOT IN ('{REPLAY}', '{REEXTRACT}')"""

BEFORE = sa.text(f"""
SELECT c.id, c.suspect, c.reasons, q.products, q.missed
  FROM crawls c LEFT JOIN crawl_quality q ON q.crawl_id = c.id
 WHERE {EARLIER} AND c.status IN ('completed', 'failed') ORDER BY c.id DESC LIMIT :crawls
""")


@dataclass(frozen=True, slots=True)
class SuspectCrawl:
    """The crawl before, which was suspect: why, how many good products it has found, and how many
    it missed (None: nobody looked)."""

    id: int
    reasons: list[dict[str, Any]]
    products: int | None
    missed: int | None

    @property
    def missed_id(self) -> int | None:
        """Its id, where its misses were looked at and did not count: they may count with those of
        the crawl after it."""
        return None if self.missed is None else self.id

    def found_as_many(self, products: int | None) -> bool:
        """Whether the crawl after it has found the same number of products."""
        both = self.products is not None and products is not None
        return both and plausibility.says_the_same(products or 0, self.products or 0)


def suspect_crawl(connection: sa.Connection, crawl: sa.Row[Any]) -> SuspectCrawl | None:
    """The crawl before, if it was suspect."""
    for row in _earlier_crawls(connection, crawl, 1):
        if row.reasons:
            return SuspectCrawl(row.id, row.reasons, row.products, row.missed)
    return None


def doubted_crawl(
    connection: sa.Connection, crawl_id: int, before: SuspectCrawl | None
) -> int | None:
    """The id of the crawl before, where its misses did not count and this one, which is judged, has
    found the same number of products: what both have missed is missed twice."""
    query = sa.text("SELECT products FROM crawl_quality WHERE crawl_id = :id")
    products = connection.execute(query, {"id": crawl_id}).scalar()
    return before.missed_id if before is not None and before.found_as_many(products) else None


def have_same_reasons(
    connection: sa.Connection, crawl: sa.Row[Any], reasons: list[Reason], wanted: int | None
) -> bool:
    """Whether as many crawls in a row as are `wanted`, this one being the last, are suspect for the
    same reasons."""
    if wanted is None:
        return False
    sets = [frozenset((reason.field, str(reason.what)) for reason in reasons)]
    for row in _earlier_crawls(connection, crawl, wanted - 1):
        if row.reasons:
            stored = row.reasons if row.suspect else []
            sets.append(frozenset((reason["field"], reason["what"]) for reason in stored))
    return policy.reasons_repeat(sets, wanted)


def _earlier_crawls(
    connection: sa.Connection, crawl: sa.Row[Any], crawls: int
) -> sa.CursorResult[tuple[Any, ...]]:
    values = {"id": crawl.id, "site_id": crawl.site_id, "crawls": crawls}
    return connection.execute(BEFORE, values)
