"""The `scraper` command. Each command is thin: read the arguments, call one module, print. Heavy
imports are inside.

Exit codes: 0 done; 1 something went wrong that can be mended; 2 wrong usage, definition or setting;
3 a server does not answer; 4 a crawl that was waited for did not complete, or calls failed; 5 its
data is suspect; 6 the feed of changes does not hold what comes after a cursor; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import click

from scraper.cli.common.shared import load_settings

if TYPE_CHECKING:
    pass
from scraper.cli.common.shared import Command, require_project
from scraper.cli.crawl.crawls import (
    crawl,
    status,
    stop,
    watch,
)
from scraper.cli.crawl.dead import dead
from scraper.cli.crawl.quality import alerts, report
from scraper.cli.data.archive import archive, reextract
from scraper.cli.data.changes import changes, consumers
from scraper.cli.data.products import export, history, products
from scraper.cli.fleet.dedup import dedup
from scraper.cli.fleet.hosts import host
from scraper.cli.fleet.login import login
from scraper.cli.fleet.metrics import metrics
from scraper.cli.fleet.proxies import proxies
from scraper.cli.fleet.run import run
from scraper.cli.setup.init import init, settings
from scraper.cli.setup.sites import sites


@click.group(
    cls=Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="celery-scraper")
def main() -> None:
    """Crawls shop catalogues: polite, leased, exactly once into PostgreSQL.

    \b
    First steps:  scraper up                     start the servers (or set DATABASE_URL and REDIS_URL)
                  scraper sites check            are the definitions in sites/ right?
                  scraper crawl NAME --wait      crawl one, with progress
                  scraper export NAME --format csv
    """
    # where definitions name Python functions, as `celery -A` does
    sys.path.append(os.getcwd())
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    """Told to end, or its terminal closed: a command takes what it has started with it."""
    sys.exit(128 + number)


@main.command()
def up() -> None:
    """Start the embedded servers in the background and apply migrations.

    With DATABASE_URL and REDIS_URL set, starts nothing: checks that they answer, and migrates. On a
    terminal it shows Flower's password, if that was made here.
    """
    from scraper.embedded import servers as embedded
    from scraper.infra import flower_login, migrations, servers
    from scraper.infra.database import make_engine

    settings = load_settings()
    require_project(settings)
    for state in embedded.up(settings):
        click.echo(f"{state.name}: running, {state.address}")
    servers.require_reachable(settings)
    revision = migrations.upgrade(make_engine(settings.postgres_url))
    click.echo(f"database: at revision {revision}")
    login = flower_login.get(settings)
    shown = (
        f"password {login.password}"
        if login.made and sys.stdout.isatty()
        else f"password in {login.where}"
    )
    click.echo(f"flower: log in as {login.user}, {shown}")


@main.command()
def down() -> None:
    """Stop the embedded servers. Their data stays."""
    from scraper.embedded import servers as embedded

    for state in embedded.down(load_settings()):
        click.echo(f"{state.name}: {'still running' if state.running else 'stopped'}")


@main.command()
def migrate() -> None:
    """Apply migrations to the database."""
    from scraper.infra import migrations, servers
    from scraper.infra.database import make_engine

    settings = load_settings()
    servers.require_postgres(settings)
    click.echo(f"database: at revision {migrations.upgrade(make_engine(settings.postgres_url))}")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open the database in psql; ARGUMENTS are psql's own, such as -c "SELECT …"."""
    from scraper.infra import servers

    settings = load_settings()
    servers.require_postgres(settings)
    servers.run_psql(settings, arguments)


@main.command()
@click.option("--keep", is_flag=True, help="Leave servers, workers and Flower running afterwards.")
@click.option(
    "--stop",
    "stop_",
    is_flag=True,
    help="Stop what an earlier --keep left running, servers included.",
)
@click.option(
    "--products", default=1000, show_default=True, help="Size of the sample shop's catalogue."
)
def demo(keep: bool, stop_: bool, products: int) -> None:
    """Crawl the bundled sample shop twice, through every real part, and show what was found."""
    from scraper.cli.setup import demo as show
    from scraper.embedded import servers as embedded

    if stop_:
        click.echo(f"{show.stop_kept(load_settings())} processes stopped")
        embedded.down(load_settings())
        return
    show.run(load_settings(), products=products, keep=keep)


for command in (
    sites, crawl, stop, status, watch, report, alerts, host, dead, dedup, proxies, login, products, history, export,
    changes, consumers, archive, reextract, metrics, run, init, settings,
):  # fmt: skip
    main.add_command(command)
