"""Dead and invalid pages in PostgreSQL: found by filters, counted, read in full, locked to be taken
up again, dropped.

Takes nothing up itself: that is the frontier's front door (`frontier.pages.add_pages`, with
`again`). A page's reason is its last outcome, and its age the time since its last verdict."""

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

# In the frontier's own order, so that two who lock the same pages never wait for each other in a
# circle. Whoever comes second sees here, and not by an older snapshot, that a page is not dead any
# more.
BATCH = f"""
{SELECTED}
   AND p.site_id = :site_id AND (CAST(:after AS uuid) IS NULL OR p.fingerprint > :after)
 ORDER BY p.fingerprint LIMIT :limit FOR NO KEY UPDATE OF p
"""

LOCK = sa.text(f"SELECT p.fingerprint, p.url, p.kind, p.host, p.depth {BATCH}")

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

# The row is held, as by a settling transaction: the crawl does not end before this transaction
# does.
ACTIVE_CRAWL = sa.text("""
SELECT id, status, definition, definition_hash FROM crawls
 WHERE site_id = :site_id AND status IN ('planned', 'running') FOR KEY SHARE
""")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead and invalid pages are meant: all that every filter lets through. None lets all
    through; `ids` are pages', `crawl_id` the last crawl that reached them. A page is `older_s` when
    its last verdict was longer ago, `newer_s` when it was not."""

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
    """How many selected pages a site has."""

    id: int
    name: str
    pages: int


def find_pages(connection: sa.Connection, selection: Selection, limit: int) -> list[sa.Row[Any]]:
    """Selected pages, those with the newest verdict first."""
    return list(connection.execute(FIND, {**_filter_values(selection), "limit": limit}))


def count_pages(connection: sa.Connection, selection: Selection) -> int:
    return int(connection.execute(COUNT, _filter_values(selection)).scalar_one())


def summarize_pages(connection: sa.Connection, selection: Selection) -> list[sa.Row[Any]]:
    """Counts by site, status, reason and host, each with its newest page as an example."""
    return list(connection.execute(SUMMARY, _filter_values(selection)))


def count_by_site(connection: sa.Connection, selection: Selection) -> list[SitePages]:
    return [
        SitePages(row.id, row.name, row.pages)
        for row in connection.execute(BY_SITE, _filter_values(selection))
    ]


def lock_pages(
    connection: sa.Connection, selection: Selection, site_id: int, after: UUID | None, limit: int
) -> list[sa.Row[Any]]:
    """Locks up to `limit` selected pages of a site, by fingerprint and beyond `after`. Fewer: there
    are no more."""
    return list(connection.execute(LOCK, _batch_values(selection, site_id, after, limit)))


def drop_pages(
    connection: sa.Connection, selection: Selection, site_id: int, after: UUID | None, limit: int
) -> list[sa.Row[Any]]:
    """Makes up to `limit` selected pages of a site *dropped*, and counts them so in the crawls they
    belong to."""
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
    """Everything about a page, whatever its status."""
    return connection.execute(READ, {"id": page_id}).first() if 0 < page_id <= ID_MAX else None


def find_by_url(connection: sa.Connection, fingerprints: Sequence[UUID]) -> list[sa.Row[Any]]:
    """The pages (id, site) of a URL: a URL may be a page of several sites."""
    return list(connection.execute(OF_URL, {"fingerprints": list(fingerprints)}))


def active_crawl(connection: sa.Connection, site_id: int) -> sa.Row[Any] | None:
    """The crawl of a site that has not ended, held until this transaction ends."""
    return connection.execute(ACTIVE_CRAWL, {"site_id": site_id}).first()


def _filter_values(selection: Selection) -> dict[str, Any]:
    ids = None if selection.ids is None else [id_ for id_ in selection.ids if 0 < id_ <= ID_MAX]
    return {**asdict(selection), "ids": ids}


def _batch_values(
    selection: Selection, site_id: int, after: UUID | None, limit: int
) -> dict[str, Any]:
    return {**_filter_values(selection), "site_id": site_id, "after": after, "limit": limit}
