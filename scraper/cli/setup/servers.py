"""`scraper up`, `down`, `migrate` and `psql`: the servers, and the database's tables."""

from __future__ import annotations

import sys

import click

from scraper.cli.common.shared import load_settings, require_project
from scraper.embedded import servers as embedded
from scraper.infra import flower_login, migrations, servers
from scraper.infra.database import make_engine
from scraper.settings import Settings


@click.command()
def up() -> None:
    """Start the embedded servers in the background and apply migrations.

    With DATABASE_URL and REDIS_URL set, starts nothing: checks that they answer, and migrates. On a
    terminal it shows Flower's password, if that was made here.
    """
    settings = load_settings()
    require_project(settings)
    for state in embedded.up(settings):
        click.echo(f"{state.name}: running, {state.address}")
    servers.require_reachable(settings)
    _migrate(settings)
    login = flower_login.get(settings)
    if login.generated and sys.stdout.isatty():
        password = f"password {login.password}"
    else:
        password = f"password in {login.where}"
    click.echo(f"flower: log in as {login.user}, {password}")


@click.command()
def down() -> None:
    """Stop the embedded servers. Their data stays."""
    for state in embedded.down(load_settings()):
        click.echo(f"{state.name}: {'still running' if state.running else 'stopped'}")


@click.command()
def migrate() -> None:
    """Apply migrations to the database."""
    settings = load_settings()
    servers.require_postgres(settings)
    _migrate(settings)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open the database in psql; ARGUMENTS are psql's own, such as -c "SELECT …"."""
    settings = load_settings()
    servers.require_postgres(settings)
    servers.run_psql(settings, arguments)


def _migrate(settings: Settings) -> None:
    click.echo(f"database: at revision {migrations.upgrade(make_engine(settings.postgres_url))}")
