"""Flower's access to PostgreSQL: in threads, so that its event loop never blocks, and bounded in
number and time. Simultaneous requests for the same data share a read. Each answer is read in one
transaction, so that its numbers agree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog

from scraper.infra import outages
from scraper.infra.database import make_engine
from scraper.settings import Settings

log = structlog.get_logger()
T = TypeVar("T")

THREADS = 3
# An answer serves all requests within this time.
FRESH_S = 1.0
STATEMENT_S = 8
ANSWER_S = 12.0
UNDER_WAY_MAX = 20

AWAY = (
    "PostgreSQL does not answer. This page retries automatically; running crawls continue "
    "as soon as PostgreSQL answers."
)
OTHER_REVISION = (
    "The database and this program have different revisions: run `scraper migrate`, then restart "
    "Flower."
)
BUSY = "PostgreSQL takes too long to answer. This page retries automatically."


class UnavailableError(Exception):
    """PostgreSQL cannot answer now. The message is shown to the user."""


class PostgresReader:
    """Reads PostgreSQL for Flower's process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.engine = make_engine(settings.postgres_url, pool_size=THREADS)
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="crawls")
        self._answers: dict[Any, tuple[float, asyncio.Future[Any]]] = {}

    async def read(self, key: Any, ask: Callable[[sa.Connection], T]) -> T:
        """Returns what `ask` reads, or a recent answer of the same key. Raises `UnavailableError`
        if PostgreSQL is slow or does not answer; errors of `ask` pass through."""
        now = time.monotonic()
        self._answers = {
            key: (asked, answer)
            for key, (asked, answer) in self._answers.items()
            if not answer.done() or now - asked < FRESH_S
        }
        if key not in self._answers:
            answer = asyncio.ensure_future(self.read_now(ask))
            # Otherwise asyncio warns of an exception that is never retrieved.
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._answers[key] = now, answer
        result: T = await asyncio.shield(self._answers[key][1])
        return result

    async def read_now(self, ask: Callable[[sa.Connection], T]) -> T:
        """Returns what `ask` reads after the call, as `read` does without recent answers."""
        return await self.run(self._read_in_transaction, ask)

    def forget(self) -> None:
        """Drops recent answers after a change."""
        self._answers = {}

    async def run(self, work: Callable[..., T], *words: Any) -> T:
        """Runs work that uses PostgreSQL in a thread."""
        if sum(not answer.done() for _, answer in self._answers.values()) > UNDER_WAY_MAX:
            raise UnavailableError(BUSY)
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, work, *words)
            return await asyncio.wait_for(asyncio.shield(running), ANSWER_S)
        except TimeoutError:
            raise UnavailableError(BUSY) from None
        except sa.exc.DBAPIError as error:
            raise self._as_unavailable(error) from error
        except sa.exc.TimeoutError as error:
            # All connections of the pool are in use.
            raise UnavailableError(AWAY) from error

    def _read_in_transaction(self, ask: Callable[[sa.Connection], T]) -> T:
        with self.engine.connect() as raw:
            connection = raw.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            with connection.begin():
                connection.execute(sa.text(f"SET LOCAL statement_timeout = '{STATEMENT_S}s'"))
                answer = ask(connection)
        outages.postgres().record_answer()
        return answer

    @staticmethod
    def _as_unavailable(error: sa.exc.DBAPIError) -> UnavailableError:
        if outages.is_postgres_away(error):
            outages.postgres().record_failure(error)
            return UnavailableError(AWAY)
        if outages.is_schema_missing(error):
            return UnavailableError(OTHER_REVISION)
        # This is a statement's timeout.
        if getattr(error.orig, "sqlstate", None) == "57014":
            return UnavailableError(BUSY)
        raise error
