"""`scraper migrate` in a thread, and a transaction that is in its way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from scraper.infra import migrations
from tests.support.waiting import until


class Migrating:
    """`scraper migrate` in a thread."""

    def __init__(self, engine: sa.Engine) -> None:
        self.lines: list[str] = []
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(engine,))
        self._thread.start()

    def _run(self, engine: sa.Engine) -> None:
        try:
            self._migrate(engine)
        except Exception as error:
            self.error = error

    def _migrate(self, engine: sa.Engine) -> None:
        migrations.upgrade(engine, self.lines.append)

    def until_said(self, text: str) -> None:
        until(lambda: any(text in line for line in self.lines) or not self._thread.is_alive())
        assert any(text in line for line in self.lines), (self.lines, self.error)

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


class Waiting(Migrating):
    """A second one, which only waits: Alembic keeps one migration a process."""

    def _migrate(self, engine: sa.Engine) -> None:
        with migrations.hold_lock(engine, self.lines.append):
            pass


@contextmanager
def writing(engine: sa.Engine) -> Iterator[None]:
    """A transaction that has written to `pages`, and does not end."""
    with engine.connect() as connection:
        connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        connection.execute(sa.text("SET LOCAL application_name = 'a report'"))
        connection.execute(sa.text("UPDATE pages SET priority = priority WHERE false"))
        yield
