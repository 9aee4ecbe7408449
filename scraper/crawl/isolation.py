"""Calls plug-ins so that one that fails is named, and costs only what it would have added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

log = structlog.get_logger()


@contextmanager
def isolated(
    plugin: str, method: str, passing: Callable[[Exception], bool] = lambda _: False
) -> Iterator[None]:
    """Logs an error of a plug-in's method instead of raising it. Errors pass through for which
    `passing` is true: those of a server, after which the caller tries again."""
    try:
        yield
    except Exception as error:
        if passing(error):
            raise
        log.exception("plug-in failed", plugin=plugin, method=method)


@contextmanager
def restarted_at_error(connection: sa.Connection) -> Iterator[None]:
    """Ends a transaction that an error of PostgreSQL has spoiled, so that the next statement begins
    another one. A savepoint for each plug-in would cost 1 ms."""
    try:
        yield
    except SQLAlchemyError:
        connection.rollback()
        raise
