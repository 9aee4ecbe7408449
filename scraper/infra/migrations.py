"""Runs Alembic: migrates a database to the newest revisions, or checks that it is there.

The core has one history of revisions, and each plug-in with tables one of its own, with its own
version table. A plug-in that is off is not migrated; its tables stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from scraper.errors import ConfigError, ServerUnavailableError
from scraper.infra import shipped
from scraper.registry import active_plugins, found_plugins

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = shipped.path("alembic")
VERSION_TABLE = "alembic_version"


@dataclass(frozen=True, slots=True)
class History:
    """A line of revisions: the folder of their files, and the table that holds the database's."""

    name: str
    folder: Path
    table: str

    def head(self) -> str:
        """Returns the newest revision, by the files' numbers. Alembic is imported only for
        migrations: that takes half a second."""
        return max(path.stem.partition("_")[0] for path in self.folder.glob("[0-9]*.py"))


CORE = History("scraper", FOLDER / "versions", VERSION_TABLE)


def histories() -> list[History]:
    """Returns the core's history, then those of the plug-ins that are on, by name."""
    return [
        CORE,
        *(
            History(plugin.name, _folder_of(plugin.migrations), _version_table(plugin.name))
            for plugin in active_plugins()
            if plugin.migrations is not None
        ),
    ]


def _version_table(plugin: str) -> str:
    return f"{VERSION_TABLE}_{plugin}"


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"cannot find the package {package}")
    return Path(spec.submodule_search_locations[0])


def head() -> str:
    """Returns the core's newest revision."""
    return CORE.head()


def config(history: History = CORE) -> Config:
    """Returns Alembic's settings, independent of the working directory."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _escaped(FOLDER))
    config.set_main_option("version_locations", _escaped(history.folder))
    config.set_main_option("path_separator", "newline")
    config.attributes["version_table"] = history.table
    return config


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")


def upgrade(engine: sa.Engine) -> str:
    """Applies missing migrations, one process at a time. Returns the core's revision."""
    from alembic import command

    with engine.begin() as connection:
        for history in histories():
            settings = config(history)
            settings.attributes["connection"] = connection
            command.upgrade(settings, "head")
    return head()


def downgrade(engine: sa.Engine, revision: str, plugin: str | None = None) -> None:
    """Reverts the core's history, or a plug-in's, to a revision; `base` removes the tables. Raises
    `ConfigError` if the history has no such revision, or the plug-in no history."""
    from alembic import command, util

    history = _find_history(plugin)
    settings = config(history)
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        try:
            command.downgrade(settings, revision)
        except util.CommandError as error:
            raise ConfigError(f"{history.name}: {error}") from error


def _find_history(plugin: str | None) -> History:
    if plugin is None:
        return CORE
    own = {history.name: history for history in histories()[1:]}
    if plugin not in own:
        names = ", ".join(own) or "switch it on"
        raise ConfigError(
            f"no plug-in that is on has migrations and is named {plugin!r} (fix: {names})"
        )
    return own[plugin]


def unmigrated_plugins(connection: sa.Connection) -> set[str]:
    """Returns the installed plug-ins with migrations that the database does not have, since they
    were never on."""
    return {
        row.name
        for row in found_plugins()
        if row.plugin is not None
        and row.plugin.migrations is not None
        and _read_revision(connection, _version_table(row.name)) is None
    }


def require_current(engine: sa.Engine) -> None:
    """Raises `ServerUnavailableError` if the database's revisions are not this program's."""
    with engine.connect() as connection:
        for history in histories():
            _require_head(history, _read_revision(connection, history.table))


def _read_revision(connection: sa.Connection, table: str) -> str | None:
    exists = sa.text("SELECT to_regclass(:table) IS NOT NULL")
    if not connection.execute(exists, {"table": table}).scalar():
        return None
    query = sa.text(f'SELECT version_num FROM "{table}"')
    return connection.execute(query).scalar()


def _require_head(history: History, revision: str | None) -> None:
    needed = history.head()
    scope = "" if history is CORE else f" of the plug-in {history.name}"
    if revision is not None and revision > needed:
        raise ServerUnavailableError(
            f"the database is at revision {revision}{scope}, newer than this program, which has "
            f"{needed}\nuse the version of celery-scraper that migrated it, or a later one"
        )
    if revision != needed:
        raise ServerUnavailableError(
            f"the database is at revision {revision or 'nothing'}{scope}, this program needs "
            f"{needed}\ntype `scraper migrate` (or `scraper up`, which migrates as well)"
        )
