"""Alembic from within: bring a database to the newest revision, or say that it is not there."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from alembic import command
from scraper.errors import ServerUnavailableError

FOLDER = Path(__file__).parent.parent / "alembic"


def config() -> Config:
    made = Config()
    made.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return made


def head() -> str | None:
    return ScriptDirectory.from_config(config()).get_current_head()


def upgrade(engine: sa.Engine) -> str | None:
    """Applies what is missing, one process at a time. Returns the revision."""
    settings = config()
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")
    return head()


def require_current(engine: sa.Engine) -> None:
    """Raises `ServerUnavailableError` where the database's tables are not this program's."""
    with engine.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    wanted = head()
    if found != wanted:
        raise ServerUnavailableError(
            f"the database is at revision {found or 'nothing'}, this program needs {wanted}\n"
            "type `scraper migrate` (or `scraper up`, which migrates as well)"
        )
