"""The tables' part of `dedup: bloom`: assigns filters to crawls, deletes finished pages from the
frontier, and delists missed products, which have no rows in the frontier.

A page is deleted only if its own row says that it is finished for its crawl. So a page that another
crawl has taken up stays, however late the deletion is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.infra.statements import sql
from scraper.plugins.dedup.bloom import BloomFilter
from scraper.plugins.dedup.keys import DedupKeys
from scraper.sites.definition import Site

# Lives that must pass without a fetch; see delist_missed.sql.
DELISTED_AFTER_LIVES = 2
# A product's `fetched_at` may be this much older than its page's last fetch.
GUARD_S = 3600
# Pages deleted from the frontier in one transaction.
CHUNK = 1000

ASSIGN = sa.text("""
UPDATE crawls c SET filter_id = s.filter_id FROM sites s WHERE c.id = :id AND s.id = c.site_id
""")

RENEW = sa.text("UPDATE sites SET filter_id = gen_random_uuid() WHERE id = :site_id")

FILTER = sa.text("SELECT filter_id FROM crawls WHERE id = :id")

DELETE_REMEMBERED = sa.text("""
DELETE FROM pages WHERE id = ANY (:ids) AND kind = 'product' AND status IN ('ok', 'unchanged')
""")

LISTED = sa.text(
    "UPDATE crawls SET products_listed = greatest(products_listed, :listed) WHERE id = :id"
)

UNCLEARED = sa.text("""
SELECT c.id, c.site_id, c.filter_id, s.filter_id AS newest, c.definition
  FROM crawls c JOIN sites s ON s.id = c.site_id
 WHERE c.filter_id IS NOT NULL AND c.cleared_at IS NULL
   AND c.status IN ('completed', 'stopped', 'failed')
 ORDER BY c.id LIMIT 20
""")

LEFTOVERS = sa.text(sql("plugins/dedup/leftovers.sql")).bindparams(
    sa.bindparam("after", type_=sa.Uuid)
)

# A page that a later crawl has taken up stays.
DELETE_FINISHED = sa.text("""
DELETE FROM pages WHERE id = ANY (:ids) AND crawl_id <= :id
   AND status IN ('ok', 'unchanged', 'gone', 'dropped')
""")

CLEARED = sa.text("UPDATE crawls SET cleared_at = now() WHERE id = :id")

DELIST_MISSED = sa.text(sql("plugins/dedup/delist_missed.sql"))


@dataclass(frozen=True, slots=True)
class EndedCrawl:
    """An ended crawl with finished pages still in the frontier. `newest` is its site's current
    filter."""

    id: int
    filter: BloomFilter
    newest: UUID


def assign_filter(connection: sa.Connection, crawl_id: int, site_id: int, *, renew: bool) -> None:
    """Assigns the site's filter to a crawl; with `renew`, a new and empty one."""
    if renew:
        connection.execute(RENEW, {"site_id": site_id})
    connection.execute(ASSIGN, {"id": crawl_id})


def renew_filter(connection: sa.Connection, site_id: int) -> None:
    """Gives the site a new and empty filter, which its next crawl uses."""
    connection.execute(RENEW, {"site_id": site_id})


def read_filter_id(connection: sa.Connection, site_id: int) -> UUID:
    """Returns the id of the filter that the site's next crawl uses."""
    query = sa.text("SELECT filter_id FROM sites WHERE id = :id")
    return UUID(str(connection.execute(query, {"id": site_id}).scalar_one()))


def count_pages(connection: sa.Connection, site_id: int) -> dict[str, int]:
    """Counts the site's pages in the frontier, by status."""
    query = sa.text(
        "SELECT status, count(*) AS pages FROM pages WHERE site_id = :id GROUP BY status"
    )
    return {row.status: row.pages for row in connection.execute(query, {"id": site_id})}


def find_filter(
    connection: sa.Connection, crawl_id: int, site_id: int, site: Site
) -> BloomFilter | None:
    """Returns a crawl's filter; None if its pages stay in the frontier."""
    filter_id = connection.execute(FILTER, {"id": crawl_id}).scalar()
    return None if filter_id is None else make_filter(site_id, filter_id, site)


def make_filter(site_id: int, filter_id: UUID, site: Site) -> BloomFilter:
    return BloomFilter(
        site_id,
        filter_id,
        site.revisit_s,
        site.of(DedupKeys).dedup.capacity_for(site.limits.products),
    )


def delete_remembered(connection: sa.Connection, page_ids: Sequence[int]) -> None:
    """Deletes product pages that the filter remembers. A page that is not finished stays."""
    connection.execute(DELETE_REMEMBERED, {"ids": list(page_ids)})


def set_listed(connection: sa.Connection, crawl_id: int, products: int) -> None:
    connection.execute(LISTED, {"id": crawl_id, "listed": products})


def read_uncleared(connection: sa.Connection) -> list[EndedCrawl]:
    """Returns the ended crawls with finished pages in the frontier: normally those that ended in
    the last seconds."""
    ended = []
    for row in connection.execute(UNCLEARED).all():
        try:
            site = Site.model_validate(row.definition)
        except ValidationError:
            # Another version stored the definition: the pages stay until the site's next crawl
            # has ended.
            set_cleared(connection, row.id)
            continue
        ended.append(EndedCrawl(row.id, make_filter(row.site_id, row.filter_id, site), row.newest))
    return ended


def read_leftovers(connection: sa.Connection, ended: EndedCrawl, after: UUID) -> list[sa.Row[Any]]:
    """Returns the next finished pages of a crawl's site in the order of their fingerprints, as
    (id, fingerprint, remembered). `remembered` ones must be added to the filter first."""
    values = {
        "id": ended.id,
        "site_id": ended.filter.site_id,
        "life_s": ended.filter.life_s,
        "after": after,
        "chunk": CHUNK,
    }
    return list(connection.execute(LEFTOVERS, values))


def delete_finished(connection: sa.Connection, ended: EndedCrawl, page_ids: Sequence[int]) -> None:
    connection.execute(DELETE_FINISHED, {"id": ended.id, "ids": list(page_ids)})


def set_cleared(connection: sa.Connection, crawl_id: int) -> None:
    connection.execute(CLEARED, {"id": crawl_id})


def delist_missed(
    connection: sa.Connection, crawl_id: int, site_id: int, life_s: float, delisted_after: int
) -> int:
    """Counts a complete crawl's missed products. Returns how many of them became delisted."""
    values = {
        "id": crawl_id,
        "site_id": site_id,
        "life_s": life_s,
        "lives": DELISTED_AFTER_LIVES,
        "guard_s": GUARD_S,
        "delisted_after": delisted_after,
    }
    return int(connection.execute(DELIST_MISSED, values).scalar_one())
