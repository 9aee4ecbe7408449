"""The frontier: the pages of all crawls, and how they join one.

What becomes of a page afterwards: `due` says which are due, `leases` hands them to workers and
takes them back, `scraper.results.transaction` ends its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import Kind, value
from scraper.infra.database import dumps

# A product whose last good answer is younger than the crawl's revisit age is reached, but not asked
# again. Where that age is each page's own, it counts between the definition's bounds, as they were
# when the crawl was opened.
FRESH = """(excluded.kind = 'product' AND p.status NOT IN ('gone', 'dead', 'invalid')
            AND (SELECT p.fetched_at > c.fresh_after OR (p.fetched_at > c.stale_before
                        AND p.fetched_at > c.created_at - p.revisit_s * interval '1 second')
                   FROM crawls c WHERE c.id = excluded.crawl_id))"""


# Pages this crawl knows already are sorted out first and without a lock: two listing pages that
# link to each other would otherwise lock each other's rows. The order makes two writers insert the
# same links in the same sequence. With `again`, dead and invalid pages are taken up once more, even
# by the crawl that gave them up. (`OFFSET 0`: or whether a page is fresh would be found out for
# each column.)
def _add_statement(*, again: bool) -> sa.TextClause:
    unusable = "p.status IN ('dead', 'invalid')" if again else "false"
    added = "crawl_id, kind, status, 1 AS pages, NULL AS before FROM added"
    if again:
        added = "a.crawl_id, a.kind, a.status, 1 AS pages, u.before"
        added += " FROM added a JOIN unknown u USING (site_id, fingerprint)"
    return sa.text(f"""
WITH input AS (
    SELECT DISTINCT ON (site_id, fingerprint) *
      FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS i(site_id int, crawl_id bigint, fingerprint uuid, url text, kind text, host text,
             queue text, priority int, depth int, found_on bigint, fruitless int)
     ORDER BY site_id, fingerprint, fruitless
), unknown AS (
    SELECT i.*, row_number() OVER (PARTITION BY i.crawl_id, i.kind = 'product'
                                   ORDER BY i.fingerprint) AS place,
           CASE WHEN p.crawl_id = i.crawl_id THEN p.status END AS before
      FROM input i
      LEFT JOIN pages p ON p.site_id = i.site_id AND p.fingerprint = i.fingerprint
     WHERE p.id IS NULL OR p.crawl_id < i.crawl_id OR {unusable}
), room AS (
    SELECT * FROM jsonb_to_recordset(CAST(:room AS jsonb))
      AS r(crawl_id bigint, listings int, products int, fruitless int)
), fruitful AS (
    SELECT found_on FROM unknown WHERE kind = 'product'
), placed AS (
    SELECT u.*, u.place <= CASE WHEN u.kind = 'product' THEN r.products ELSE r.listings END AS fits,
           CASE WHEN u.found_on IN (SELECT found_on FROM fruitful) THEN 0 ELSE u.fruitless END
           AS steps, r.fruitless AS steps_max
      FROM unknown u JOIN room r ON r.crawl_id = u.crawl_id
), added AS (
    INSERT INTO pages AS p (site_id, crawl_id, fingerprint, url, kind, host, queue, priority,
                            depth, found_on, fruitless, status)
    SELECT site_id, crawl_id, fingerprint, url, kind, host, queue, priority, depth,
           nullif(found_on, 0), steps, 'due'
      FROM placed WHERE fits AND (kind = 'product' OR steps <= steps_max)
     ORDER BY site_id, fingerprint
    ON CONFLICT (site_id, fingerprint) DO UPDATE
       SET crawl_id = excluded.crawl_id, url = excluded.url, kind = excluded.kind,
           host = excluded.host,
           queue = excluded.queue, priority = excluded.priority, depth = excluded.depth,
           found_on = excluded.found_on, fruitless = excluded.fruitless, lists = NULL,
           attempts = 0, host_attempts = 0, losses = 0, level = NULL, blocked = 0, probe = false,
           not_before = now(),
           extractor_hash = CASE WHEN p.url = excluded.url THEN p.extractor_hash END,
           error = NULL, excerpt = NULL, response_head = NULL,
           (status, last_outcome) = (
               SELECT CASE WHEN fresh THEN 'unchanged' ELSE 'due' END,
                      CASE WHEN fresh THEN 'fresh' ELSE p.last_outcome END
                 FROM (SELECT {FRESH} AS fresh OFFSET 0) once)
     WHERE p.crawl_id < excluded.crawl_id OR {unusable}
    RETURNING site_id, fingerprint, crawl_id, kind, status
)
SELECT {added}
UNION ALL SELECT crawl_id, kind, CASE WHEN fits THEN 'fruitless' ELSE 'cut' END, count(*), NULL
  FROM placed WHERE NOT fits OR (kind <> 'product' AND steps > steps_max)
 GROUP BY crawl_id, kind, fits
""")


ADD = _add_statement(again=False)
ADD_AGAIN = _add_statement(again=True)


@value
class NewPage:
    """A page to add. `queue` is the full queue name, `priority` the frontier's sort key. `found_on`
    is the page that links to it, `fruitless` how far the chain of listings has brought nothing new
    by then, if that page does not (`scraper.results.listing_traps`)."""

    site_id: int
    crawl_id: int
    fingerprint: UUID
    url: str
    kind: Kind
    host: str
    queue: str
    priority: int
    depth: int
    found_on: int = 0
    fruitless: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """How many more pages a crawl may get, and how fruitless a chain of listings may be, by its
    definition's limits."""

    crawl_id: int
    listings: int
    products: int
    fruitless: int = 0


@value
class PageChange:
    """One page's move, as the crawl counters need it. `before`: the final status that a page of
    the same crawl had, where it is taken up again."""

    crawl_id: int
    kind: Kind
    status: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class AddedPages:
    """The pages that joined a crawl (or were found fresh), and how many by crawl there was no room
    for, or that lay behind too many `fruitless` ones."""

    pages: list[PageChange]
    cut: dict[int, int]
    fruitless: dict[int, int]


def add_pages(
    connection: sa.Connection,
    pages: Sequence[NewPage],
    room: Sequence[Room],
    *,
    again: bool = False,
) -> AddedPages:
    """Adds pages to their crawls while there is room; those a crawl has already are left alone, but
    for dead and invalid ones where they are wanted `again`."""
    if not pages:
        return AddedPages([], {}, {})
    values = {"rows": dumps(pages), "room": dumps(room)}
    changes, cut = [], {limit.crawl_id: 0 for limit in room}
    fruitless = dict(cut)
    rows = connection.execute(ADD_AGAIN if again else ADD, values)
    for crawl_id, kind, status, pages_cut, before in rows:
        if status == "cut":
            cut[crawl_id] += pages_cut
        elif status == "fruitless":
            fruitless[crawl_id] += pages_cut
        else:
            changes.append(PageChange(crawl_id, Kind(kind), status, before))
    return AddedPages(changes, cut, fruitless)
