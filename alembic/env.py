"""Runs migrations against the database that the settings mean, one at a time across the fleet.

`scraper up` and `scraper migrate` call this through Alembic's API with an open connection; `alembic
upgrade head` opens its own.
"""

from __future__ import annotations

from importlib import import_module

from sqlalchemy import Connection, create_engine, text

from alembic import context
from scraper import models, settings
from scraper.infra import servers
from scraper.infra.migrations import VERSION_TABLE
from scraper.registry import model_modules

# any number will do, as long as nobody else takes it
MIGRATION_LOCK = 7_203_001


def is_compared(name: str | None, kind: str, _: object) -> bool:
    """Whether `alembic check` compares a table with the models."""
    return kind != "table" or not (name or "").startswith(VERSION_TABLE)


def migrate(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    for module in model_modules():
        import_module(module)
    context.configure(
        connection=connection,
        target_metadata=models.Base.metadata,
        compare_type=True,
        version_table=context.config.attributes.get("version_table", VERSION_TABLE),
        include_name=is_compared,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    servers.require_postgres(settings.load())
    with create_engine(settings.load().postgres_url).begin() as own:
        migrate(own)
