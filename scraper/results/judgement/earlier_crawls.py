"""The earlier crawls of a site: which of them are comparable, and what a previous suspect crawl
says of the current one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from scraper.frontier.crawls import REEXTRACT, REPLAY, VISIT
from scraper.results.judgement import plausibility
from scraper.rules import quality as policy
from scraper.rules.quality import Reason

# The crawls of a site before one, except those of selected pages.
EARLIER = f"""c.site_id = :site_id AND c.id < :id
   AND c.trigger NOT IN ('{REPLAY}', '{VISIT}', '{REEXTRACT}')"""

BEFORE = sa.text(f"""
SELECT c.id, c.suspect, q.products, q.missed,
       (SELECT jsonb_agg(reason) FROM jsonb_array_elements(c.reasons) AS reason
         WHERE reason ->> 'level' IS DISTINCT FROM 'notice') AS reasons
  FROM crawls c LEFT JOIN crawl_quality q ON q.crawl_id = c.id
 WHERE {EARLIER} AND c.status IN ('completed', 'failed') ORDER BY c.id DESC LIMIT :crawls
""")


@dataclass(frozen=True, slots=True)
class SuspectCrawl:
    """The previous crawl, which was suspect: why, how many good products it found, and how many it
    missed (None if it was not complete)."""

    id: int
    reasons: list[dict[str, Any]]
    products: int | None
    missed: int | None

    @property
    def missed_id(self) -> int | None:
        """The crawl's id if its misses were counted without effect: they may count with those of
        the next crawl."""
        return None if self.missed is None else self.id

    def found_as_many(self, products: int | None) -> bool:
        """Returns True if the next crawl has found the same number of products."""
        both = self.products is not None and products is not None
        return both and plausibility.says_the_same(products or 0, self.products or 0)


def suspect_crawl(connection: sa.Connection, crawl: sa.Row[Any]) -> SuspectCrawl | None:
    """Returns the previous crawl, if it was suspect."""
    for row in _earlier_crawls(connection, crawl, 1):
        if row.reasons:
            return SuspectCrawl(row.id, row.reasons, row.products, row.missed)
    return None


def doubted_crawl(
    connection: sa.Connection, crawl_id: int, before: SuspectCrawl | None
) -> int | None:
    """Returns the id of the previous crawl if its misses had no effect, and this one, which is
    judged, has found the same number of products: what both have missed is missed twice."""
    query = sa.text("SELECT products FROM crawl_quality WHERE crawl_id = :id")
    products = connection.execute(query, {"id": crawl_id}).scalar()
    return before.missed_id if before is not None and before.found_as_many(products) else None


def have_same_reasons(
    connection: sa.Connection, crawl: sa.Row[Any], reasons: list[Reason], wanted: int | None
) -> bool:
    """Returns True if `wanted` crawls in a row, up to this one, are suspect for the same
    reasons."""
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
