"""`scraper start`: runs everything in one command."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from pathlib import Path

import click

from scraper.cli.common.shared import load_settings, require_project
from scraper.errors import ConfigError
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.infra.services import FlowerLogin
from scraper.plugins.supervisor import unit
from scraper.plugins.supervisor.alert_files import name_alert_files
from scraper.plugins.supervisor.joint_log import JointLog
from scraper.plugins.supervisor.lock import StartLock
from scraper.plugins.supervisor.supervisor import Supervisor, flower_command, log_file
from scraper.process import servers
from scraper.registry import PROJECT_FILE, find_service
from scraper.settings import Settings

PORT = 5555
PORTS_TRIED = 20


@click.command()
@click.option(
    "-w",
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes for pages. Each uses one core.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Flower's port (5555, or the next).")
@click.option("--service", is_flag=True, help="Start nothing: write a systemd unit of your own.")
def start(workers: int, port: int | None, service: bool) -> None:
    """Run everything here until Ctrl-C: servers, workers, Flower.

    Starts the embedded servers (or uses DATABASE_URL and REDIS_URL) and applies migrations, then
    starts a coordinator with beat, workers for the queues that the definitions name, and Flower. A
    process that dies is started again. Ctrl-C ends all of them; running crawls continue at the next
    start. The log of all is also in SCRAPER_HOME/log/start.log.
    """
    settings = load_settings()
    require_project(settings)
    if service:
        _write_service(settings, workers, port)
        return
    lock = StartLock(settings)
    log = JointLog(log_file(settings))
    supervisor = Supervisor(settings, log, lock, workers)
    try:
        supervisor.servers.up(lock)
        servers.require_reachable(settings)
        engine = make_engine(settings.postgres_url)
        log.tell(f"database: at revision {migrations.upgrade(engine)}")
        engine.dispose()
        supervisor.run(_prepare_flower(settings, log, port))
    finally:
        supervisor.close()


def _prepare_flower(settings: Settings, log: JointLog, port: int | None) -> list[str] | None:
    """Returns Flower's command, and says where the dashboard is; None if its plug-in is off, since
    nothing would ask for a login."""
    service = find_service(FlowerLogin)  # type: ignore[type-abstract]
    if service is None:
        return None
    port = port or _find_port()
    login = service.read_login(settings)
    secret = f"in {login.where}"
    if login.generated and sys.stdout.isatty():
        # The log's file must not have it.
        click.echo(f"password of {login.user}: {login.password}")
    os.environ.update(name_alert_files(settings, f"http://127.0.0.1:{port}"))
    log.tell(f"dashboard: http://127.0.0.1:{port}/crawls (user {login.user}, password {secret})")
    return flower_command(port)


def _find_port() -> int:
    """Returns the first port from Flower's on that no other program has."""
    for port in range(PORT, PORT + PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ConfigError(f"the ports {PORT} to {PORT + PORTS_TRIED - 1} are taken (fix: --port)")


def _write_service(settings: Settings, workers: int, port: int | None) -> None:
    options = [] if workers == 1 else ["--workers", str(workers)]
    options += [] if port is None else ["--port", str(port)]
    path = unit.write_unit(Path.cwd(), options, settings)
    click.echo(f"{path} written")
    own = sorted({row for row in Settings.sources().values() if row != PROJECT_FILE})
    if own:
        click.echo(f"a service does not have your {', '.join(own)}: write them to {PROJECT_FILE}")
    name = shlex.quote(path.name)
    click.echo(
        f"next: systemctl --user daemon-reload && systemctl --user enable --now {name}\n"
        "and, so that it runs while you are logged out: loginctl enable-linger"
    )
