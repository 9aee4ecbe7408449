"""Listings that name new addresses for ever, and no new product: robots.txt disallows these pages,
they are missing or invalid, or they repeat known products. The links to further listings are cut.

The frontier ends chains of listings that bring no new address (`scraper.results.listing_traps`).
New session ids are new addresses, and what they are worth shows only when their pages are read.
A shop may have lists of known products under other addresses before a list of new ones. So pages
that repeat products count only once they are as many as all products found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scraper.domain import Kind
from scraper.frontier.pages import CUT_OFF, NewPage
from scraper.results.transaction import PageResult

# Since the last new product, for each of `limits.fruitless`: this many listings were read,
# and this many product pages failed by their own fault. A host that is down counts nothing.
LISTS_PER_STEP = 2
FAILURES_PER_STEP = 5
CRAWLS_MAX = 1000

READ = sa.text("""
SELECT c.id, now() AS at, discovery_done AS lists, gone + invalid AS failures,
       coalesce(r.pages, 0) AS repeated,
       product_done - gone - dead - invalid - dropped - coalesce(r.pages, 0) AS good
  FROM crawls c LEFT JOIN crawl_repeated_pages r ON r.crawl_id = c.id
 WHERE c.id = ANY (:ids)
""")
DISALLOWED = sa.text("""
SELECT count(*) FROM pages
 WHERE crawl_id = :id AND settled_at >= :since AND error IS NOT NULL AND status = 'dead'
   AND last_outcome = 'robots_disallowed'
""")


@dataclass(frozen=True, slots=True)
class Growth:
    """A crawl's counters when its products last became more."""

    good: int
    lists: int
    failures: int
    repeated: int
    at: datetime


class SterileLists:
    """Watches the crawls of one worker process. Not thread-safe."""

    def __init__(self) -> None:
        self._growth: dict[int, Growth] = {}

    def cut_links(
        self, connection: sa.Connection, pages: Sequence[PageResult], fruitless: dict[int, int]
    ) -> list[PageResult]:
        """Returns the results, whose links to listings lead no further in a crawl without new
        products. `fruitless`: the limit of each crawl whose listings are among the pages."""
        rows = connection.execute(READ, {"ids": sorted(fruitless)}).all()
        sterile = {row.id for row in rows if self._is_sterile(connection, row, fruitless[row.id])}
        return [
            replace(page, links=[_cut_listing(link) for link in page.links])
            if page.crawl_id in sterile
            else page
            for page in pages
        ]

    def _is_sterile(self, connection: sa.Connection, row: sa.Row[Any], fruitless: int) -> bool:
        growth = self._growth.get(row.id)
        if growth is None or row.good > growth.good:
            self._growth.pop(row.id, None)
            self._growth[row.id] = Growth(row.good, row.lists, row.failures, row.repeated, row.at)
            if len(self._growth) > CRAWLS_MAX:
                del self._growth[next(iter(self._growth))]
            return False
        if row.lists - growth.lists < LISTS_PER_STEP * fruitless:
            return False
        least = FAILURES_PER_STEP * fruitless
        if row.repeated - growth.repeated >= max(least, growth.good):
            return True
        values = {"id": row.id, "since": growth.at}
        disallowed = int(connection.execute(DISALLOWED, values).scalar_one())
        failures = int(row.failures) - growth.failures + disallowed
        return failures >= least


def _cut_listing(link: NewPage) -> NewPage:
    return link if link.kind is Kind.PRODUCT else replace(link, barren_depth=CUT_OFF)
