"""`scraper migrate` and `psql`: the database's tables."""

from __future__ import annotations

import click

from scraper.cli.common.shared import json_option, load_settings, print_json
from scraper.infra import migrations, servers
from scraper.infra.database import make_engine


@click.command()
@json_option()
def migrate(as_json: bool) -> None:
    """Apply migrations to the database."""
    settings = load_settings()
    servers.require_postgres(settings)
    revision = migrations.upgrade(make_engine(settings.postgres_url))
    if as_json:
        print_json({"revision": revision})
    else:
        click.echo(f"database: at revision {revision}")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open the database in psql; ARGUMENTS are psql's own, such as -c "SELECT …"."""
    settings = load_settings()
    servers.require_postgres(settings)
    servers.run_psql(settings, arguments)
