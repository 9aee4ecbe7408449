"""What counts as a server that is away, and how often it is said."""

from __future__ import annotations

import psycopg
import pytest
import redis.exceptions
import sqlalchemy as sa
from kombu.exceptions import OperationalError as KombuOperationalError
from psycopg import errors
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
)
from structlog.testing import capture_logs

from scraper.infra.outages import (
    QUIET_S,
    Outage,
    is_broker_away,
    is_data_rejected,
    is_postgres_away,
    is_postgres_refusing,
    is_schema_missing,
)

SECRET_URL = "postgresql+psycopg://ann:s3cret@db.example/shop"


def wrapped(error: Exception, kind: type[DBAPIError] = OperationalError) -> DBAPIError:
    return kind("SELECT 1", {}, error)


@pytest.mark.parametrize(
    "error",
    [
        wrapped(psycopg.OperationalError("connection failed: Connection refused")),
        wrapped(psycopg.OperationalError("the connection is closed")),
        wrapped(psycopg.InterfaceError("the connection is closed"), InterfaceError),
        wrapped(errors.TooManyConnections("sorry, too many clients already")),
        wrapped(errors.DiskFull("could not extend file")),
        wrapped(errors.AdminShutdown("terminating connection due to administrator command")),
        wrapped(
            errors.CrashShutdown(
                "terminating connection because of crash of another server process"
            )
        ),
        wrapped(errors.CannotConnectNow("the database system is starting up")),
        wrapped(errors.ReadOnlySqlTransaction("cannot execute UPDATE"), InternalError),
        wrapped(errors.InvalidSqlStatementName("_pg3_9 does not exist")),
        wrapped(errors.DuplicatePreparedStatement("_pg3_9 already exists"), ProgrammingError),
        wrapped(errors.InsufficientPrivilege("permission denied"), ProgrammingError),
        sa.exc.TimeoutError("QueuePool limit of size 4 overflow 4 reached"),
        psycopg.OperationalError("server closed the connection unexpectedly"),
        DBAPIError("SELECT 1", {}, Exception("any"), connection_invalidated=True),
    ],
)
def test_postgres_is_away(error: Exception) -> None:
    assert is_postgres_away(error)
    assert not is_broker_away(error) and not is_schema_missing(error)


@pytest.mark.parametrize(
    "error",
    [
        wrapped(errors.DeadlockDetected("deadlock detected")),
        wrapped(errors.LockNotAvailable("canceling statement due to lock timeout")),
        wrapped(errors.QueryCanceled("canceling statement due to statement timeout")),
        wrapped(errors.UniqueViolation("duplicate key"), sa.exc.IntegrityError),
        wrapped(errors.UndefinedTable("no such relation"), ProgrammingError),
        ValueError("x"),
        None,
    ],
)
def test_postgres_answered(error: Exception | None) -> None:
    assert not is_postgres_away(error)


@pytest.mark.parametrize(
    ("error", "is_data"),
    [
        (wrapped(errors.CheckViolation("x"), IntegrityError), True),
        (wrapped(errors.NumericValueOutOfRange("x"), DataError), True),
        (wrapped(errors.ProgramLimitExceeded("index row size 3000")), True),
        (wrapped(psycopg.DataError("cannot contain NUL bytes"), DataError), True),
        (wrapped(errors.InsufficientPrivilege("x"), ProgrammingError), False),
        (wrapped(errors.SyntaxError("x"), ProgrammingError), False),
        (wrapped(errors.InFailedSqlTransaction("x"), InternalError), False),
        (wrapped(errors.QueryCanceled("x")), False),
        (wrapped(errors.UndefinedTable("x"), ProgrammingError), False),
    ],
)
def test_only_classes_of_data_are_the_rows_fault(error: DBAPIError, is_data: bool) -> None:
    assert is_data_rejected(error) is is_data
    assert is_postgres_refusing(error) is not is_data


def test_a_server_that_is_away_refuses_nothing() -> None:
    assert not is_postgres_refusing(wrapped(errors.AdminShutdown("x")))
    assert not is_postgres_refusing(wrapped(psycopg.OperationalError("x")))
    assert not is_postgres_refusing(ValueError("x"))


def test_a_missing_table_or_column_is_a_missing_schema() -> None:
    assert is_schema_missing(wrapped(errors.UndefinedTable("x"), ProgrammingError))
    assert is_schema_missing(wrapped(errors.UndefinedColumn("x"), ProgrammingError))
    assert not is_schema_missing(wrapped(errors.SyntaxError("x"), ProgrammingError))


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        redis.exceptions.ConnectionError("Connection refused"),
        redis.exceptions.TimeoutError("Timeout reading from socket"),
        redis.exceptions.BusyLoadingError("LOADING"),
        redis.exceptions.ReadOnlyError("READONLY"),
        redis.exceptions.OutOfMemoryError("OOM"),
        KombuOperationalError("[Errno 111] Connection refused"),
        ConnectionRefusedError(111, "Connection refused"),
        caused(RuntimeError("tick"), redis.exceptions.ConnectionError("x")),
    ],
)
def test_the_broker_is_away(error: Exception) -> None:
    assert is_broker_away(error) and not is_postgres_away(error)


@pytest.mark.parametrize(
    "error", [redis.exceptions.ResponseError("WRONGTYPE"), FileNotFoundError(2, "x"), None]
)
def test_the_broker_answered(error: Exception | None) -> None:
    assert not is_broker_away(error)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_line_when_it_goes_and_one_when_it_is_back() -> None:
    clock = Clock()
    outage = Outage("PostgreSQL", SECRET_URL, clock)
    with capture_logs() as logs:
        outage.record_answer()
        for _ in range(50):
            outage.record_failure(
                psycopg.OperationalError("no password s3cret accepted\nsecond line")
            )
            clock.now += 1
        assert outage.away_s == 50
        outage.record_answer()
        outage.record_answer()
    assert [line["event"] for line in logs] == ["PostgreSQL is away", "PostgreSQL is back"]
    assert logs[0]["address"] == "postgresql+psycopg://ann:***@db.example/shop"
    assert logs[0]["error"] == "no password *** accepted"
    assert logs[1]["away_s"] == 50 and outage.away_s == 0


def test_a_full_disk_is_called_that() -> None:
    with capture_logs() as logs:
        Outage("PostgreSQL", SECRET_URL).record_failure(
            psycopg.errors.DiskFull("could not extend file")
        )
    assert logs[0]["event"] == "PostgreSQL has a full disk"
    assert psycopg.errors.DiskFull.sqlstate == "53100"


def test_a_call_from_before_the_outage_does_not_end_it() -> None:
    clock = Clock()
    outage = Outage("Redis", "redis://x", clock)
    outage.record_failure(ConnectionError())
    outage.record_answer(began=99.0)
    assert outage.away_s > 0
    outage.record_answer(began=101.0)
    assert outage.away_s == 0


def test_a_server_that_comes_and_goes_is_not_announced_each_time() -> None:
    clock = Clock()
    outage = Outage("Redis", "redis://x", clock)
    with capture_logs() as logs:
        for _ in range(100):
            outage.record_failure(ConnectionError())
            clock.now += 0.1
            outage.record_answer()
            clock.now += 0.1
    assert len(logs) <= 2 * (1 + 20 / QUIET_S)


def test_work_that_is_noted() -> None:
    outage = Outage("Redis", "redis://x", Clock())
    with pytest.raises(ValueError, match="x"), outage.watching(is_broker_away):
        raise ValueError("x")
    assert outage.away_s == 0
    with pytest.raises(ConnectionError), outage.watching(is_broker_away):
        raise ConnectionError
    assert outage.away_s > 0
    with outage.watching(is_broker_away):
        pass
    assert outage.away_s == 0
