"""`scraper migrate` and `psql`: the database's tables."""

from __future__ import annotations

import click

from scraper.cli.common.shared import json_option, load_settings, print_json
from scraper.infra import migrations, servers
from scraper.infra.database import make_engine


@click.command()
@click.option(
    "--down", metavar="REVISION", help="Revert to this revision instead; base: remove the tables."
)
@click.option("--plugin", metavar="NAME", help="With --down: the plug-in whose tables are meant.")
@json_option()
def migrate(down: str | None, plugin: str | None, as_json: bool) -> None:
    """Apply the migrations of the core and of all plug-ins."""
    if plugin is not None and down is None:
        raise click.UsageError("--plugin needs --down REVISION")
    settings = load_settings()
    servers.require_postgres(settings)
    engine = make_engine(settings.postgres_url)
    if down is not None:
        migrations.downgrade(engine, down, plugin)
    revision = migrations.upgrade(engine) if down is None else down
    if as_json:
        print_json({"revision": revision})
    else:
        click.echo(f"database: at revision {revision}")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open the database in psql, with psql's own ARGUMENTS."""
    settings = load_settings()
    servers.require_postgres(settings)
    servers.run_psql(settings, arguments)
