"""Crawls: opened for a slot, kept from ending, ended exactly once.

Ending a crawl locks its row `FOR UPDATE`, which waits for every transaction that settles or leases
(they hold `FOR KEY SHARE`). So no page joins a crawl that has ended, and none of its pages is
leased.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from scraper.domain import CrawlStatus, Kind, Status
from scraper.frontier import leases, throughput
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.pages import PageChange
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.registry import plugin_hooks

if TYPE_CHECKING:
    from scraper.sites.definition import Site

# A crawl with this trigger replays dead pages.
REPLAY = "replay"
# A crawl with this trigger visits the pages that a plan names, and gives way to whole crawls.
VISIT = "visit"
# The crawls of selected pages.
PARTIAL = (REPLAY, VISIT)
# A crawl with this trigger reads archived pages, and is never active.
REEXTRACT = "reextract"

OPEN = sa.text(sql("frontier/open_crawl.sql"))
COLUMNS = sql("frontier/crawl_columns.sql")

DRAINED = sa.text("""
SELECT c.id FROM crawls c
 WHERE c.status = 'running'
   AND NOT EXISTS (SELECT FROM pages p WHERE p.crawl_id = c.id AND p.status = 'due')
""")

DROP_OPEN = sa.text("""
UPDATE pages SET status = 'dropped', settled_at = now() WHERE crawl_id = :id AND status = 'due'
 RETURNING id, kind
""")

# A minute counts once, however many coordinators watch, and only if one does: an installation that
# was down for a day has not watched its crawls stall. (Hosts are checked first: usually none is
# paused, and no page is read.)
WATCH = sa.text("""
UPDATE crawls c
   SET watched_at = now(),
       idle_minutes = CASE WHEN c.progressed_at >= c.watched_at THEN 0 ELSE c.idle_minutes + 1 END
  FROM sites s
 WHERE s.id = c.site_id AND NOT s.paused AND c.status = 'running'
   AND c.watched_at < now() - interval '1 minute'
   AND (NOT EXISTS (SELECT FROM hosts WHERE paused)
        OR NOT EXISTS (SELECT FROM hosts h JOIN pages p ON p.host = h.host
                        WHERE h.paused AND p.crawl_id = c.id AND p.status = 'due'))
RETURNING c.id, c.idle_minutes
""")

WAITING_FOR = sa.text("""
SELECT queue, host, count(*) AS pages, mode() WITHIN GROUP (ORDER BY last_outcome) AS outcome
  FROM pages WHERE crawl_id = :id AND status = 'due'
 GROUP BY queue, host ORDER BY pages DESC, host LIMIT 1
""")


def open_crawl(
    connection: sa.Connection,
    site_id: int,
    site: Site,
    *,
    slot: datetime | None,
    trigger: str,
    refetch: bool = False,
    skipped: str | None = None,
) -> int | None:
    """Opens the crawl of a slot (None: now). Returns its id, or None if the slot or the site has a
    crawl already."""
    bounds = site.revisit.bounds
    values = {
        "site_id": site_id,
        "slot": slot,
        "trigger": trigger,
        "status": CrawlStatus.SKIPPED if skipped else CrawlStatus.PLANNED,
        "definition": dumps(site.model_dump(mode="json")),
        "hash": site.content_hash,
        "rate": site.rate_per_s,
        "concurrency": site.concurrency,
        "revisit": None if refetch or not site.revisit_s else timedelta(seconds=site.revisit_s),
        "revisit_max": None if refetch or not bounds.adaptive else timedelta(seconds=bounds.max_s),
        "refetch": refetch,
        "note": skipped,
        # A filter of known pages would keep held products from being read again.
        "holds": site.tolerances.changed < 1
        and all(hooks.keeps_frontier(site) for hooks in plugin_hooks().values()),
    }
    crawl_id: int | None = connection.execute(OPEN, values).scalar()
    if crawl_id is not None:
        for hooks in plugin_hooks().values():
            hooks.open_crawl(connection, crawl_id, site_id, site, refetch=refetch)
    return crawl_id


def active_crawl(connection: sa.Connection, site_id: int) -> int | None:
    query = sa.text(
        "SELECT id FROM crawls WHERE site_id = :site AND status IN ('planned', 'running')"
    )
    return connection.execute(query, {"site": site_id}).scalar()


def has_trigger(connection: sa.Connection, crawl_id: int, trigger: str) -> bool:
    query = sa.text("SELECT trigger FROM crawls WHERE id = :id")
    return bool(connection.execute(query, {"id": crawl_id}).scalar() == trigger)


def end_round(connection: sa.Connection, site_id: int) -> None:
    """Stops a crawl that only visits planned pages: they wait for the crawl of the whole site."""
    crawl_id = active_crawl(connection, site_id)
    if crawl_id and has_trigger(connection, crawl_id, VISIT):
        stop_crawl(connection, crawl_id, "gave way to a crawl of the whole site")


def planned_crawls(connection: sa.Connection, older_s: float) -> list[int]:
    """Returns the crawls that have waited for their discovery for so long: normally none, but a
    message may be lost."""
    query = sa.text("""
        SELECT id FROM crawls
         WHERE status = 'planned' AND created_at < now() - make_interval(secs => :older_s)
         ORDER BY id""")
    return list(connection.execute(query, {"older_s": older_s}).scalars())


def lock_planned(connection: sa.Connection, crawl_id: int) -> sa.Row[Any] | None:
    """Locks a planned crawl. Returns its `site_id` and `definition`, or None if another coordinator
    was faster."""
    query = sa.text(
        "SELECT site_id, definition FROM crawls WHERE id = :id AND status = 'planned' FOR UPDATE"
    )
    return connection.execute(query, {"id": crawl_id}).first()


def start_crawl(connection: sa.Connection, crawl_id: int) -> None:
    query = sa.text("UPDATE crawls SET status = 'running', started_at = now() WHERE id = :id")
    connection.execute(query, {"id": crawl_id})


def read_definition(connection: sa.Connection, crawl_id: int) -> sa.Row[Any]:
    """Returns a crawl's `site_id` and `definition`."""
    query = sa.text("SELECT site_id, definition FROM crawls WHERE id = :id")
    return connection.execute(query, {"id": crawl_id}).one()


def hold_crawls(connection: sa.Connection, crawl_ids: Iterable[int]) -> dict[int, sa.Row[Any]]:
    """Keeps crawls from ending until this transaction ends. Returns the running ones, with their
    totals."""
    query = sa.text("""
        SELECT id, discovery_total, product_total, holds_new, asking FROM crawls
         WHERE id = ANY (:ids) AND status = 'running' ORDER BY id FOR KEY SHARE""")
    return {row.id: row for row in connection.execute(query, {"ids": sorted(set(crawl_ids))})}


def running_ids(connection: sa.Connection, site: str | None = None) -> list[int]:
    """Returns the crawls that have not ended, of one site or of all."""
    query = sa.text("""
        SELECT c.id FROM crawls c JOIN sites s ON s.id = c.site_id
         WHERE c.status IN ('planned', 'running')
           AND (CAST(:site AS text) IS NULL OR s.name = :site)
         ORDER BY c.id""")
    return list(connection.execute(query, {"site": site}).scalars())


def hold_running(connection: sa.Connection) -> list[int]:
    """Keeps the running crawls of sites that are not paused from ending until this transaction
    ends, except those that another transaction is ending, which may take a while. Returns their
    ids."""
    query = sa.text("""
        SELECT c.id FROM crawls c JOIN sites s ON s.id = c.site_id
         WHERE c.status = 'running' AND NOT s.paused
         ORDER BY c.id FOR KEY SHARE OF c SKIP LOCKED""")
    return list(connection.execute(query).scalars())


def paused_crawls(connection: sa.Connection) -> list[int]:
    """Returns the running crawls of paused sites."""
    query = sa.text("""
        SELECT c.id FROM crawls c JOIN sites s ON s.id = c.site_id
         WHERE s.paused AND c.status = 'running'""")
    return list(connection.execute(query).scalars())


def stalled_crawls(connection: sa.Connection, minutes: float) -> list[int]:
    """Watches the running crawls, each once a minute. Returns those without progress for
    `minutes`."""
    return [row.id for row in connection.execute(WATCH) if row.idle_minutes >= minutes]


def describe_wait(connection: sa.Connection, crawl_id: int) -> str:
    """Describes what most open pages of a crawl wait for."""
    row = connection.execute(WAITING_FOR, {"id": crawl_id}).first()
    if row is None:
        return "no page is open"
    last = f", last: {row.outcome}" if row.outcome else ", never tried"
    return f"{row.pages} pages of {row.host} wait on queue {row.queue}{last}"


def drained_crawls(connection: sa.Connection) -> list[int]:
    return list(connection.execute(DRAINED).scalars())


def lock_drained(connection: sa.Connection, crawl_id: int) -> sa.Row[Any] | None:
    """Locks a running crawl without open pages. Returns None if it has some, or has ended."""
    query = sa.text(f"""
        SELECT {COLUMNS} FROM crawls WHERE id = :id AND status = 'running' FOR UPDATE""")
    row = connection.execute(query, {"id": crawl_id}).first()
    if row is None:
        return None
    query = sa.text("SELECT EXISTS (SELECT FROM pages WHERE crawl_id = :id AND status = 'due')")
    return None if connection.execute(query, {"id": crawl_id}).scalar() else row


def begin_asking(connection: sa.Connection, crawl_id: int) -> None:
    """Marks a locked crawl as one that has read everything, and requests pages to judge it."""
    connection.execute(sa.text("UPDATE crawls SET asking = true WHERE id = :id"), {"id": crawl_id})


def end_crawl(
    connection: sa.Connection,
    crawl_id: int,
    status: CrawlStatus,
    note: str | None,
    delisted: int = 0,
) -> None:
    query = sa.text("""
        UPDATE crawls SET status = :status, finished_at = now(), note = :note,
               products_delisted = :delisted
         WHERE id = :id""")
    values = {"id": crawl_id, "status": status, "note": note, "delisted": delisted}
    connection.execute(query, values)
    throughput.seal_crawl(connection, crawl_id)


def stop_crawl(
    connection: sa.Connection, crawl_id: int, note: str, status: CrawlStatus = CrawlStatus.STOPPED
) -> bool:
    """Ends an active crawl now. Its open pages are dropped, so the fence rejects the results of
    those under way. Leases without other pages end with it. Returns False if it has ended."""
    query = sa.text(
        "SELECT id FROM crawls WHERE id = :id AND status IN ('planned', 'running') FOR UPDATE"
    )
    if connection.execute(query, {"id": crawl_id}).first() is None:
        return False
    counts, dropped = CountsByCrawl(), set()
    locked = leases.lock_leases(connection)
    for page_id, kind in connection.execute(DROP_OPEN, {"id": crawl_id}):
        counts[crawl_id].count_settled(PageChange(crawl_id, Kind(kind), Status.DROPPED))
        dropped.add(page_id)
    leases.remove_pages(connection, locked, dropped)
    add_counts(connection, counts)
    end_crawl(connection, crawl_id, status, note)
    return True
