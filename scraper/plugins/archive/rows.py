"""The tables of the archive: `archive_segments` (files) and `archived_pages` (records in them).

PostgreSQL never points at missing bytes. A segment's row is inserted before its file is written
(`announce_segment`), its pages' rows once the file is complete and durable (`store_segment`), and
the pages' rows are deleted before the file. A process that dies in between leaves a segment without
pages, whose row names the file: both are swept a day later.

Foreign keys are left out: each page would check rows of crawls and sites that are never deleted
alone, and pages may leave the frontier before their archive ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa

from scraper.infra.database import dumps

if TYPE_CHECKING:
    # Its library takes 40 ms to import, also in processes that archive nothing.
    from scraper.plugins.archive.warc import Codec

# Workers take far less time between announcing and storing a segment.
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

# The `keep` of each site's definition; for a site that no longer archives, that of its last crawl
# with archived pages.
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

# The index of segments without pages answers it.
UNFINISHED = sa.text("""
SELECT count(*) FROM archive_segments
 WHERE pages = 0 AND stored_at IS NULL AND doomed_at IS NULL
   AND created_at < now() - interval '10 minutes'
""")

SUMMARY = sa.text("""
SELECT s.name AS site, count(*) AS pages, count(DISTINCT a.page_id) AS urls,
       count(DISTINCT a.segment_id) AS segments, sum(a.size) AS bytes,
       sum(a.body_bytes) AS body_bytes, min(a.fetched_at) AS oldest, max(a.fetched_at) AS newest
  FROM archived_pages a JOIN sites s ON s.id = a.site_id
 WHERE CAST(:site AS text) IS NULL OR s.name = :site
 GROUP BY s.name ORDER BY s.name
""")

_PAGE = """
a.segment_id, a.start, a.size, a.body_bytes, a.captured_size, a.site_id, a.page_id, a.crawl_id,
a.kind, a.url, a.final_url, a.http_status, a.content_hash, a.fetched_at
"""

# Rows are in the order of the records in their files.
RECORDS = sa.text(f"""
SELECT {_PAGE}, g.place, g.key, g.codec, s.name AS site
  FROM archived_pages a JOIN archive_segments g ON g.id = a.segment_id
  JOIN sites s ON s.id = a.site_id
 WHERE (CAST(:site AS text) IS NULL OR s.name = :site)
   AND (CAST(:since AS timestamptz) IS NULL OR a.fetched_at >= :since)
   AND (a.segment_id, a.start) > (:segment_id, :start)
 ORDER BY a.segment_id, a.start LIMIT :rows
""")

NEWEST_OF_PAGE = sa.text(f"""
SELECT {_PAGE}, g.place, g.key, g.codec, c.definition
  FROM archived_pages a JOIN archive_segments g ON g.id = a.segment_id
  JOIN crawls c ON c.id = a.crawl_id
 WHERE a.page_id = :page_id ORDER BY a.fetched_at DESC LIMIT 1
""")

# The newest answer of each product page. A gone page has no product to write; a page that is
# missing from the frontier was moved to its site's Bloom filter.
NEWEST = sa.text("""
SELECT n.*, g.place, g.key, g.codec FROM (
    SELECT DISTINCT ON (a.page_id) a.segment_id, a.start, a.size, a.body_bytes, a.captured_size,
           a.page_id, a.url, a.content_hash, a.fetched_at
      FROM archived_pages a LEFT JOIN pages p ON p.id = a.page_id
     WHERE a.site_id = :site_id AND a.kind = 'product' AND p.status IS DISTINCT FROM 'gone'
       AND (CAST(:since AS timestamptz) IS NULL OR a.fetched_at >= :since)
     ORDER BY a.page_id, a.fetched_at DESC, a.segment_id DESC LIMIT :limit) AS n
  JOIN archive_segments g ON g.id = n.segment_id
 ORDER BY n.segment_id, n.start
""")


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A page's answer in a segment: bytes `start` to `start` + `size`, followed by `captured_size`
    bytes of what its browser captured. `fetched_at` is when the page was settled, by PostgreSQL's
    clock; `content_hash` is of the data extracted then."""

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
    """A good answer that waits for the end of its batch: its body is the `size` bytes from `start`
    of the batch's spool, followed by `captured_size` bytes of what a browser captured. `at` is when
    it arrived, by the worker's clock; `fetched_at` is PostgreSQL's time of its verdict, and is set
    if the answer must be kept."""

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

    def record(self, start: int, size: int, captured_size: int) -> PageRecord:
        """Returns its row, with its position in the segment."""
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
    """Segments of one place that no longer have pages: their files are deleted, then their rows."""

    place: str
    ids: list[int]
    keys: list[str]


@dataclass(frozen=True, slots=True)
class SiteRetention:
    """A site with archived pages, and its definition's `keep`; None: unknown."""

    site_id: int
    site: str
    keep: str | None


def announce_segment(connection: sa.Connection, place: str, key: str, codec: Codec) -> int:
    """Inserts the row of a segment that is about to be written. Returns its id."""
    return int(
        connection.execute(ANNOUNCE, {"place": place, "key": key, "codec": codec}).scalar_one()
    )


def store_segment(
    connection: sa.Connection, segment_id: int, size: int, list_records: Sequence[PageRecord]
) -> bool:
    """Inserts the pages of a segment whose file is complete and durable. Returns False if the
    segment has been swept; storing it a second time does nothing."""
    values = {"id": segment_id, "pages": len(list_records), "bytes": size}
    if connection.execute(STORE, values).first() is None:
        query = sa.text(
            "SELECT stored_at IS NOT NULL FROM archive_segments "
            "WHERE id = :id AND doomed_at IS NULL"
        )
        return bool(connection.execute(query, {"id": segment_id}).scalar())
    connection.execute(ADD, {"id": segment_id, "rows": dumps(list_records)})
    return True


def list_retentions(connection: sa.Connection) -> list[SiteRetention]:
    """Returns the sites with archived pages, and how long each keeps them."""
    return [SiteRetention(row.id, row.name, row.keep) for row in connection.execute(KEPT)]


def forget_pages(
    connection: sa.Connection, site_id: int, keep_s: float, rows: int = PAGES_A_PRUNE
) -> int:
    """Deletes up to `rows` pages of a site that are older than `keep_s`. Returns their number."""
    values = {"site_id": site_id, "keep_s": keep_s, "rows": rows}
    return sum(row.pages for row in connection.execute(FORGET, values))


def doom_segments(connection: sa.Connection, rows: int = SEGMENTS_A_PRUNE) -> list[EmptySegments]:
    """Marks segments without pages, and those that were never finished: no worker adds to a marked
    one. Returns marked segments by place, at most `rows` of each."""
    connection.execute(DOOM, {"rows": rows})
    return [
        EmptySegments(row.place, row.ids, row.keys)
        for row in connection.execute(DOOMED, {"rows": rows})
    ]


def delete_segments(connection: sa.Connection, segment_ids: Sequence[int]) -> None:
    """Deletes the rows of doomed segments whose files are deleted."""
    query = sa.text(
        "DELETE FROM archive_segments WHERE id = ANY (:ids) AND doomed_at IS NOT NULL AND pages = 0"
    )
    connection.execute(query, {"ids": list(segment_ids)})


def summarize_sites(connection: sa.Connection, site: str | None = None) -> list[sa.Row[Any]]:
    return list(connection.execute(SUMMARY, {"site": site}))


def list_records(
    connection: sa.Connection,
    site: str | None,
    since: datetime | None,
    after: tuple[int, int],
    rows: int,
) -> list[sa.Row[Any]]:
    """Returns the next `rows` archived pages after a segment's id and a start, in the order of the
    records in their segments."""
    values = {"site": site, "since": since, "segment_id": after[0], "start": after[1], "rows": rows}
    return list(connection.execute(RECORDS, values))


def find_newest(connection: sa.Connection, page_id: int) -> Mapping[str, Any] | None:
    """Returns a page's newest row, with its segment's place and key and its crawl's definition."""
    row = connection.execute(NEWEST_OF_PAGE, {"page_id": page_id}).mappings().first()
    return dict(row) if row is not None else None


def stream_newest(
    connection: sa.Connection, site_id: int, since: datetime | None, limit: int | None
) -> Iterator[sa.Row[Any]]:
    """Streams the newest answer of each product page, in the order of the records in their
    segments."""
    streaming = connection.execution_options(stream_results=True, max_row_buffer=1000)
    yield from streaming.execute(NEWEST, {"site_id": site_id, "since": since, "limit": limit})


def count_unfinished(connection: sa.Connection) -> int:
    """Counts the segments that were announced longer ago than a worker takes to store one, and that
    are not yet swept."""
    return int(connection.execute(UNFINISHED).scalar_one())


def count_pages(connection: sa.Connection, site_id: int) -> int:
    """Counts the archived pages of a site."""
    query = sa.text("SELECT count(*) FROM archived_pages WHERE site_id = :id")
    return int(connection.execute(query, {"id": site_id}).scalar_one())
