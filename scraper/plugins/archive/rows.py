"""Which raw pages are kept, and where: `archive_segments` (files) and `archived_pages` (the records
in them).

PostgreSQL never points at bytes that are not there. A segment's row is made before its file
(`announce`), its pages' rows after the file is whole and durable (`store`), and they are gone
before the file is deleted. So whoever dies in between leaves a segment without pages, of which the
row knows the file: a day later both are swept.

No foreign keys: a row would be checked for each page, for crawls and sites that are never deleted;
and pages may leave the frontier before their archive ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.plugins.archive.warc import Answer, Codec

# No worker takes this long from announcing a segment to storing it.
ORPHANED_AFTER = "1 day"
PAGES_A_PRUNE = 20_000
SEGMENTS_A_PRUNE = 500
ANNOUNCE = sa.text("""
INSERT INTO archive_segments (place, key, codec) VALUES (:place, :key, :codec) RETURNING id
""")

STORE = sa.text("""
UPDATE archive_segments SET stored_at = now(), pages = :pages, bytes = :bytes
 WHERE id = :id AND stored_at IS NULL AND doomed_at IS NULL RETURNING id
""")

ADD = sa.text("""
INSERT INTO archived_pages (segment_id, start, size, body_bytes, captured_size, site_id, page_id,
                            crawl_id, kind, url, final_url, http_status, content_hash, fetched_at)
SELECT :id, i.* FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(
         start bigint, size int, body_bytes int, captured_size int, site_id int, page_id bigint,
         crawl_id bigint, kind text, url text, final_url text, http_status int,
         content_hash uuid, fetched_at timestamptz)
""")

# What a site's definition says now; of one that archives nothing any more, what it said when it
# last did.
KEPT = sa.text("""
SELECT s.id, s.name, coalesce(nullif(CAST(s.definition -> 'archive' ->> 'keep' AS text), ''),
                              (SELECT c.definition -> 'archive' ->> 'keep' FROM crawls c
                                WHERE c.id = last.crawl_id)) AS keep
  FROM sites s
 CROSS JOIN LATERAL (SELECT crawl_id FROM archived_pages WHERE site_id = s.id
                       ORDER BY fetched_at DESC LIMIT 1) AS last
 ORDER BY s.id
""")

FORGET = sa.text("""
WITH old AS (
    DELETE FROM archived_pages a USING (
        SELECT segment_id, start FROM archived_pages
         WHERE site_id = :site_id AND fetched_at < now() - :keep_s * interval '1 second'
         ORDER BY fetched_at LIMIT :rows FOR UPDATE SKIP LOCKED) AS picked
     WHERE a.segment_id = picked.segment_id AND a.start = picked.start RETURNING a.segment_id
), sums AS (SELECT segment_id, count(*) AS pages FROM old GROUP BY segment_id ORDER BY segment_id)
UPDATE archive_segments s SET pages = s.pages - sums.pages FROM sums WHERE s.id = sums.segment_id
RETURNING sums.pages
""")

DOOM = sa.text(f"""
UPDATE archive_segments SET doomed_at = now() WHERE id IN (
    SELECT id FROM archive_segments
     WHERE pages = 0 AND doomed_at IS NULL
       AND (stored_at IS NOT NULL OR created_at < now() - interval '{ORPHANED_AFTER}')
     LIMIT :rows FOR UPDATE SKIP LOCKED)
""")

DOOMED = sa.text("""
SELECT place, array_agg(id ORDER BY id) AS ids, array_agg(key ORDER BY id) AS keys
  FROM (SELECT *, row_number() OVER (PARTITION BY place ORDER BY id) AS turn FROM archive_segments
         WHERE pages = 0 AND doomed_at IS NOT NULL) AS doomed
 WHERE turn <= :rows GROUP BY place ORDER BY place
""")

SUMMARY = sa.text("""
SELECT s.name AS site, count(*) AS pages, count(DISTINCT a.page_id) AS urls,
       count(DISTINCT a.segment_id) AS segments, sum(a.size) AS bytes,
       sum(a.body_bytes) AS body_bytes, min(a.fetched_at) AS oldest, max(a.fetched_at) AS newest
  FROM archived_pages a JOIN sites s ON s.id = a.site_id
 WHERE CAST(:site AS text) IS NULL OR s.name = :site
 GROUP BY s.name ORDER BY s.name
""")

# Rows come in the order in which records lie in their files.
RECORDS = sa.text("""
SELECT a.*, g.place, g.key, g.codec, s.name AS site
  FROM archived_pages a JOIN archive_segments g ON g.id = a.segment_id
  JOIN sites s ON s.id = a.site_id
 WHERE (CAST(:site AS text) IS NULL OR s.name = :site)
   AND (CAST(:since AS timestamptz) IS NULL OR a.fetched_at >= :since)
   AND (a.segment_id, a.start) > (:segment_id, :start)
 ORDER BY a.segment_id, a.start LIMIT :rows
""")

# The newest answer of each product page. One that is gone has no product to write; one that is not
# in the frontier any more has left it for its site's filter.
NEWEST = sa.text("""
SELECT n.*, g.place, g.key, g.codec FROM (
    SELECT DISTINCT ON (a.page_id) a.segment_id, a.start, a.size, a.body_bytes, a.captured_size,
           a.page_id, a.url,
           a.fetched_at
      FROM archived_pages a LEFT JOIN pages p ON p.id = a.page_id
     WHERE a.site_id = :site_id AND a.kind = 'product' AND p.status IS DISTINCT FROM 'gone'
       AND (CAST(:since AS timestamptz) IS NULL OR a.fetched_at >= :since)
     ORDER BY a.page_id, a.fetched_at DESC, a.segment_id DESC LIMIT :limit) AS n
  JOIN archive_segments g ON g.id = n.segment_id
 ORDER BY n.segment_id, n.start
""")


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A page's answer in a segment: bytes `start` to `start` + `size`, and `captured_size` bytes
    behind it of what its browser captured. `fetched_at` is when it was settled, by PostgreSQL's
    clock; `content_hash` is of what was extracted from it then."""

    start: int
    size: int
    body_bytes: int
    captured_size: int
    site_id: int
    page_id: int
    crawl_id: int
    kind: str
    url: str
    final_url: str | None
    http_status: int
    content_hash: UUID | None
    fetched_at: datetime


@dataclass(slots=True)
class SpooledPage:
    """A good answer that waits for the end of its batch: its body is `size` bytes from `start` on
    of the batch's spool, and what a browser captured the `captured_size` bytes behind it; `at` when
    it came, by the worker's clock. `fetched_at` is PostgreSQL's time of its verdict, set once that
    is stored and the answer is to be kept."""

    site_id: int
    page_id: int
    crawl_id: int
    kind: str
    page_url: str
    url: str
    status: int
    headers: Mapping[str, str]
    start: int
    size: int
    captured_size: int
    at: datetime
    changed_only: bool
    fetched_at: datetime | None = None
    content_hash: UUID | None = None

    @property
    def wanted(self) -> bool:
        return self.fetched_at is not None

    def answer(self, body: bytes) -> Answer:
        return Answer(self.url, self.page_url, self.status, self.headers, body, self.at)

    def record(self, start: int, size: int, captured_size: int) -> PageRecord:
        """Where it lies in its segment."""
        assert self.fetched_at is not None
        return PageRecord(
            start=start,
            size=size,
            body_bytes=self.size,
            captured_size=captured_size,
            site_id=self.site_id,
            page_id=self.page_id,
            crawl_id=self.crawl_id,
            kind=self.kind,
            url=self.page_url,
            final_url=self.url if self.url != self.page_url else None,
            http_status=self.status,
            content_hash=self.content_hash,
            fetched_at=self.fetched_at,
        )


@dataclass(frozen=True, slots=True)
class EmptySegments:
    """Segments of one place whose files are to be deleted, and then their rows."""

    place: str
    ids: list[int]
    keys: list[str]


@dataclass(frozen=True, slots=True)
class SiteRetention:
    """A site with archived pages, and how long they are kept, as its definition says it; None:
    nobody knows."""

    site_id: int
    site: str
    keep: str | None


def announce(connection: sa.Connection, place: str, key: str, codec: Codec) -> int:
    """A segment that is going to be written. Returns its id."""
    return int(
        connection.execute(ANNOUNCE, {"place": place, "key": key, "codec": codec}).scalar_one()
    )


def store(
    connection: sa.Connection, segment_id: int, size: int, records: Sequence[PageRecord]
) -> bool:
    """Takes in the pages of a segment whose file is whole and durable. False where the segment was
    swept meanwhile; storing it once more does nothing."""
    values = {"id": segment_id, "pages": len(records), "bytes": size}
    if connection.execute(STORE, values).first() is None:
        query = sa.text(
            "SELECT stored_at IS NOT NULL FROM archive_segments "
            "WHERE id = :id AND doomed_at IS NULL"
        )
        return bool(connection.execute(query, {"id": segment_id}).scalar())
    connection.execute(ADD, {"id": segment_id, "rows": dumps(records)})
    return True


def keeping(connection: sa.Connection) -> list[SiteRetention]:
    """How long the pages of each site that has some are kept."""
    return [SiteRetention(row.id, row.name, row.keep) for row in connection.execute(KEPT)]


def forget(
    connection: sa.Connection, site_id: int, keep_s: float, rows: int = PAGES_A_PRUNE
) -> int:
    """Forgets older pages of a site, a bounded number at once. Returns how many."""
    values = {"site_id": site_id, "keep_s": keep_s, "rows": rows}
    return sum(row.pages for row in connection.execute(FORGET, values))


def doom(connection: sa.Connection, rows: int = SEGMENTS_A_PRUNE) -> list[EmptySegments]:
    """Marks segments of which no page is left, or that were never finished: nobody adds to them any
    more. Returns all that are marked, by place, so many of each at the most."""
    connection.execute(DOOM, {"rows": rows})
    return [
        EmptySegments(row.place, row.ids, row.keys)
        for row in connection.execute(DOOMED, {"rows": rows})
    ]


def deleted(connection: sa.Connection, segment_ids: Sequence[int]) -> None:
    """The files of doomed segments are gone; so are their rows."""
    query = sa.text(
        "DELETE FROM archive_segments WHERE id = ANY (:ids) AND doomed_at IS NOT NULL AND pages = 0"
    )
    connection.execute(query, {"ids": list(segment_ids)})


def summary(connection: sa.Connection, site: str | None = None) -> list[sa.Row[Any]]:
    return list(connection.execute(SUMMARY, {"site": site}))


def records(
    connection: sa.Connection,
    site: str | None,
    since: datetime | None,
    after: tuple[int, int],
    rows: int,
) -> list[sa.Row[Any]]:
    """Archived pages in the order in which they lie in their segments: the next ones after a
    segment's id and a start."""
    values = {"site": site, "since": since, "segment_id": after[0], "start": after[1], "rows": rows}
    return list(connection.execute(RECORDS, values))


def newest(
    connection: sa.Connection, site_id: int, since: datetime | None, limit: int | None
) -> Iterator[sa.Row[Any]]:
    """The newest answer of each product page, in the order in which they lie in their segments;
    streamed."""
    streaming = connection.execution_options(stream_results=True, max_row_buffer=1000)
    yield from streaming.execute(NEWEST, {"site_id": site_id, "since": since, "limit": limit})


def count_of_site(connection: sa.Connection, site_id: int) -> int:
    """The archived pages of a site."""
    query = sa.text("SELECT count(*) FROM archived_pages WHERE site_id = :id")
    return int(connection.execute(query, {"id": site_id}).scalar_one())
