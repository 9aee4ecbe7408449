"""Dead and invalid pages in PostgreSQL: finds them by filters, counts them, reads one in full,
locks them to be replayed, and drops them.

Replaying itself is `frontier.pages.add_pages` with `again`. A page's reason is its last outcome,
and its age the time since its last verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from scraper.frontier.counters import CountsByCrawl, add_counts

ID_MAX = 2**63 - 1

SELECTED = """
  FROM pages p JOIN sites s ON s.id = p.site_id
 WHERE p.status IN ('dead', 'invalid')
   AND (CAST(:site AS text) IS NULL OR s.name = :site)
   AND (CAST(:status AS text) IS NULL OR p.status = :status)
   AND (CAST(:reason AS text) IS NULL OR p.last_outcome = :reason)
   AND (CAST(:host AS text) IS NULL OR p.host = :host)
   AND (CAST(:older_s AS float8) IS NULL OR p.settled_at < now() - :older_s * interval '1 second')
   AND (CAST(:newer_s AS float8) IS NULL OR p.settled_at >= now() - :newer_s * interval '1 second')
   AND (CAST(:ids AS bigint[]) IS NULL OR p.id = ANY (:ids))
   AND (CAST(:crawl_id AS bigint) IS NULL OR p.crawl_id = :crawl_id)
"""

FIND = sa.text(f"""
SELECT p.id, s.name AS site, p.crawl_id, p.kind, p.url, p.host, p.status,
       p.last_outcome AS reason, p.http_status, p.attempts, p.host_attempts, p.losses,
       p.error, p.settled_at
{SELECTED}
 ORDER BY p.settled_at DESC NULLS LAST, p.id DESC LIMIT :limit
""")

COUNT = sa.text(f"SELECT count(*) {SELECTED}")

SUMMARY = sa.text(f"""
SELECT s.name AS site, p.status, p.last_outcome AS reason, p.host, count(*) AS pages,
       min(p.settled_at) AS first_at, max(p.settled_at) AS last_at, max(p.id) AS example
{SELECTED}
 GROUP BY s.name, p.status, p.last_outcome, p.host
 ORDER BY s.name, pages DESC, p.status, reason, p.host
""")

BY_SITE = sa.text(f"""
SELECT p.site_id AS id, s.name, count(*) AS pages {SELECTED}
 GROUP BY p.site_id, s.name ORDER BY s.name
""")

# The frontier's own order, so that two transactions that lock the same pages cannot deadlock. The
# second one reads the rows after the first has committed, so it sees which are no longer dead.
BATCH = f"""
{SELECTED}
   AND p.site_id = :site_id AND (CAST(:after AS uuid) IS NULL OR p.fingerprint > :after)
 ORDER BY p.fingerprint LIMIT :limit FOR NO KEY UPDATE OF p
"""

LOCK = sa.text(f"""
SELECT p.fingerprint, p.crawl_id, p.status, p.url, p.kind, p.host, p.depth {BATCH}
""")

DROP = sa.text(f"""
WITH picked AS MATERIALIZED (SELECT p.id, p.status AS before {BATCH})
UPDATE pages p SET status = 'dropped', settled_at = now()
  FROM picked WHERE p.id = picked.id
RETURNING p.fingerprint, p.crawl_id, picked.before
""")

READ = sa.text("""
SELECT p.id, s.name AS site, s.paused, p.crawl_id, c.status AS crawl_status, p.kind, p.url,
       p.host, p.queue, p.depth, p.status, p.last_outcome AS reason, p.http_status,
       p.attempts, p.host_attempts, p.losses, p.error, p.discovered_at,
       p.fetched_at, p.settled_at, p.response_head, p.excerpt
  FROM pages p JOIN sites s ON s.id = p.site_id JOIN crawls c ON c.id = p.crawl_id
 WHERE p.id = :id
""")

OF_URL = sa.text("""
SELECT p.id, s.name AS site FROM sites s JOIN pages p ON p.site_id = s.id
   AND p.fingerprint = ANY (:fingerprints)
 ORDER BY p.id
""")

# The row is held, as by a settling transaction, so the crawl cannot end before this transaction
# does.
ACTIVE_CRAWL = sa.text("""
SELECT id, status, definition, definition_hash FROM crawls
 WHERE site_id = :site_id AND status IN ('planned', 'running') FOR KEY SHARE
""")


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of dead and invalid pages: those that match every filter. None matches all pages.
    `ids` are pages' ids, `crawl_id` is the last crawl that reached them, `older_s` and `newer_s`
    are bounds of the time since the last verdict."""

    site: str | None = None
    status: str | None = None
    reason: str | None = None
    host: str | None = None
    older_s: float | None = None
    newer_s: float | None = None
    ids: tuple[int, ...] | None = None
    crawl_id: int | None = None


@dataclass(frozen=True, slots=True)
class SitePages:
    """The number of selected pages of a site."""

    id: int
    name: str
    pages: int


def find_pages(connection: sa.Connection, selection: Selection, limit: int) -> list[sa.Row[Any]]:
    """Returns selected pages, the newest verdict first."""
    return list(connection.execute(FIND, {**_filter_values(selection), "limit": limit}))


def count_pages(connection: sa.Connection, selection: Selection) -> int:
    return int(connection.execute(COUNT, _filter_values(selection)).scalar_one())


def summarize_pages(connection: sa.Connection, selection: Selection) -> list[sa.Row[Any]]:
    """Counts pages by site, status, reason and host; the newest page is each count's example."""
    return list(connection.execute(SUMMARY, _filter_values(selection)))


def count_by_site(connection: sa.Connection, selection: Selection) -> list[SitePages]:
    return [
        SitePages(row.id, row.name, row.pages)
        for row in connection.execute(BY_SITE, _filter_values(selection))
    ]


def lock_pages(
    connection: sa.Connection, selection: Selection, site_id: int, after: UUID | None, limit: int
) -> list[sa.Row[Any]]:
    """Locks up to `limit` selected pages of a site, in the order of their fingerprints, after
    `after`. Fewer rows mean that none is left."""
    return list(connection.execute(LOCK, _batch_values(selection, site_id, after, limit)))


def drop_pages(
    connection: sa.Connection, selection: Selection, site_id: int, after: UUID | None, limit: int
) -> list[sa.Row[Any]]:
    """Drops up to `limit` selected pages of a site, and counts that in their crawls."""
    rows = list(connection.execute(DROP, _batch_values(selection, site_id, after, limit)))
    counts = CountsByCrawl()
    for row in rows:
        mine = counts[row.crawl_id]
        mine.dropped += 1
        mine.dead -= row.before == "dead"
        mine.invalid -= row.before == "invalid"
    add_counts(connection, counts)
    return rows


def read_page(connection: sa.Connection, page_id: int) -> sa.Row[Any] | None:
    """Returns everything about a page, whatever its status."""
    return connection.execute(READ, {"id": page_id}).first() if 0 < page_id <= ID_MAX else None


def find_by_url(connection: sa.Connection, fingerprints: Sequence[UUID]) -> list[sa.Row[Any]]:
    """Returns the pages (id, site) of a URL, which may belong to several sites."""
    return list(connection.execute(OF_URL, {"fingerprints": list(fingerprints)}))


def active_crawl(connection: sa.Connection, site_id: int) -> sa.Row[Any] | None:
    """Returns the crawl of a site that has not ended, and holds it until this transaction ends."""
    return connection.execute(ACTIVE_CRAWL, {"site_id": site_id}).first()


def _filter_values(selection: Selection) -> dict[str, Any]:
    ids = None if selection.ids is None else [id_ for id_ in selection.ids if 0 < id_ <= ID_MAX]
    return {**asdict(selection), "ids": ids}


def _batch_values(
    selection: Selection, site_id: int, after: UUID | None, limit: int
) -> dict[str, Any]:
    return {**_filter_values(selection), "site_id": site_id, "after": after, "limit": limit}
