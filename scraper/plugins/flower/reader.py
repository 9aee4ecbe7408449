"""Flower's way to PostgreSQL: in threads, so that its event loop never waits; bounded in number and
time; and asked once where many ask for the same at the same moment. One transaction an answer, so
that its numbers agree."""

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
# An answer serves everybody who asks within this time.
FRESH_S = 1.0
STATEMENT_S = 8
ANSWER_S = 12.0
UNDER_WAY_MAX = 20

AWAY = (
    "PostgreSQL does not answer. This page tries again by itself; crawls that run go on by "
    "themselves once it is back."
)
OTHER_REVISION = (
    "The database is at another revision than this program: `scraper migrate`, then start Flower "
    "again."
)
BUSY = "PostgreSQL takes too long to answer. This page tries again by itself."


class UnavailableError(Exception):
    """There is no answer now. The message is for people."""


class Reader:
    """One a process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.engine = make_engine(settings.postgres_url, pool_size=THREADS)
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="crawls")
        self._answers: dict[Any, tuple[float, asyncio.Future[Any]]] = {}

    async def read(self, key: Any, ask: Callable[[sa.Connection], T]) -> T:
        """What `ask` reads. Raises `UnavailableError` where PostgreSQL is away or slow; errors of
        `ask` pass through."""
        now = time.monotonic()
        self._answers = {
            key: (asked, answer)
            for key, (asked, answer) in self._answers.items()
            if not answer.done() or now - asked < FRESH_S
        }
        if key not in self._answers:
            answer = asyncio.ensure_future(self.run(self._ask, ask))
            # An exception that nobody has read makes asyncio complain.
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._answers[key] = now, answer
        result: T = await asyncio.shield(self._answers[key][1])
        return result

    def forget(self) -> None:
        """Something was changed: nobody is shown what was before."""
        self._answers = {}

    async def run(self, work: Callable[..., T], *words: Any) -> T:
        """Runs work that speaks to PostgreSQL in a thread."""
        if sum(not answer.done() for _, answer in self._answers.values()) > UNDER_WAY_MAX:
            raise UnavailableError(BUSY)
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, work, *words)
            return await asyncio.wait_for(asyncio.shield(running), ANSWER_S)
        except TimeoutError:
            raise UnavailableError(BUSY) from None
        except sa.exc.DBAPIError as error:
            raise self._unavailable(error) from error
        except sa.exc.TimeoutError as error:  # of the pool
            raise UnavailableError(AWAY) from error

    def _ask(self, ask: Callable[[sa.Connection], T]) -> T:
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
    def _unavailable(error: sa.exc.DBAPIError) -> UnavailableError:
        if outages.is_postgres_away(error):
            outages.postgres().record_failure(error)
            return UnavailableError(AWAY)
        if outages.is_schema_missing(error):
            return UnavailableError(OTHER_REVISION)
        # The statement took longer than it may.
        if getattr(error.orig, "sqlstate", None) == "57014":
            return UnavailableError(BUSY)
        raise error
