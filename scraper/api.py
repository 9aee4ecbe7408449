"""The public Python interface: what programs, functions of sites and plug-ins import.

    from scraper import api

    for change in api.read_changes("oldest", site="books"):
        print(change.event, change.data["price"])

Each name has its documentation where it is defined. Other modules may change in any release.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import sqlalchemy as sa

from scraper import settings
from scraper.domain import Kind, Link, Product
from scraper.errors import (
    CallError,
    CallTimeoutError,
    CursorError,
    FunctionRefusedError,
    NotFoundError,
    ScraperError,
    ServerUnavailableError,
)
from scraper.feed import reader
from scraper.feed.reader import Change, ChangeReader, Since
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.process import servers
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.sites.loader import load_file, load_folder
from scraper.sites.page import Page

# Imported when they are first asked for, since their plug-in may lack what it needs. Type checkers
# see them in those modules.
_NAMES_OF_PLUGINS = {
    "Account": "scraper.plugins.accounts.file",
    "Call": "scraper.plugins.functions.client",
    "Client": "scraper.plugins.functions.client",
    "LoginClient": "scraper.plugins.accounts.login.form",
}

Account: Any
Call: Any
Client: Any
LoginClient: Any

__all__ = [
    "Account",
    "Call",
    "CallError",
    "CallTimeoutError",
    "Change",
    "ChangeReader",
    "Client",
    "CursorError",
    "FunctionRefusedError",
    "Kind",
    "Link",
    "LoginClient",
    "NotFoundError",
    "Page",
    "Product",
    "ScraperError",
    "ServerUnavailableError",
    "Site",
    "follow_changes",
    "load_file",
    "load_folder",
    "load_settings",
    "load_sites",
    "make_engine",
    "open_database",
    "read_changes",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES_OF_PLUGINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NAMES_OF_PLUGINS[name]), name)


def load_settings() -> Settings:
    """Reads the settings as the commands do: from the environment, `scraper.toml` and defaults."""
    return settings.load()


def load_sites() -> list[Site]:
    """Reads the definitions of the folder that the settings name. Raises `ScraperError` if one has
    a problem."""
    return load_folder(settings.load().sites_dir)


def open_database() -> sa.Engine:
    """Returns an engine for the database that the settings name. Raises `ServerUnavailableError` if
    it does not answer, or is not migrated for this program."""
    own = settings.load()
    servers.require_postgres(own)
    engine = make_engine(own.postgres_url)
    try:
        migrations.require_current(engine)
    except ScraperError:
        engine.dispose()
        raise
    return engine


def read_changes(
    since: Since = "oldest", *, site: str | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[Change]:
    """Yields the changes after `since` (a cursor, a time, "oldest" or "now") up to the current end
    of the feed, of all sites or of one. Raises, and calls `say`, as `scraper.feed.reader.read`
    does."""
    engine = open_database()
    try:
        yield from reader.read(engine, since, site=site, say=say)
    finally:
        engine.dispose()


def follow_changes(
    since: Since = "now",
    *,
    site: str | None = None,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Change]:
    """Yields changes as `read_changes` does, and then waits for more until `stop` is set."""
    engine = open_database()
    try:
        yield from reader.follow(engine, since, site=site, stop=stop, say=say)
    finally:
        engine.dispose()
