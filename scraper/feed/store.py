"""The feed: every product that is new, changed, delisted or relisted, once, in one order that
stays.

A row is written by the statement that changes the product (`products.UPSERT`, `missed_products`),
so both exist or neither. A row names versions and holds no data: the data of a version is in
`products` and `product_versions`. Products that have not changed cost nothing.

**The order, and its gap.** A position is the row's id, which a sequence gives out before the
transaction commits. Of two transactions, the one with the lower ids may become visible later; a
reader that has passed these ids by then (`WHERE id > cursor`) would never see them. So no reader
goes beyond a position below which everything is decided (`Horizon`). It takes the sequence's last
value and notes which transactions hold the lock that writing to `changes` takes (in `pg_locks`; it
is taken before the statement's first id, and released after the commit is visible). Once these have
ended, everything up to that value is visible or never will be. Nothing is written for that, only
the reader waits, and any number of readers do it independently.

- Rejected: `xid < pg_snapshot_xmin(…)`. It waits for every transaction that writes anything in any
  database of the server, including an index that is built for an hour. Here only transactions count
  that have written to `changes`: a backup or a report blocks nothing. It would also order by the
  time when transactions began, not by versions.
- Rejected: positions that a coordinator gives out after the commit. Each row would be written
  twice, and the feed would stop with the coordinator.

Versions of a product are in order, since its row is locked from before the id is taken until the
commit. Positions have gaps if a transaction was rolled back. A cursor is always the position of a
row that exists, never one that was only given out: a crash may take a sequence back to the last
commit. A standby has no locks to look at: read from the primary.

**Another server.** A standby that is promoted, or a restored backup, may lack the last changes. It
gives out no position twice: the trigger `begin_timeline` moves the sequence beyond all former
positions before the first change. A cursor before this point is valid if its row exists, since
the rows before it were written earlier. Readers ask at each connection; until the first change a
former primary may have given out any position (`BEYOND`). A copy of the server's files has its
timeline: the operator who restores one changes `feed.server`.

Known weakness: a crawl that delists a million products blocks all readers until it is committed,
some seconds; a person who leaves a transaction open in psql after writing to `changes`, for as long
as it is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from scraper.errors import CursorError, ScraperError
from scraper.infra.statements import sql

TRIM_ROWS = 20_000  # at a time
BEYOND = 2**62  # a position above all
# An export must stop all writers for an instant. It tries this often, for this long each time.
LOCK_TRIES, LOCK_MS = 50, 250
NOT_ALLOWED, LOCK_NOT_AVAILABLE, DEADLOCK = "42501", "55P03", "40P01"

LAST = sa.text("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM changes_id_seq")

# Locks that are weaker than an INSERT's do not write. A prepared transaction has no process.
WRITERS = sa.text("""
SELECT DISTINCT virtualtransaction FROM pg_locks
 WHERE locktype = 'relation' AND relation = CAST('changes' AS regclass)
   AND granted AND mode = 'RowExclusiveLock'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND pid IS DISTINCT FROM pg_backend_pid()
""")

WHO = sa.text("""
SELECT a.pid, a.application_name, a.usename, EXTRACT(EPOCH FROM now() - a.xact_start) AS open_s
  FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'relation' AND l.relation = CAST('changes' AS regclass)
   AND l.mode = 'RowExclusiveLock'
   AND l.virtualtransaction = ANY (:found)
 ORDER BY a.xact_start LIMIT 1
""")

# The columns are the fields of a `Change`. Values are compared as text, like content hashes: 9.90
# and 9.9 are two versions.
READ = sa.text("""
SELECT c.id AS cursor, c.event, s.name AS site, p.external_id AS id, p.url, c.version,
       c.crawl_id AS crawl, c.at, coalesce(d.names, '{}') AS changed,
       coalesce(CAST(d.before AS text), '{}') AS before_json,
       CAST(coalesce(v.data, p.data) AS text) AS data_json
  FROM changes c
  JOIN sites s ON s.id = c.site_id
  JOIN products p ON p.id = c.product_id
  LEFT JOIN product_versions v ON v.product_id = c.product_id AND v.version = c.version
  LEFT JOIN product_versions b ON b.product_id = c.product_id AND b.version = c.previous_version
  LEFT JOIN LATERAL (
       SELECT array_agg(key ORDER BY key) AS names, jsonb_object_agg(key, o.value) AS before
         FROM jsonb_each(coalesce(v.data, p.data)) n FULL JOIN jsonb_each(b.data) o USING (key)
        WHERE CAST(n.value AS text) IS DISTINCT FROM CAST(o.value AS text)) d ON b.data IS NOT NULL
 WHERE c.id > :after AND c.id <= :upto AND (CAST(:site_id AS int) IS NULL OR c.site_id = :site_id)
 ORDER BY c.id LIMIT :rows
""")

# What `begin_timeline` compares, too.
KEPT = sa.text("""
SELECT trimmed, trimmed_at,
       CASE WHEN server <> concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
                                     left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
                                     CAST(CAST('changes' AS regclass) AS oid))
            THEN CAST(:beyond AS bigint) ELSE began END AS began
  FROM feed
""")
HAS_ROW = sa.text("SELECT EXISTS (SELECT FROM changes WHERE id = :position)")
FIRST_AT = sa.text(sql("feed/first_at.sql"))
LAST_ROW = sa.text("""
SELECT greatest((SELECT max(id) FROM changes WHERE id <= :upto), (SELECT trimmed FROM feed), 0)
""")
NEWEST = sa.text(
    "SELECT min(id) FROM (SELECT id FROM changes ORDER BY id DESC LIMIT :rows) AS newest"
)

OLDEST_IS_OLD = sa.text(
    "SELECT at < now() - make_interval(days => :days) FROM changes ORDER BY id LIMIT 1"
)
# Rows are deleted from the first up to one that is recent enough, so that no gap is left.
TRIM = sa.text("""
WITH oldest AS (
    SELECT id, at FROM changes ORDER BY id LIMIT :rows
), cut AS (
    SELECT coalesce(
             min(id) FILTER (WHERE at >= now() - make_interval(days => :days)) - 1, max(id)
           ) AS id FROM oldest
), deleted AS (
    DELETE FROM changes c USING cut WHERE c.id <= cut.id RETURNING c.id, c.at
)
UPDATE feed SET trimmed = greatest(trimmed, (SELECT max(id) FROM deleted)),
                trimmed_at = greatest(trimmed_at, (SELECT max(at) FROM deleted))
 WHERE EXISTS (SELECT FROM deleted)
""")
ALONE = sa.text("SELECT pg_try_advisory_xact_lock(hashtext('scraper: trim changes'))")


class StandbyError(ScraperError):
    """The server has the rows, but not the locks of who writes them."""


@dataclass(frozen=True, slots=True)
class FeedStart:
    """Where the feed begins: positions up to `trimmed` are deleted, the last of them from
    `trimmed_at` (None if the feed began later than the products). Positions after `began` are this
    server's; others may belong to a former primary."""

    trimmed: int
    trimmed_at: datetime | None
    began: int


class Horizon:
    """The position up to which the feed is decided. It remembers the transactions that it waits
    for, so that overlapping transactions do not block it forever.

    Belongs to one connection, in autocommit, and must not outlive it: positions that were given out
    and not committed before a crash are given out again afterwards.
    """

    def __init__(self) -> None:
        self.decided = 0
        # Since this monotonic time it waits for the same transactions.
        self.since = 0.0
        self._asked: int | None = None
        self._writers: set[str] = set()

    @property
    def waits(self) -> bool:
        return self._asked is not None

    def look(self, connection: sa.Connection) -> int:
        """Queries once without waiting. Returns `decided`."""
        if self._asked is None:
            last = last_position(connection)
            if last == self.decided:
                return self.decided
            # Read before the locks: no transaction takes a lower position later.
            self._asked = last
            self._writers = set(connection.execute(WRITERS).scalars())
            self.since = time.monotonic()
        elif self._writers:
            self._writers &= set(connection.execute(WRITERS).scalars())
        if not self._writers:
            self.decided = self._asked
            self._asked = None
        return self.decided

    def blocker(self, connection: sa.Connection) -> str:
        """Describes the transaction that it waits for."""
        row = connection.execute(WHO, {"found": list(self._writers)}).first()
        if row is None:
            return (
                "a prepared transaction that has written to the table changes (pg_prepared_xacts)"
            )
        return (
            f"process {row.pid} of {row.application_name or row.usename!r}, whose transaction has "
            f"written to the table changes and is open for {row.open_s:.0f} s (fix: SELECT "
            f"pg_terminate_backend({row.pid}))"
        )


def last_position(connection: sa.Connection) -> int:
    """Returns the newest position that was given out. Its row may not exist yet, or never."""
    return int(connection.execute(LAST).scalar_one())


def require_primary(connection: sa.Connection) -> None:
    if _in_recovery(connection):
        raise StandbyError(
            "this PostgreSQL is a standby, from which changes cannot be read (fix: name the "
            "primary)"
        )


def read_start(connection: sa.Connection) -> FeedStart:
    row = connection.execute(KEPT, {"beyond": BEYOND}).first()
    return FeedStart(*row) if row else FeedStart(0, None, 0)


def read_rows(
    connection: sa.Connection, after: int, upto: int, site_id: int | None, rows: int
) -> tuple[list[sa.Row[Any]], FeedStart]:
    """Returns changes with positions above `after`, up to `upto`, which must be decided.

    Raises `CursorError` as `require_kept` does.
    """
    changes = connection.execute(
        READ, {"after": after, "upto": upto, "site_id": site_id, "rows": rows}
    ).all()
    # Checked after reading, so that nothing can be trimmed in between.
    return list(changes), require_kept(connection, after)


def require_kept(connection: sa.Connection, after: int) -> FeedStart:
    """Raises `CursorError` if changes after `after` were trimmed, or if this server never had the
    one at `after`."""
    start = read_start(connection)
    if after < start.trimmed:
        raise CursorError(
            f"the feed has forgotten what came after cursor {after}: it begins at {start.trimmed} "
            "(fix: take a whole `scraper export`, and go on from the cursor that it names; "
            "SCRAPER_CHANGES_DAYS says how long changes are kept)"
        )
    if is_lost(connection, after, start):
        raise CursorError(
            f"PostgreSQL was replaced by a standby or a backup that lacks the change at cursor "
            f"{after}: the last changes that were read do not exist there (fix: take a whole "
            "`scraper export`, and go on from the cursor that it names; or go on from cursor "
            f"{last_row(connection, after)}, the last common one)"
        )
    return start


def is_lost(connection: sa.Connection, position: int, start: FeedStart) -> bool:
    """Returns whether a former primary gave out `position`, and this server never had its row."""
    return (
        start.trimmed < position <= start.began
        and not connection.execute(HAS_ROW, {"position": position}).scalar()
    )


def common_position(connection: sa.Connection, position: int) -> int:
    """Returns `position`, or that of the last row before it if this server does not have it."""
    is_missing = is_lost(connection, position, read_start(connection))
    return last_row(connection, position) if is_missing else position


def last_row(connection: sa.Connection, upto: int) -> int:
    """Returns the cursor of a reader that has read everything up to that position."""
    return int(connection.execute(LAST_ROW, {"upto": upto}).scalar_one())


def position_at(connection: sa.Connection, at: datetime) -> int | None:
    """Returns the position before the first change made at `at` or later, or None if there is none.
    Raises `CursorError` if some of them were trimmed."""
    state = read_start(connection)
    if state.trimmed:
        began = (
            state.trimmed_at or connection.execute(sa.text("SELECT min(at) FROM changes")).scalar()
        )
        if began is None or at <= began:
            begins = f"after {began.isoformat()}" if began else "now"
            raise CursorError(
                f"the feed does not reach back to {at.isoformat()}: it begins {begins} (fix: take "
                "a whole `scraper export`, and go on from the cursor that it names)"
            )
    first = connection.execute(FIRST_AT, {"at": at}).scalar()
    return None if first is None else last_row(connection, first - 1)


def position_before_newest(connection: sa.Connection, rows: int) -> int:
    """Returns the position before the newest `rows` changes."""
    first = connection.execute(NEWEST, {"rows": rows}).scalar()
    return last_row(connection, (first or 1) - 1)


def trim_feed(connection: sa.Connection, days: int) -> None:
    """Deletes a bounded number of changes that are older than `days`."""
    if (
        not connection.execute(OLDEST_IS_OLD, {"days": days}).scalar()
        or not connection.execute(ALONE).scalar()
    ):
        return
    connection.execute(TRIM, {"days": days, "rows": TRIM_ROWS})


@dataclass(frozen=True, slots=True)
class FeedView:
    """All products at one moment, and the feed's position then. If `exact`, the changes after
    `cursor` are exactly those that are not in the view; otherwise some may be in both. `cursor` is
    None on a standby, which has no position."""

    connection: sa.Connection
    cursor: int | None
    exact: bool


@contextmanager
def open_view(engine: sa.Engine, sleep: Callable[[float], None] = time.sleep) -> Iterator[FeedView]:
    """Opens a transaction that sees one moment.

    Writers of the feed stop for that instant: another connection takes a lock, waits at most a
    quarter of a second for transactions under way, and retries; then the first statement of the
    transaction runs, and the lock is released. A role without the right to lock, or one that meets
    only long transactions, gets a cursor that is slightly early.
    """
    with engine.connect().execution_options(
        isolation_level="REPEATABLE READ", postgresql_readonly=True
    ) as connection:
        # The reader may be slow.
        connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = '1h'"))
        exact = _first_statement_at_rest(engine, connection, sleep)
        early = None if exact else _early_cursor(engine, sleep)
        if exact:
            yield FeedView(connection, last_row(connection, BEYOND), True)
        else:
            last_position(connection)
            yield FeedView(connection, early, False)


def _first_statement_at_rest(
    engine: sa.Engine, connection: sa.Connection, sleep: Callable[[float], None]
) -> bool:
    for attempt in range(LOCK_TRIES):
        try:
            with engine.begin() as limiter:
                if _in_recovery(limiter):
                    return False
                limiter.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_MS}ms'"))
                limiter.execute(sa.text("LOCK TABLE changes IN SHARE MODE"))
                last_position(connection)
                return True
        except DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None)
            if state == NOT_ALLOWED:
                return False
            if state not in (LOCK_NOT_AVAILABLE, DEADLOCK):
                raise
        sleep(min(0.01 * 2**attempt, 0.5))
    return False


def _early_cursor(engine: sa.Engine, sleep: Callable[[float], None]) -> int | None:
    with engine.connect() as connection:
        if _in_recovery(connection):
            return None
    return current_cursor(engine, sleep=sleep)


def _in_recovery(connection: sa.Connection) -> bool:
    return bool(connection.execute(sa.text("SELECT pg_is_in_recovery()")).scalar())


def current_cursor(
    engine: sa.Engine, patience_s: float = 60.0, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Waits until everything that was written before the call is decided. Returns the cursor of a
    reader that has read it all."""
    horizon, pause_s = Horizon(), 0.002
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        require_primary(connection)
        while True:
            decided = horizon.look(connection)
            if not horizon.waits:
                return last_row(connection, decided)
            if time.monotonic() - horizon.since > patience_s:
                raise ScraperError(f"the feed waits for {horizon.blocker(connection)}")
            sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.2)
