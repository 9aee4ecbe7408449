"""Runs migrations against the database that the settings mean, one at a time across the fleet.

`scraper up` and `scraper migrate` call this through Alembic's API with an open connection; `alembic
upgrade head` opens its own, and `--sql` prints what would run.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from alembic import context
from scraper import models, settings
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.process import servers
from scraper.registry import model_modules

attributes = context.config.attributes
TABLE = attributes.get("version_table", migrations.VERSION_TABLE)


def is_compared(name: str | None, kind: str, _: object) -> bool:
    """Whether `alembic check` compares a table with the models."""
    return kind != "table" or not (name or "").startswith(migrations.VERSION_TABLE)


def end_step(ctx: Any, step: Any, heads: set[str], **_: Any) -> None:
    """Records, in the migration's transaction, the oldest revision whose processes run on the
    database as it is now."""
    comments = [
        migrations.describe_compatible(revision, migrations.compatible_from(script.module))
        for revision in heads
        if (script := context.script.get_revision(revision)) is not None
    ]
    ctx.execute(f"COMMENT ON TABLE {TABLE} IS '{''.join(comments)}'")
    if "report" in attributes:
        verb = "applied" if step.is_upgrade else "reverted"
        attributes["report"](f"{verb} {step.up_revision_id}: {step.up_revision.doc}")


def migrate(**target: Any) -> None:
    for module in model_modules():
        import_module(module)
    context.configure(
        target_metadata=models.Base.metadata,
        compare_type=True,
        version_table=TABLE,
        include_name=is_compared,
        transaction_per_migration=True,
        on_version_apply=end_step,
        **target,
    )
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    migrate(dialect_name="postgresql", output_buffer=attributes.get("statements"))
elif "connection" in attributes:
    migrate(connection=attributes["connection"])
else:
    servers.require_postgres(settings.load())
    engine = make_engine(settings.load().postgres_url)
    with migrations.hold_lock(engine), engine.connect() as own:
        migrate(connection=own)
