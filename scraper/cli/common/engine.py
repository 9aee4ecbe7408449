"""The database of a command, with a clear error if it does not answer. Commands that read files or
pages alone do not import this module."""

from __future__ import annotations

import sqlalchemy as sa

from scraper.cli.common.shared import load_settings, require_project
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.process import servers


def open_engine() -> sa.Engine:
    """Returns the engine, after checking that PostgreSQL answers and is migrated."""
    settings = load_settings()
    require_project(settings)
    servers.require_postgres(settings)
    engine = make_engine(settings.postgres_url)
    migrations.require_current(engine)
    return engine
