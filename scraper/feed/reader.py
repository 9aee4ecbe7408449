"""The feed for Python: every new, changed, delisted and relisted product, once and in order.

    from scraper.feed import reader
    from scraper.infra.database import make_engine

    engine = make_engine("postgresql://…")
    for change in reader.read(engine, since=cursor):        # what is there; `follow` waits for more
        if change.event == "changed" and "price" in change.changed:
            print(change.id, change.before["price"], "->", change.data["price"])
        cursor = change.cursor

A consumer that stores `change.cursor` in the same transaction as its own result handles every
change exactly once. Reading changes nothing and blocks no other process. `scraper.feed.store`
explains the order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, TypeVar

import orjson
import sqlalchemy as sa

from scraper.errors import CursorError, NotFoundError
from scraper.feed import store as store
from scraper.feed.store import Horizon
from scraper.frontier import sites
from scraper.infra import outages
from scraper.infra.database import dumps, loads

ROWS = 1000  # read at once
# The reader polls at this interval while no changes come.
IDLE_S = 1.0
# While transactions are under way it polls after the first time, doubled up to the second.
WAITING_S = 0.005, 0.2
# While PostgreSQL does not answer it retries after the first time, doubled up to the second.
AWAY_S = 1.0, 10.0
# A transaction that blocks the feed for this long is reported.
BLOCKED_S = 15.0

T = TypeVar("T")
Event = Literal["new", "changed", "delisted", "relisted", "reverted"]
Since = int | datetime | Literal["oldest", "now"]


@dataclass(frozen=True)
class Change:
    """One change of a product.

    `cursor` is its position in the feed, `changed` names the fields that differ from the version
    before. `changed` and `before` are empty unless the content changed, which can also happen to a
    relisted product.
    """

    cursor: int
    event: Event
    site: str
    id: str
    url: str
    version: int
    crawl: int
    at: datetime
    changed: tuple[str, ...]
    before_json: str
    data_json: str

    @cached_property
    def data(self) -> dict[str, Any]:
        """The whole product as of this version; numbers with a point or of more than 64 bits are
        Decimals."""
        return _parse_fields(self.data_json)

    @cached_property
    def before(self) -> dict[str, Any]:
        """The earlier values of the changed fields; None: the field was missing."""
        return _parse_fields(self.before_json)

    def json(self) -> str:
        """Returns one line, as `scraper changes` prints it."""
        return dumps(
            {
                "cursor": self.cursor,
                "event": self.event,
                "site": self.site,
                "id": self.id,
                "url": self.url,
                "version": self.version,
                "crawl": self.crawl,
                "at": self.at.astimezone(UTC).isoformat(),
                "changed": self.changed,
                "before": orjson.Fragment(self.before_json),
                "data": orjson.Fragment(self.data_json),
            }
        )


class ChangeReader:
    """Reads the feed from a cursor on. `cursor` is the position of the last change that it
    returned, or of a later one of another site: nothing before it is left to read.

    Belongs to one thread. It holds one connection of an engine, and opens another after an outage,
    in which nothing is lost or read twice; or it reads on the caller's connection, in autocommit or
    READ COMMITTED.
    """

    def __init__(
        self,
        database: sa.Engine | sa.Connection,
        cursor: int,
        *,
        site: str | None = None,
        rows: int = ROWS,
    ) -> None:
        self.cursor = cursor
        self._database = database
        self.rows = rows
        self._connection: sa.Connection | None = None
        self._horizon = Horizon()
        # Nothing is left to read up to this position on this connection.
        self._read_to = 0
        # A former primary may have given out positions up to here.
        self.began = 0
        try:
            connection = self._open_connection()
            if database is connection:
                self._ask_server(connection)
            self._site_id = _site_id(connection, site)
        finally:
            self.close()

    def next(self) -> list[Change]:
        """Returns the next changes, some at a time. Returns none if there are none yet, or
        (`waits`) if their order is not decided yet."""
        try:
            return self._read_batch(self._open_connection())
        except Exception:
            self.close()
            raise

    @property
    def waits(self) -> bool:
        """True while transactions are under way that may have written to the feed."""
        return self._horizon.waits

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self._horizon.since if self._horizon.waits else 0.0

    def has_passed_replacement(self, start: int) -> bool:
        """Returns whether PostgreSQL was replaced after the change at `start`, and the reader is
        past that: changes that it lost come again."""
        return start < self.began < self.cursor

    def blocker(self) -> str:
        return self._horizon.blocker(self._open_connection())

    def close(self) -> None:
        """Closes its own connection; `next` opens another one."""
        connection, self._connection = self._connection, None
        self._horizon = Horizon()
        self._read_to = 0
        if connection is not None:
            connection.close()

    def _open_connection(self) -> sa.Connection:
        if isinstance(self._database, sa.Connection):
            return self._database
        if self._connection is None:
            self._connection = self._database.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            )
            self._ask_server(self._connection)
        return self._connection

    def _ask_server(self, connection: sa.Connection) -> None:
        """Raises unless the server can be read from the cursor on: it may be another one."""
        store.require_primary(connection)
        self.began = store.require_kept(connection, self.cursor).began
        last = store.last_position(connection)
        if self.cursor > last:
            raise CursorError(
                f"cursor {self.cursor} is ahead of the feed, which ends at {last}: it belongs to "
                "another database, or this one was restored from a backup (fix: take a whole "
                "`scraper export`, and go on from the cursor that it names)"
            )

    def _read_batch(self, connection: sa.Connection) -> list[Change]:
        upto = self._horizon.look(connection)
        if upto <= max(self.cursor, self._read_to):
            return []
        rows, start = store.read_rows(connection, self.cursor, upto, self._site_id, self.rows)
        self.began = start.began
        if len(rows) == self.rows:
            self.cursor = rows[-1].cursor
        else:
            self.cursor = max(self.cursor, store.last_row(connection, upto))
            self._read_to = upto
        return [_change_of(row) for row in rows]


def read(
    engine: sa.Engine,
    since: Since = "oldest",
    *,
    site: str | None = None,
    rows: int = ROWS,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Change]:
    """Yields the changes after `since` (a cursor, a time, "oldest" or "now") up to the current end
    of the feed, of all sites or of one. `say` gets a line if PostgreSQL was replaced since.

    Raises `CursorError` if the feed no longer holds the changes after `since`, or never had the one
    at it, and `NotFoundError` for an unknown site.
    """
    reader = ChangeReader(engine, resolve_cursor(engine, since), site=site, rows=rows)
    end = store.current_cursor(engine)
    with closing(follow_batches(reader, threading.Event(), say, wait_out=False)) as batches:
        for batch in batches:
            yield from batch
            if reader.cursor >= end:
                return


def follow(
    engine: sa.Engine,
    since: Since = "now",
    *,
    site: str | None = None,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Change]:
    """Yields changes as `read` does, and then waits for more until `stop` is set. It survives
    restarts of PostgreSQL; `say` gets a line then, too, and when it waits for a transaction."""
    reader = ChangeReader(engine, resolve_cursor(engine, since), site=site)
    with closing(follow_batches(reader, stop or threading.Event(), say)) as stream:
        for batch in stream:
            yield from batch


def follow_batches(
    reader: ChangeReader,
    stop: threading.Event,
    say: Callable[[str], None],
    *,
    wait_out: bool = True,
) -> Generator[list[Change], None, None]:
    """Yields batches of changes until `stop` is set, and an empty one whenever it has read
    everything. With `wait_out`, it waits out outages of PostgreSQL."""
    waiting = _backoff_pauses(*WAITING_S)
    reported = False
    announced = False
    try:
        while not stop.is_set():
            cursor = reader.cursor
            for batch in retry_while_away(reader.next, stop, say, wait_out=wait_out):
                was_announced, announced = announced, reader.began > cursor
                if announced and not was_announced:
                    say(
                        f"PostgreSQL was replaced: it has all changes up to cursor {cursor}; later "
                        "ones that were read may come again"
                    )
                if batch or not reader.waits:
                    waiting, reported = _backoff_pauses(*WAITING_S), False
                    yield batch
                    if not batch:
                        stop.wait(IDLE_S)
                    continue
                if reader.waited_s > BLOCKED_S and not reported:
                    say(f"waits for {reader.blocker()}")
                    reported = True
                stop.wait(next(waiting))
    finally:
        reader.close()


def ready_batches(reader: ChangeReader, for_s: float) -> Iterator[list[Change]]:
    """Yields batches for at most `for_s` seconds, or until no decided change is left. Waits briefly
    while the order of the next ones is not decided."""
    latest = time.monotonic() + for_s
    while time.monotonic() < latest:
        batch = reader.next()
        if batch:
            yield batch
        elif reader.waits:
            time.sleep(WAITING_S[0])
        else:
            return


def retry_while_away(
    work: Callable[[], T], stop: threading.Event, say: Callable[[str], None], *, wait_out: bool
) -> Iterator[T]:
    """Yields the result of `work` once, or nothing if `stop` is set before. Retries while
    PostgreSQL is away."""
    outage, is_away = _backoff_pauses(*AWAY_S), False
    while True:
        try:
            result = work()
        except Exception as error:
            is_standby = isinstance(error, store.StandbyError)
            if not wait_out or not (is_standby or outages.is_postgres_away(error)):
                raise
            if not is_away:
                say("PostgreSQL does not answer; goes on when it does")
            is_away = True
            if stop.wait(next(outage)):
                return
            continue
        if is_away:
            say("PostgreSQL answers again")
        yield result
        return


def resolve_cursor(engine: sa.Engine, since: Since) -> int:
    """Returns the cursor that `since` means."""
    if isinstance(since, int):
        return since
    if since == "now":
        return store.current_cursor(engine)
    with engine.connect() as connection:
        store.require_primary(connection)
        if isinstance(since, datetime):
            at = since if since.tzinfo else since.replace(tzinfo=UTC)
            position = store.position_at(connection, at)
        else:
            position = store.read_start(connection).trimmed
    return store.current_cursor(engine) if position is None else position


def _site_id(connection: sa.Connection, name: str | None) -> int | None:
    if name is None:
        return None
    row = sites.find_site(connection, name)
    if row is None:
        raise NotFoundError(
            f"no site named {name!r} in the database; `scraper crawl {name}` adds it"
        )
    return row[0]


def _change_of(row: sa.Row[Any]) -> Change:
    return Change(**{**row._asdict(), "changed": tuple(row.changed)})


def _parse_fields(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = loads(text)
    return fields


def _backoff_pauses(first: float, longest: float) -> Iterator[float]:
    while True:
        yield first
        first = min(first * 2, longest)
