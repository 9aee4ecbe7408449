"""`scraper up` and `scraper down`: starts and stops the embedded servers."""

from __future__ import annotations

import sys

import click

from scraper.cli.common.shared import json_option, load_settings, print_json, require_project
from scraper.errors import BusyError
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.infra.services import FlowerLogin, ServersOwner
from scraper.plugins.embedded import servers as embedded
from scraper.process import servers
from scraper.registry import find_service


@click.command()
@json_option()
def up(as_json: bool) -> None:
    """Start the embedded servers, and apply migrations.

    With DATABASE_URL and REDIS_URL set, starts nothing: checks that they answer, and migrates. On a
    terminal, shows Flower's password if it was generated here.
    """
    settings = load_settings()
    require_project(settings)
    states = embedded.up(settings)
    if not as_json:
        for state in states:
            click.echo(f"{state.name}: running, {state.address} ({state.program})")
    servers.require_reachable(settings)
    revision = migrations.upgrade(make_engine(settings.postgres_url))
    service = find_service(FlowerLogin)  # type: ignore[type-abstract]
    login = service.read_login(settings) if service is not None else None
    if as_json:
        flower = {"user": login.user, "password_in": login.where} if login else None
        print_json({"servers": states, "revision": revision, "flower": flower})
        return
    click.echo(f"database: at revision {revision}")
    if login is None:
        return
    if login.generated and sys.stdout.isatty():
        password = f"password {login.password}"
    else:
        password = f"password in {login.where}"
    click.echo(f"flower: log in as {login.user}, {password}")


@click.command()
@json_option()
def down(as_json: bool) -> None:
    """Stop the embedded servers. Their data stays.

    It is refused while `scraper start` runs.
    """
    settings = load_settings()
    owner = find_service(ServersOwner)  # type: ignore[type-abstract]
    pid = owner.find_process(settings) if owner is not None and settings.embedded else None
    if pid is not None:
        raise BusyError(
            f"`scraper start` runs here, as process {pid}, and would start the servers again (fix: "
            f"end it with Ctrl-C or `kill {pid}`; it stops the servers that it started)"
        )
    states = embedded.down(settings)
    if as_json:
        print_json({"servers": states})
        return
    for state in states:
        click.echo(f"{state.name}: {'still running' if state.running else 'stopped'}")
