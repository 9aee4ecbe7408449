"""Runs Alembic: migrates a database to the newest revision, or checks that it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from scraper.errors import ServerUnavailableError
from scraper.infra import shipped

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = shipped.path("alembic")


def head() -> str:
    """Returns the newest revision, by the files' numbers. Alembic is imported only for migrations:
    that takes half a second."""
    return max(path.stem.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))


def config() -> Config:
    """Returns Alembic's settings, independent of the working directory."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config


def upgrade(engine: sa.Engine) -> str:
    """Applies missing migrations, one process at a time. Returns the revision."""
    from alembic import command

    settings = config()
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")
    return head()


def require_current(engine: sa.Engine) -> None:
    """Raises `ServerUnavailableError` if the database's revision is not this program's."""
    with engine.connect() as connection:
        exists = sa.text("SELECT to_regclass('alembic_version') IS NOT NULL")
        revision = None
        if connection.execute(exists).scalar():
            query = sa.text("SELECT version_num FROM alembic_version")
            revision = connection.execute(query).scalar()
    if revision is not None and revision > head():
        raise ServerUnavailableError(
            f"the database is at revision {revision}, newer than this program, which has {head()}\n"
            "use the version of celery-scraper that migrated it, or a later one"
        )
    if revision != head():
        raise ServerUnavailableError(
            f"the database is at revision {revision or 'nothing'}, this program needs {head()}\n"
            "type `scraper migrate` (or `scraper up`, which migrates as well)"
        )
