"""Access to PostgreSQL: engines, JSON in and out, and transactions that are worth a second try."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import orjson
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from scraper.domain import as_json

T = TypeVar("T")
R = TypeVar("R", bound=NamedTuple)

# Deadlock, serialization failure, lock not available.
RETRIED_STATES = {"40P01", "40001", "55P03"}
TRIES = 5


def make_engine(url: str, *, pool_size: int = 4) -> sa.Engine:
    """Returns an engine whose sessions use UTC, and give up on a lock or a dead peer.

    A process that freezes within a transaction loses it after ten seconds, so that others get its
    locked rows. Sessions find pages by index: PostgreSQL's default `random_page_cost`, made for
    spinning disks, prefers to scan a table of ten thousand rows for a hundred of them.
    """
    options = "-c timezone=UTC -c lock_timeout=30s -c idle_in_transaction_session_timeout=10s"
    options += " -c jit=off -c random_page_cost=1.1"
    dead_peer = {
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    return sa.create_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": 5,
            "options": options,
            "application_name": "scraper",
            **dead_peer,
        },
        json_serializer=lambda value: dumps(value),
        json_deserializer=orjson.loads,
    )


def dumps(value: object) -> str:
    """Returns JSON text for PostgreSQL, of dataclasses too. Decimals become exact numbers with all
    their digits."""
    return as_json(value).decode()


def rows_as(row_type: type[R], result: sa.CursorResult[Any]) -> list[R]:
    """Returns a statement's rows as NamedTuples, whose fields must have its columns' names and
    order. (Naming a column of SQLAlchemy's rows takes 0.7 us.)"""
    if tuple(result.keys()) != row_type._fields:
        raise TypeError(f"{row_type.__name__} is not a row of {', '.join(result.keys())}")
    return [row_type._make(row) for row in result]


def retry_transaction(work: Callable[[], T]) -> T:
    """Runs a whole transaction, and again if it lost a deadlock or a lock. Any other error passes
    through."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return work()
        except DBAPIError as error:
            if left == 0 or getattr(error.orig, "sqlstate", None) not in RETRIED_STATES:
                raise
            time.sleep(random.uniform(0.01, 0.1))
    raise AssertionError("unreachable")
