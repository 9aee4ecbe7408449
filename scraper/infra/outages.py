"""Knows which errors mean that PostgreSQL, Redis or the broker is *away*, and logs when an outage
begins and ends.

Every part of a process meets the same outage, each in its own way and many times a second. All of
them record it here, and only the first one is logged. `scraper.process.watchdog` decides how long a
process waits. This module knows the errors of redis-py, kombu and py-amqp by name: steps may not
import the last two, and commands that use only PostgreSQL need none of them.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg
import structlog
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from scraper import settings as settings_module
from scraper.infra.redaction import mask_passwords, scrub_error

log = structlog.get_logger()

T = TypeVar("T")

# After an outage the next one is not announced for this long: a line a second would not help.
QUIET_S = 10.0
# An outage of this length counts as recent for as long again: what the processes of a fleet do
# every few seconds could not be done, and is done again by then.
LONG_S = 10.0
# An error's causes are followed this far.
CAUSES_MAX = 5

# 08: the connection broke. 53: there are too many clients, or disk or memory is full. 57P: the
# server shuts down, has crashed or is starting up.
_AWAY_CLASSES = ("08", "53", "57P")
# These states are for the operator to fix.
_TROUBLES = {
    "25006": "is read-only",
    "26000": "has lost a prepared statement",
    "42501": "denies access",
    "42P05": "has another session's prepared statement",
    "53100": "has a full disk",
    "53200": "is out of memory",
    "53300": "has too many clients",
}
# 22: a value is not valid. 23: a constraint is violated. 54: a value is too large for an index or a
# column.
_DATA_CLASSES = ("22", "23", "54")
# A table, column or schema is missing.
_SCHEMA_STATES = frozenset({"42P01", "42703", "3F000"})
_BROKER_ERRORS = frozenset({
    # It includes BusyLoadingError.
    ("redis.exceptions", "ConnectionError"),
    ("redis.exceptions", "TimeoutError"),
    # A primary was demoted.
    ("redis.exceptions", "ReadOnlyError"),
    ("redis.exceptions", "OutOfMemoryError"),
    ("kombu.exceptions", "OperationalError"),
    ("kombu.exceptions", "LimitExceeded"),
    ("amqp.exceptions", "ConnectionError"),
    # RabbitMQ takes no message at the moment.
    ("amqp.exceptions", "MessageNacked"),
})  # fmt: skip
# py-amqp raises a bare OSError with this text.
_AMQP_CLOSED = "Server unexpectedly closed connection"
_NETWORK_DOWN = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EBADF}
)


def is_postgres_away(error: BaseException | None) -> bool:
    """Returns whether PostgreSQL cannot be reached or cannot serve: the same statement may succeed
    later.

    A lost deadlock or lock, a cancelled statement and rejected data do not count: the server
    answered.
    """
    if isinstance(error, PoolTimeoutError):
        return True
    if isinstance(error, DBAPIError):
        return bool(error.connection_invalidated) or is_postgres_away(error.orig)
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    # Without a state nothing came from the server: it was not reached, or the connection broke.
    if state is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return state.startswith(_AWAY_CLASSES) or state in _TROUBLES


def is_data_rejected(error: BaseException | None) -> bool:
    """Returns whether PostgreSQL, or psycopg, rejects the values of a row: the only errors that are
    the row's own fault."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(original, psycopg.Error):
        return False
    state = original.sqlstate
    return isinstance(original, psycopg.DataError) if state is None else state[:2] in _DATA_CLASSES


def is_postgres_refusing(error: BaseException | None) -> bool:
    """Returns whether PostgreSQL answered, and takes no statement of this kind now, whatever its
    values: rights were revoked, it was demoted, or a table was altered."""
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    return state is not None and not state.startswith(_AWAY_CLASSES) and not is_data_rejected(error)


def is_broker_away(error: BaseException | None) -> bool:
    """Returns whether the broker (or Redis) cannot be reached or takes no writes, whichever library
    says so."""
    for _ in range(CAUSES_MAX):
        if error is None:
            return False
        if isinstance(error, (ConnectionError, TimeoutError)):
            return True
        if any((kind.__module__, kind.__name__) in _BROKER_ERRORS for kind in type(error).__mro__):
            return True
        if isinstance(error, OSError) and (
            error.errno in _NETWORK_DOWN or str(error) == _AMQP_CLOSED
        ):
            return True
        error = error.__cause__
    return False


def is_schema_missing(error: BaseException | None) -> bool:
    """Returns whether a table or column is missing: the database was migrated, or replaced, under a
    running process."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(original, psycopg.Error) and original.sqlstate in _SCHEMA_STATES


class Outage:
    """The outage, if any, of one server for this process. Thread-safe.

    Callers of the server use `record_failure` and `record_answer`, or wrap the work in `watching`.
    """

    def __init__(self, server: str, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._url = url
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._announced = False
        self._back_at = self._long_ended_at = float("-inf")
        self._error = ""

    @property
    def away_s(self) -> float:
        """Seconds since the first failure after the last answer; 0.0 while it answers."""
        since = self._since
        return 0.0 if since is None else max(self._clock() - since, 0.001)

    def is_recent(self) -> bool:
        """Returns whether a long outage is under way, or has just ended."""
        return self.away_s >= LONG_S or self._clock() < self._long_ended_at + LONG_S

    @property
    def address(self) -> str:
        return mask_passwords(self._url)

    @property
    def error(self) -> str:
        """The last failure's first line, without passwords."""
        return self._error

    def record_failure(self, error: BaseException) -> None:
        """Begins an outage, unless one is under way. Logs it once, and not if the last one has only
        just ended."""
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig
        with self._lock:
            now = self._clock()
            self._error = scrub_error(error, self._url)[:300]
            if self._since is None:
                self._since = now
            announce = not self._announced and now - self._back_at >= QUIET_S
            self._announced = self._announced or announce
        if announce:
            state = getattr(error, "sqlstate", None) or ""
            is_away = not state or state.startswith(_AWAY_CLASSES)
            trouble = _TROUBLES.get(state, "is away" if is_away else "refuses a statement")
            log.warning(f"{self._server} {trouble}", address=self.address, error=self._error)

    def record_answer(self, began: float | None = None) -> None:
        """Records that work which began at `began` (the clock's time) succeeded. Work that began
        before the outage proves nothing."""
        # `_since` is nearly always None, which costs no lock.
        if self._since is None:
            return
        with self._lock:
            if self._since is None or (began is not None and began < self._since):
                return
            away_s, announced = self._clock() - self._since, self._announced
            self._since = None
            self._announced = False
            if away_s >= LONG_S:
                self._long_ended_at = self._clock()
            if announced:
                self._back_at = self._clock()
        if announced:
            log.info(f"{self._server} is back", address=self.address, away_s=round(away_s, 1))

    @contextmanager
    def watching(self, means_away: Callable[[BaseException], bool]) -> Iterator[None]:
        """Records the block's success as an answer, and an error that `means_away` as a failure.
        Errors pass through."""
        began = self._clock()
        try:
            yield
        except Exception as error:
            if means_away(error):
                self.record_failure(error)
            raise
        self.record_answer(began)


_outages: dict[tuple[str, str, str], Outage] = {}
# A thread that the child does not have may hold a lock at the fork.
os.register_at_fork(after_in_child=_outages.clear)


def postgres() -> Outage:
    return _get_outage("PostgreSQL", settings_module.load().postgres_url)


def storage() -> Outage:
    """Returns the outage of storing pages alone, while other statements may succeed."""
    return _get_outage("PostgreSQL", settings_module.load().postgres_url, "storage")


def redis_server() -> Outage:
    """Returns the outage of the Redis of budgets and robots.txt texts, which is the broker too
    unless BROKER_URL is set."""
    return _get_outage("Redis", settings_module.load().valkey_url)


def broker() -> Outage:
    settings = settings_module.load()
    if settings.broker_url is None:
        return redis_server()
    return _get_outage("the broker", settings.broker_url)


def record_outage(error: BaseException) -> bool:
    """Records an error that means that a server is away. Returns False for any other error."""
    if is_postgres_away(error):
        postgres().record_failure(error)
        return True
    if is_broker_away(error):
        broker().record_failure(error)
        return True
    return False


def retry_until_available(
    work: Callable[[], T],
    patience_s: float,
    *,
    pause_s: float = 0.1,
    pause_max_s: float = 1.0,
    stopping: Callable[[], bool] = lambda: False,
) -> T:
    """Runs a whole transaction again while PostgreSQL is away, for at most `patience_s` and unless
    the process is `stopping`. Any other error passes through."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return work()
        except SQLAlchemyError as error:
            if not is_postgres_away(error) or stopping() or time.monotonic() + pause_s > until:
                raise
            postgres().record_failure(error)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, pause_max_s)


def _get_outage(server: str, url: str, part: str = "") -> Outage:
    return _outages.setdefault((server, url, part), Outage(server, url))
