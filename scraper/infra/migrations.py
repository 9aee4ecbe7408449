"""Alembic from within: bring a database to the newest revision, or say that it is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from scraper.errors import ServerUnavailableError
from scraper.infra import shipped

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = shipped.path("alembic")


def head() -> str:
    """The newest revision: the files are numbered. Without Alembic, whose import costs half a
    second."""
    return max(path.stem.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))


def config() -> Config:
    """Alembic's settings, wherever one is."""
    from alembic.config import Config

    made = Config()
    made.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return made


def upgrade(engine: sa.Engine) -> str:
    """Applies what is missing, one process at a time. Returns the revision."""
    from alembic import command

    settings = config()
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")
    return head()


def require_current(engine: sa.Engine) -> None:
    """Raises `ServerUnavailableError` where the database's tables are not this program's."""
    with engine.connect() as connection:
        kept = sa.text("SELECT to_regclass('alembic_version') IS NOT NULL")
        revision = sa.text("SELECT version_num FROM alembic_version")
        found = connection.execute(revision).scalar() if connection.execute(kept).scalar() else None
    if found != head():
        raise ServerUnavailableError(
            f"the database is at revision {found or 'nothing'}, this program needs {head()}\n"
            "type `scraper migrate` (or `scraper up`, which migrates as well)"
        )
