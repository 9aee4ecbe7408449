"""What `dedup: bloom` means for the tables: which filter a crawl asks, and how finished pages leave
the frontier.

A page leaves only once it is finished for its crawl, by that status in the row itself; so a page
that is taken up again stays, whoever comes late. What follows from rows that are gone is decided
here too: which products were not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.plugins.dedup.bloom import BloomFilter
from scraper.plugins.dedup.keys import DedupKeys
from scraper.sites.definition import Site

# A URL must have been forgotten so often; see DELIST.
DELISTED_AFTER_LIVES = 2
# A product's `fetched_at` may be so much older than its page's last visit: `products.GUARD`.
GUARD_S = 3600
# So many pages are taken out of the frontier in one transaction.
CHUNK = 1000

BEGIN = sa.text("""
UPDATE crawls c SET filter_id = s.filter_id FROM sites s WHERE c.id = :id AND s.id = c.site_id
""")

RENEW = sa.text("UPDATE sites SET filter_id = gen_random_uuid() WHERE id = :site_id")

FILTER = sa.text("SELECT filter_id FROM crawls WHERE id = :id")

LEAVE = sa.text("""
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

# It reads what a crawl that has ended leaves behind: listings, gone and dropped pages, which nobody
# has to remember; and products that were not taken out at once, or come from before the site had a
# filter. Of these the ones that are too old for a generation which begins now stay rows, until they
# are fetched again or as old as a URL may be remembered.
LEFT_BEHIND = sa.text("""
SELECT id, fingerprint, good AND fetched_at > now() - :life_s * interval '0.5 second' AS remembered
  FROM (SELECT *, kind = 'product' AND status IN ('ok', 'unchanged') AS good FROM pages
         WHERE site_id = :site_id AND crawl_id <= :id
           AND status IN ('ok', 'unchanged', 'gone', 'dropped')
           AND fingerprint > :after) AS finished
 WHERE NOT good OR fetched_at > now() - :life_s * interval '0.5 second'
       OR fetched_at <= now() - :life_s * interval '1 second'
 ORDER BY fingerprint LIMIT :chunk
""").bindparams(sa.bindparam("after", type_=sa.Uuid))

# A page that a later crawl has taken up meanwhile belongs to that one, and stays.
TAKE_OUT = sa.text("""
DELETE FROM pages WHERE id = ANY (:ids) AND crawl_id <= :id
   AND status IN ('ok', 'unchanged', 'gone', 'dropped')
""")

CLEARED = sa.text("UPDATE crawls SET cleared_at = now() WHERE id = :id")

# A product that was listed is fetched in this crawl, or its URL was remembered: then it was fetched
# within a life before the crawl. Or the filter took it for another one. In each life it does so
# anew, once in a thousand times at the most; so a product counts as missed only if two lives have
# passed, in which a wrong answer is one in a million. A dead or invalid page was reached.
DELIST = sa.text("""
WITH missed AS (
    UPDATE products pr
       SET missed_crawls = least(pr.missed_crawls + 1, 1000),
           delisted_at = CASE WHEN pr.missed_crawls + 1 >= :delisted_after
                              THEN coalesce(pr.delisted_at, now()) END
      FROM crawls c
     WHERE c.id = :id AND pr.site_id = :site_id
       AND pr.fetched_at < c.started_at - (:lives * :life_s + :guard_s) * interval '1 second'
       AND NOT EXISTS (SELECT FROM pages pg
                       WHERE pg.site_id = :site_id AND pg.status IN ('dead', 'invalid')
                          AND pg.crawl_id = :id AND pg.url = pr.url)
    RETURNING pr.id, pr.version, coalesce(pr.delisted_at = now(), false) AS delisted
), fed AS (
    INSERT INTO changes (site_id, product_id, crawl_id, version, event)
    SELECT :site_id, id, :id, version, 'delisted' FROM missed WHERE delisted ORDER BY id
)
SELECT count(*) FROM missed WHERE delisted
""")


@dataclass(frozen=True, slots=True)
class EndedCrawl:
    """A crawl that has ended with finished pages still in the frontier. `newest` is its site's
    filter now."""

    id: int
    filter: BloomFilter
    newest: UUID


def begin(connection: sa.Connection, crawl_id: int, site_id: int, *, renew: bool) -> None:
    """Gives a crawl its site's filter; with `renew` a new one, which remembers nothing."""
    if renew:
        connection.execute(RENEW, {"site_id": site_id})
    connection.execute(BEGIN, {"id": crawl_id})


def renew(connection: sa.Connection, site_id: int) -> None:
    """Crawls that begin from now on remember nothing of what was before."""
    connection.execute(RENEW, {"site_id": site_id})


def filter_id(connection: sa.Connection, site_id: int) -> UUID:
    """The filter that the site's next crawl asks."""
    query = sa.text("SELECT filter_id FROM sites WHERE id = :id")
    return UUID(str(connection.execute(query, {"id": site_id}).scalar_one()))


def frontier_of(connection: sa.Connection, site_id: int) -> dict[str, int]:
    """The site's pages in the frontier, by status."""
    query = sa.text(
        "SELECT status, count(*) AS pages FROM pages WHERE site_id = :id GROUP BY status"
    )
    return {row.status: row.pages for row in connection.execute(query, {"id": site_id})}


def filter_of(
    connection: sa.Connection, crawl_id: int, site_id: int, site: Site
) -> BloomFilter | None:
    """The filter a crawl asks; None where its pages stay in the frontier."""
    filter_id = connection.execute(FILTER, {"id": crawl_id}).scalar()
    return None if filter_id is None else make_filter(site_id, filter_id, site)


def make_filter(site_id: int, filter_id: UUID, site: Site) -> BloomFilter:
    return BloomFilter(
        site_id,
        filter_id,
        site.revisit_s,
        site.of(DedupKeys).dedup.capacity_for(site.limits.products),
    )


def leave(connection: sa.Connection, page_ids: Sequence[int]) -> None:
    """Takes finished product pages out of the frontier, which are remembered already. One that is
    not finished stays."""
    connection.execute(LEAVE, {"ids": list(page_ids)})


def set_listed(connection: sa.Connection, crawl_id: int, products: int) -> None:
    connection.execute(LISTED, {"id": crawl_id, "listed": products})


def uncleared(connection: sa.Connection) -> list[EndedCrawl]:
    """Normally none, or those of the last seconds."""
    ended = []
    for row in connection.execute(UNCLEARED).all():
        try:
            site = Site.model_validate(row.definition)
        except ValidationError:
            # Another version stored it: its pages stay until the site's next crawl has ended.
            set_cleared(connection, row.id)
            continue
        ended.append(EndedCrawl(row.id, make_filter(row.site_id, row.filter_id, site), row.newest))
    return ended


def left_behind(connection: sa.Connection, ended: EndedCrawl, after: UUID) -> list[sa.Row[Any]]:
    """The next finished pages of a crawl's site, in the order of their fingerprints: (id,
    fingerprint, remembered: to be added to the filter first)."""
    values = {
        "id": ended.id,
        "site_id": ended.filter.site_id,
        "life_s": ended.filter.life_s,
        "after": after,
        "chunk": CHUNK,
    }
    return list(connection.execute(LEFT_BEHIND, values))


def take_out(connection: sa.Connection, ended: EndedCrawl, page_ids: Sequence[int]) -> None:
    connection.execute(TAKE_OUT, {"id": ended.id, "ids": list(page_ids)})


def set_cleared(connection: sa.Connection, crawl_id: int) -> None:
    connection.execute(CLEARED, {"id": crawl_id})


def delist(
    connection: sa.Connection, crawl_id: int, site_id: int, life_s: float, delisted_after: int
) -> int:
    """Counts a complete crawl's misses. Returns how many products became delisted with it."""
    values = {
        "id": crawl_id,
        "site_id": site_id,
        "life_s": life_s,
        "lives": DELISTED_AFTER_LIVES,
        "guard_s": GUARD_S,
        "delisted_after": delisted_after,
    }
    return int(connection.execute(DELIST, values).scalar_one())
