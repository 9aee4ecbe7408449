"""Crawls: opened for a slot, counted, ended exactly once, and read by whoever shows progress.

A crawl's counters change in the transaction that changes its pages, so the two can never disagree.
Whoever ends a crawl first locks its row `FOR UPDATE`, which waits for every transaction that
settles or leases (they hold `FOR KEY SHARE`): no page joins a crawl that has ended, and none of it
is leased.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from scraper.dedup import filters
from scraper.domain import CrawlStatus, Kind, Status
from scraper.frontier import leases, throughput
from scraper.frontier.pages import PageChange
from scraper.infra.database import dumps
from scraper.sites.definition import Site

# the trigger of a crawl that takes up dead pages alone
REPLAY = "replay"
# of one that reads archived pages, and is never active
REEXTRACT = "reextract"
# complete crawls in a row that miss a product before it counts as delisted
DELISTED_AFTER = 2

OPEN = sa.text("""
INSERT INTO crawls (site_id, slot, trigger, status, definition, definition_hash, rate_per_s,
                    concurrency, fresh_after, stale_before, whole_before, note, finished_at)
SELECT :site_id, coalesce(CAST(:slot AS timestamptz), clock_timestamp()), :trigger, :status,
       CAST(:definition AS json),
       :hash, :rate, :concurrency, now() - CAST(:revisit AS interval),
       now() - CAST(:revisit_max AS interval),
       CASE WHEN :refetch THEN now()
            ELSE (SELECT max(finished_at) FROM crawls WHERE site_id = :site_id AND suspect) END,
            :note,
       CASE WHEN :status = 'skipped' THEN now() END
ON CONFLICT DO NOTHING RETURNING id
""")

COUNT = sa.text("""
UPDATE crawls c
   SET discovery_total = c.discovery_total + i.discovery_total,
       discovery_done = c.discovery_done + i.discovery_done,
       product_total = c.product_total + i.product_total,
       product_done = c.product_done + i.product_done,
       ok = c.ok + i.ok, unchanged = c.unchanged + i.unchanged, gone = c.gone + i.gone,
       dead = c.dead + i.dead,
       invalid = c.invalid + i.invalid, dropped = c.dropped + i.dropped, fresh = c.fresh + i.fresh,
       not_modified = c.not_modified + i.not_modified,
       fetches = c.fetches + i.fetches, retries = c.retries + i.retries,
       links_cut = c.links_cut + i.links_cut,
       products_new = c.products_new + i.products_new,
       products_changed = c.products_changed + i.products_changed,
       progressed_at = CASE WHEN i.fetches + i.discovery_total + i.product_total > 0 THEN now()
                            ELSE c.progressed_at END
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(crawl_id bigint, discovery_total int, discovery_done int, product_total int,
         product_done int, ok int, unchanged int, gone int, dead int, invalid int, dropped int,
         fresh int, not_modified int, fetches int, retries int, links_cut int, products_new int,
         products_changed int)
 WHERE c.id = i.crawl_id
RETURNING c.id, c.discovery_total + c.product_total - c.discovery_done - c.product_done AS open
""")

DRAINED = sa.text("""
SELECT c.id FROM crawls c
 WHERE c.status = 'running'
   AND NOT EXISTS (SELECT FROM pages p WHERE p.crawl_id = c.id AND p.status = 'due')
""")

# A product whose page this crawl reached and did not find gone is listed; one it missed is so only
# after a second miss. A product's page is of its site: said twice, so that the pages of other sites
# are not read.
DELIST = sa.text("""
WITH seen AS (
    SELECT pr.id, (pg.crawl_id = :crawl_id AND pg.status <> 'gone') AS listed,
           pr.delisted_at IS NOT NULL AS was_delisted
      FROM products pr JOIN pages pg ON pg.id = pr.page_id
     WHERE pr.site_id = :site_id AND pg.site_id = :site_id
), marked AS (
    UPDATE products pr
       SET missed_crawls = CASE WHEN seen.listed THEN 0 ELSE least(pr.missed_crawls + 1, 1000) END,
           delisted_at = CASE WHEN seen.listed THEN NULL
                              WHEN pr.missed_crawls + 1 >= :delisted_after
                              THEN coalesce(pr.delisted_at, now()) END
      FROM seen
     WHERE pr.id = seen.id AND (NOT seen.listed OR pr.missed_crawls > 0
                                OR pr.delisted_at IS NOT NULL)
    RETURNING pr.id, pr.version, coalesce(pr.delisted_at = now(), false) AS delisted,
              seen.was_delisted AND pr.delisted_at IS NULL AS relisted
), fed AS (
    INSERT INTO changes (site_id, product_id, crawl_id, version, event)
    SELECT :site_id, id, :crawl_id, version, CASE WHEN delisted THEN 'delisted' ELSE 'relisted' END
      FROM marked WHERE delisted OR relisted ORDER BY id
)
SELECT count(*) FROM marked WHERE delisted
""")

DROP_OPEN = sa.text("""
UPDATE pages SET status = 'dropped', settled_at = now() WHERE crawl_id = :id AND status = 'due'
 RETURNING id, kind
""")

# A minute counts once, however many coordinators look; and none counts in which nobody looked: an
# installation that was down for a day has not watched its crawls stand still. (Hosts are asked
# first: mostly none is paused, and no page is read.)
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


@dataclass(slots=True)
class Counts:
    """What one transaction adds to a crawl's counters. Field for field the columns of `crawls`."""

    discovery_total: int = 0
    discovery_done: int = 0
    product_total: int = 0
    product_done: int = 0
    ok: int = 0
    unchanged: int = 0
    gone: int = 0
    dead: int = 0
    invalid: int = 0
    dropped: int = 0
    fresh: int = 0
    not_modified: int = 0
    fetches: int = 0
    retries: int = 0
    links_cut: int = 0
    products_new: int = 0
    products_changed: int = 0

    def added(self, change: PageChange) -> None:
        """A page joined the crawl; one that was fresh is final at once, one taken up `again` was in
        its total before."""
        if change.before:
            self._unsettled(change.kind, change.before)
        elif change.kind.discovers:
            self.discovery_total += 1
        else:
            self.product_total += 1
        if change.status != Status.DUE:
            self.fresh += 1
            self.settled(change)

    def _unsettled(self, kind: Kind, status: str) -> None:
        if kind.discovers:
            self.discovery_done -= 1
        else:
            self.product_done -= 1
        setattr(self, status, getattr(self, status) - 1)

    def settled(self, change: PageChange) -> None:
        """A page of the crawl reached a final status (a page that is due again counts nothing
        here)."""
        if not Status(change.status).final:
            return
        if change.kind.discovers:
            self.discovery_done += 1
        else:
            self.product_done += 1
        setattr(self, change.status, getattr(self, change.status) + 1)


class CountsByCrawl(dict[int, Counts]):
    def __missing__(self, crawl_id: int) -> Counts:
        self[crawl_id] = Counts()
        return self[crawl_id]


@dataclass(frozen=True, slots=True)
class Progress:
    """One crawl as people see it."""

    id: int
    site: str
    site_id: int
    status: str
    trigger: str
    slot: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    note: str | None
    elapsed_s: float
    counts: Counts
    products_delisted: int
    paused: bool = False
    suspect: bool = False
    # pages done a second, over the last half minute; those that were fresh are no work
    recent_per_s: float = 0.0

    @property
    def active(self) -> bool:
        return CrawlStatus(self.status).active

    @property
    def total(self) -> int:
        return self.counts.discovery_total + self.counts.product_total

    @property
    def done(self) -> int:
        return self.counts.discovery_done + self.counts.product_done

    @property
    def failed(self) -> int:
        return self.counts.dead + self.counts.invalid

    @property
    def ending(self) -> str | None:
        """How it ended, in words; None while it runs."""
        if self.active:
            return None
        dead = self.status == CrawlStatus.COMPLETED and self.failed
        return "completed with dead pages" if dead else self.status

    @property
    def phase(self) -> str:
        """The status; while running, whether its site is paused or the total is known yet."""
        if self.status != CrawlStatus.RUNNING:
            return self.status
        if self.paused:
            return "paused"
        return (
            "discovering"
            if self.counts.discovery_done < self.counts.discovery_total
            else "fetching"
        )


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
    """Opens the crawl of a slot (None: now). Returns its id, or None where the slot or the site has
    one already."""
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
    }
    crawl_id: int | None = connection.execute(OPEN, values).scalar()
    if crawl_id is not None and site.dedup.by == "bloom":
        filters.begin(connection, crawl_id, site_id, renew=refetch)
    return crawl_id


def active_crawl(connection: sa.Connection, site_id: int) -> int | None:
    query = sa.text(
        "SELECT id FROM crawls WHERE site_id = :site AND status IN ('planned', 'running')"
    )
    return connection.execute(query, {"site": site_id}).scalar()


def is_replay(connection: sa.Connection, crawl_id: int) -> bool:
    query = sa.text("SELECT trigger FROM crawls WHERE id = :id")
    return bool(connection.execute(query, {"id": crawl_id}).scalar() == REPLAY)


def planned(connection: sa.Connection) -> list[int]:
    """Crawls that wait for their discovery: normally empty, but a message may have been lost."""
    return list(
        connection.execute(
            sa.text("SELECT id FROM crawls WHERE status = 'planned' ORDER BY id")
        ).scalars()
    )


def lock_planned(connection: sa.Connection, crawl_id: int) -> tuple[int, Site] | None:
    """Locks a crawl that is to be started: its site's id and definition, or None where somebody was
    faster."""
    query = sa.text(
        "SELECT site_id, definition FROM crawls WHERE id = :id AND status = 'planned' FOR UPDATE"
    )
    row = connection.execute(query, {"id": crawl_id}).first()
    return (row.site_id, Site.model_validate(row.definition)) if row else None


def start(connection: sa.Connection, crawl_id: int) -> None:
    query = sa.text("UPDATE crawls SET status = 'running', started_at = now() WHERE id = :id")
    connection.execute(query, {"id": crawl_id})


def definition(connection: sa.Connection, crawl_id: int) -> tuple[int, Site]:
    """The site id and the definition a crawl runs by."""
    query = sa.text("SELECT site_id, definition FROM crawls WHERE id = :id")
    row = connection.execute(query, {"id": crawl_id}).one()
    return row.site_id, Site.model_validate(row.definition)


def hold(connection: sa.Connection, crawl_ids: Iterable[int]) -> dict[int, sa.Row[Any]]:
    """Keeps crawls from ending until this transaction does. Returns those still running, with their
    totals."""
    query = sa.text("""
        SELECT id, discovery_total, product_total FROM crawls
         WHERE id = ANY (:ids) AND status = 'running' ORDER BY id FOR KEY SHARE""")
    return {row.id: row for row in connection.execute(query, {"ids": sorted(set(crawl_ids))})}


def hold_running(connection: sa.Connection) -> list[int]:
    """Keeps the running crawls whose sites are not paused from ending until this transaction does,
    but for those that are being ended now: who does that may take a while. Returns which."""
    query = sa.text("""
        SELECT c.id FROM crawls c JOIN sites s ON s.id = c.site_id
         WHERE c.status = 'running' AND NOT s.paused
         ORDER BY c.id FOR KEY SHARE OF c SKIP LOCKED""")
    return list(connection.execute(query).scalars())


def paused(connection: sa.Connection) -> list[int]:
    """The running crawls of paused sites."""
    query = sa.text("""
        SELECT c.id FROM crawls c JOIN sites s ON s.id = c.site_id
         WHERE s.paused AND c.status = 'running'""")
    return list(connection.execute(query).scalars())


def standing_still(connection: sa.Connection, minutes: float) -> list[int]:
    """Looks at the running crawls, each once a minute. Returns those that have not moved for so
    many looks."""
    return [row.id for row in connection.execute(WATCH) if row.idle_minutes >= minutes]


def waits_for(connection: sa.Connection, crawl_id: int) -> str:
    """What most open pages of a crawl wait for, for a note."""
    row = connection.execute(WAITING_FOR, {"id": crawl_id}).first()
    if row is None:
        return "no page is open"
    last = f", last: {row.outcome}" if row.outcome else ", never tried"
    return f"{row.pages} pages of {row.host} wait on queue {row.queue}{last}"


def count(connection: sa.Connection, counts: CountsByCrawl) -> list[int]:
    """Adds to the crawls' counters, last thing in a transaction. Returns the crawls with no page
    left open."""
    if not counts:
        return []
    names = [field.name for field in fields(Counts)]
    rows = [
        {"crawl_id": crawl_id, **{name: getattr(counts[crawl_id], name) for name in names}}
        for crawl_id in sorted(counts)
    ]
    return [row.id for row in connection.execute(COUNT, {"rows": dumps(rows)}) if row.open == 0]


def drained(connection: sa.Connection) -> list[int]:
    return list(connection.execute(DRAINED).scalars())


def lock_drained(connection: sa.Connection, crawl_id: int) -> sa.Row[Any] | None:
    """Locks a running crawl with no open page; None where it has some, or has ended."""
    query = sa.text("SELECT * FROM crawls WHERE id = :id AND status = 'running' FOR UPDATE")
    row = connection.execute(query, {"id": crawl_id}).first()
    if row is None:
        return None
    still = sa.text("SELECT EXISTS (SELECT FROM pages WHERE crawl_id = :id AND status = 'due')")
    return None if connection.execute(still, {"id": crawl_id}).scalar() else row


def delist(connection: sa.Connection, crawl_id: int, site_id: int) -> int:
    """Counts a complete crawl's misses. Returns how many products became delisted with it."""
    crawl = connection.execute(
        sa.text("SELECT filter_id, definition FROM crawls WHERE id = :id"), {"id": crawl_id}
    ).one()
    if crawl.filter_id is not None:
        life_s = Site.model_validate(crawl.definition).revisit_s
        return filters.delist(connection, crawl_id, site_id, life_s, DELISTED_AFTER)
    values = {"crawl_id": crawl_id, "site_id": site_id, "delisted_after": DELISTED_AFTER}
    return int(connection.execute(DELIST, values).scalar_one())


def end(
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
    connection.execute(
        query, {"id": crawl_id, "status": status, "note": note, "delisted": delisted}
    )
    throughput.seal(connection, crawl_id)


def stop(
    connection: sa.Connection, crawl_id: int, note: str, status: CrawlStatus = CrawlStatus.STOPPED
) -> bool:
    """Ends an active crawl now: its open pages are dropped and the effects of those under way are
    fenced off. Leases that have no other page end with it."""
    query = sa.text(
        "SELECT id FROM crawls WHERE id = :id AND status IN ('planned', 'running') FOR UPDATE"
    )
    if connection.execute(query, {"id": crawl_id}).first() is None:
        return False
    counts, dropped = CountsByCrawl(), set()
    out = leases.lock(connection)
    for page_id, kind in connection.execute(DROP_OPEN, {"id": crawl_id}):
        counts[crawl_id].dropped += 1
        if kind == "product":
            counts[crawl_id].product_done += 1
        else:
            counts[crawl_id].discovery_done += 1
        dropped.add(page_id)
    leases.take_out(connection, out, dropped)
    count(connection, counts)
    end(connection, crawl_id, status, note)
    return True


def progress(
    connection: sa.Connection,
    *,
    site: str | None = None,
    crawl_id: int | None = None,
    active: bool = False,
    newest: int = 20,
) -> list[Progress]:
    """The active crawls and, unless only those are wanted, the newest ended ones, newest first."""
    query = sa.text("""
        SELECT c.*, s.name AS site, s.paused,
               EXTRACT(EPOCH FROM coalesce(c.finished_at, now()) - coalesce(c.started_at,
                                                                            now())) AS elapsed_s,
               coalesce(recent.per_s, 0) AS recent_per_s
          FROM crawls c JOIN sites s ON s.id = c.site_id
          LEFT JOIN LATERAL (
               SELECT sum(t.done) / greatest(1,
                                             EXTRACT(EPOCH FROM now() - greatest(since.at,
                                                                                 c.started_at))) AS per_s
                 FROM date_bin('10 s', now() - interval '30 s', 'epoch') AS since(at)
                 JOIN throughput t ON t.crawl_id = c.id AND t.at >= since.at
                WHERE c.status = 'running' GROUP BY since.at) recent ON true
         WHERE (CAST(:site AS text) IS NULL OR s.name = :site)
           AND (CAST(:id AS bigint) IS NULL OR c.id = :id)
           AND (NOT :active OR c.status IN ('planned', 'running'))
         ORDER BY c.status IN ('planned', 'running') DESC, c.id DESC LIMIT :newest""")
    rows = connection.execute(
        query, {"site": site, "id": crawl_id, "active": active, "newest": newest}
    )
    return [_progress(row) for row in rows]


def _progress(row: sa.Row[Any]) -> Progress:
    counts = Counts(**{field.name: getattr(row, field.name) for field in fields(Counts)})
    return Progress(
        id=row.id,
        site=row.site,
        site_id=row.site_id,
        status=row.status,
        trigger=row.trigger,
        slot=row.slot,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        note=row.note,
        elapsed_s=float(row.elapsed_s),
        counts=counts,
        products_delisted=row.products_delisted,
        paused=row.paused,
        suspect=row.suspect,
        recent_per_s=float(row.recent_per_s),
    )
