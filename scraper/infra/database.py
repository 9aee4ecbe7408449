"""Access to PostgreSQL: engines, JSON in and out, and transactions that are worth a second try.

Connections notice a lost reply. TCP's own limits end a connection whose packets are not
acknowledged, but a proxy or firewall may acknowledge them and pass on nothing: without the check
the client would wait without end.
"""

from __future__ import annotations

import json
import random
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import orjson
import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy.exc import DBAPIError

from scraper.domain import as_json
from scraper.settings import name_driver

T = TypeVar("T")
R = TypeVar("R", bound=NamedTuple)

# Deadlock, serialization failure, lock not available.
RETRIED_STATES = {"40P01", "40001", "55P03"}
TRIES = 5
OPTIONS = {
    "timezone": "UTC",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",
    "random_page_cost": "1.1",
}
# Read-only; a prepared statement is missing, or another session's.
STALE_STATES = {"25006", "26000", "42P05"}
# After so long without a word the server is asked over another connection.
SILENT_S = 10.0
# A reply that was sent arrives within this.
ARRIVES_S = 2.0
# A pooler hides which session runs a statement outside a transaction, and whether one that begins a
# transaction waits for a session. These take less than this.
HIDDEN_S = 60.0
IS_WORKING = """
SELECT count(*) > 0 FROM pg_stat_activity
 WHERE (pid = %s OR application_name = %s) AND (state IS NULL OR state NOT LIKE 'idle%%')
"""

# A plan that was made while a table was small is forgotten in about this time.
PREPARED_S = 60.0

# Each promotion begins a timeline with a higher number (hexadecimal, of eight digits).
TIMELINE = """
SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), system_identifier
  FROM pg_control_system()
"""
# A promoted server may be slower than the one that it replaced: what is late is asked again.
ASK_S = (2, 3)
# The highest timeline that this process has used of each system.
timelines_used: dict[int, str] = {}


class WatchedConnection(psycopg.Connection[Any]):
    """Ends, with `OperationalError`, if the server does not work on the statement that is waited
    for, or cannot be asked through `ask_again`. Behind a pooler `name` finds a transaction."""

    ask_again: Callable[[], psycopg.Connection[Any]] | None = None
    # Until `set_up_session` has asked.
    is_pooled = True
    hidden_s: float | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.name = f"scraper {uuid4().hex[:12]}"
        self._forgot_at = time.monotonic()

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> WatchedConnection:
        try:
            return super().connect(*args, **options)
        except psycopg.Error as error:
            # A socket that was not answered would stay open until the garbage is collected.
            traceback.clear_frames(error.__traceback__)
            raise

    def rollback(self) -> None:
        """Keeps what is prepared, up to `PREPARED_S`, if no statement has failed. psycopg itself
        forgets it, even where a transaction has only read: PostgreSQL would plan everything again.
        """
        is_well = self.pgconn.transaction_status == TransactionStatus.INTRANS
        if not is_well or time.monotonic() - self._forgot_at > PREPARED_S:
            super().rollback()
            self._forgot_at = time.monotonic()
            return
        with self.keep_prepared():
            super().rollback()

    @contextmanager
    def keep_prepared(self) -> Iterator[None]:
        """Keeps what is prepared while something that no statement depends on is rolled back."""
        # Not documented: psycopg has an upper bound for this.
        prepared, self._prepared = self._prepared, type(self._prepared)()
        self.prepare_threshold = None
        try:
            yield
        finally:
            self._prepared = prepared

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        return super().wait(self._watch_silence(gen), *args, **options)

    def _watch_silence(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        heard_at = time.monotonic()
        limit_s = SILENT_S
        is_served = True
        is_begun = self.pgconn.transaction_status != TransactionStatus.IDLE
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                silent_s = time.monotonic() - heard_at
                if ready:
                    heard_at = time.monotonic()
                    limit_s = SILENT_S
                    is_served = True
                elif silent_s > limit_s:
                    if not is_served:
                        self.pgconn.finish()
                        raise psycopg.OperationalError("PostgreSQL's reply was lost")
                    # The statement may have ended while the server was asked.
                    is_served = self._is_served(silent_s, is_begun)
                    asked_s = time.monotonic() - heard_at
                    limit_s = asked_s + (SILENT_S if is_served else ARRIVES_S)
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _is_served(self, silent_s: float, is_begun: bool) -> bool:
        if self.ask_again is None:
            return False
        if self.is_pooled and not is_begun:
            return silent_s < (self.hidden_s or HIDDEN_S)
        try:
            with self.ask_again() as other:
                values = self.info.backend_pid, self.name
                return other.execute(IS_WORKING, values).fetchone() == (True,)
        except psycopg.Error as error:
            return error.sqlstate is not None


def make_engine(url: str, *, pool_size: int = 4, overflow: int | None = None) -> sa.Engine:
    """Returns an engine whose transactions use UTC, and give up on a lock or a dead peer. It opens
    at most `pool_size` and `overflow` (as many again) connections. The URL may name several hosts,
    as libpq's may.

    A process that freezes within a transaction loses it after ten seconds, so that others get its
    locked rows. Transactions find pages by index: PostgreSQL's default `random_page_cost`, made for
    spinning disks, prefers to scan a table of ten thousand rows for a hundred of them.
    """
    dead_peer = {
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    engine = sa.create_engine(
        name_driver(url),
        pool_size=pool_size,
        max_overflow=pool_size if overflow is None else overflow,
        pool_pre_ping=True,
        # The connection used last has prepared the most statements.
        pool_use_lifo=True,
        # Its type is looked up in the catalogue otherwise.
        use_native_hstore=False,
        connect_args={"connect_timeout": 5, "application_name": "scraper", **dead_peer},
        json_serializer=lambda value: dumps(value),
        json_deserializer=orjson.loads,
    )
    watch_engine(engine)
    return engine


def watch_engine(engine: sa.Engine) -> None:
    """Makes the connections of an engine notice lost replies, and share a pooler's sessions."""
    sa.event.listen(engine, "do_connect", connect_watched)
    sa.event.listen(engine, "connect", set_up_session)
    sa.event.listen(engine, "begin", _set_up_transaction)
    sa.event.listen(engine, "handle_error", _discard_stale_connections)


def connect_watched(_dialect: Any, _record: Any, args: Any, options: Any) -> WatchedConnection:
    """Opens an engine's connection: the listener of its event `do_connect`."""
    options = choose_primary(args, options)
    connection = WatchedConnection.connect(*args, **options)
    connection.ask_again = partial(WatchedConnection.connect, *args, **options)
    return connection


def choose_primary(args: Any, options: Any) -> Any:
    """Returns the options with one of several primaries, the one that was promoted last: the others
    have been replaced. Without several servers, or if none is a primary, the options stay as they
    are.

    Raises `OperationalError` if a server was late and no primary answered, or if only a primary
    did that has been replaced since this process used it.
    """
    hosts, ports = (str(options.get(key, "")).split(",") for key in ("host", "port"))
    if len(hosts) < 2 or options.get("target_session_attrs") not in ("read-write", "primary"):
        return options
    pairs = zip(hosts, ports * len(hosts), strict=False)
    servers = [{**options, "host": host, "port": port} for host, port in pairs]
    primaries: dict[tuple[str, int], Any] = {}
    for wait_s in ASK_S:
        servers = [server for server in servers if _is_late(args, server, wait_s, primaries)]
    if primaries:
        timeline, system = last = max(primaries)
        if timeline < timelines_used.get(system, ""):
            raise psycopg.OperationalError(
                "only a replaced primary answers (fix: start the one that replaced it, or restart "
                "this process)"
            )
        timelines_used[system] = timeline
        return primaries[last]
    if servers:
        # A server that answers by now may be a replaced primary, which libpq would take.
        raise psycopg.OperationalError("no primary answers, and a server is late")
    return options


def _is_late(args: Any, server: Any, wait_s: int, primaries: dict[tuple[str, int], Any]) -> bool:
    """Asks a server for its timeline, and adds it to the primaries if it is one. Returns whether it
    did not answer in time."""
    try:
        with WatchedConnection.connect(*args, **{**server, "connect_timeout": wait_s}) as asked:
            (timeline,) = asked.execute(TIMELINE)
            primaries.setdefault(timeline, server)
    except psycopg.errors.ConnectionTimeout:
        return True
    except psycopg.Error:
        return False
    return False


def set_up_session(connection: Any, record: Any) -> None:
    """Sets the options of a session. Behind a pooler, which answers with a process id of its own,
    other clients share the session: nothing is set or prepared in it."""
    connection.autocommit = True
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    connection.is_pooled = pid != connection.info.backend_pid
    if connection.is_pooled:
        connection.prepare_threshold = None
    else:
        connection.execute(_list_options("SET"))
    connection.autocommit = False


def _set_up_transaction(connection: sa.Connection) -> None:
    """Sets the options of a transaction behind a pooler. (SET takes no snapshot.)"""
    driver: Any = connection.connection.driver_connection
    if driver.is_pooled and not driver.autocommit:
        try:
            driver.execute(_list_options("SET LOCAL", application_name=driver.name))
        except psycopg.Error as error:
            # SQLAlchemy would roll back what is closed, and log a traceback of that.
            if driver.closed:
                connection.invalidate(error)
            raise


def _list_options(verb: str, **more: str) -> str:
    options = OPTIONS | more
    return ";".join(f"{verb} {name} = '{value}'" for name, value in options.items())


def _discard_stale_connections(context: sa.engine.ExceptionContext) -> None:
    """Empties the pool if its connections lead to a server that was demoted, or whose sessions have
    lost what psycopg prepared."""
    if getattr(context.original_exception, "sqlstate", None) in STALE_STATES:
        context.is_disconnect = True


def roll_back(connection: sa.Connection, savepoint: sa.NestedTransaction) -> None:
    """Rolls back to a savepoint since which no statement has failed. Other rollbacks to savepoints
    make psycopg forget all that is prepared."""
    driver: Any = connection.connection.driver_connection
    with driver.keep_prepared():
        savepoint.rollback()


def dumps(value: object) -> str:
    """Returns JSON text for PostgreSQL, of dataclasses too. Decimals become exact numbers with all
    their digits."""
    return as_json(value).decode()


def loads(text: str) -> Any:
    """Parses JSON text with every digit. All that it returns can be written by `dumps` again."""
    return json.loads(text, parse_float=Decimal, parse_int=_parse_int)


def _parse_int(text: str) -> int | Decimal:
    """Returns an int, or a Decimal beyond 64 bits, since `dumps` refuses a larger int."""
    return int(text) if len(text) < 19 else Decimal(text)


def rows_as(row_type: type[R], result: sa.CursorResult[Any]) -> list[R]:
    """Returns a statement's rows as NamedTuples, whose fields must have its columns' names and
    order. (Naming a column of SQLAlchemy's rows takes 0.7 us.)"""
    if tuple(result.keys()) != row_type._fields:
        raise TypeError(f"{row_type.__name__} is not a row of {', '.join(result.keys())}")
    return [row_type._make(row) for row in result]


def delete_site_rows(
    connection: sa.Connection, tables: Iterable[str], site_id: int, limit: int
) -> int:
    """Deletes up to `limit` rows of a site from the first of the tables that has some. Returns how
    many."""
    for table in tables:
        query = f"""DELETE FROM {table} WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {table} WHERE site_id = :site_id LIMIT :most))"""
        values = {"site_id": site_id, "most": limit}
        if deleted := connection.execute(sa.text(query), values).rowcount:
            return deleted
    return 0


def run_transaction(engine: sa.Engine, step: Callable[[sa.Connection], T]) -> T:
    """Runs a step in a transaction, and again if it lost a deadlock or a lock."""

    def run_step() -> T:
        with engine.begin() as connection:
            return step(connection)

    return retry_transaction(run_step)


def retry_transaction(work: Callable[[], T]) -> T:
    """Runs a whole transaction, and again if it lost a deadlock or a lock. Any other error passes
    through."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return work()
        except DBAPIError as error:
            if left == 0 or not is_lock_lost(error):
                raise
            time.sleep(random.uniform(0.01, 0.1))
    raise AssertionError("unreachable")


def is_lock_lost(error: Exception) -> bool:
    """Returns whether a transaction lost a deadlock or a lock."""
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    return state in RETRIED_STATES
