"""`scraper metrics`: serves what the fleet's servers know, until it is told to end; or prints it
once."""

from __future__ import annotations

import signal
import threading

import click
from prometheus_client import generate_latest

from scraper.errors import ConfigError
from scraper.infra import logs
from scraper.infra.metrics_endpoint import MetricsServer
from scraper.metrics.exporter import make_registry
from scraper.settings import Settings


def serve(settings: Settings, host: str, port: int) -> None:
    """Starts even where no server answers: `scraper_up` says so. Ends with SIGTERM or Ctrl-C."""
    logs.configure(settings)
    try:
        server = MetricsServer(make_registry(settings), host, port)
    except OSError as error:
        raise ConfigError(
            f"metrics cannot be served at {host}:{port}: {error.strerror} (mend: --host, --port, SCRAPER_EXPORTER_PORT)"
        ) from None
    click.echo(f"metrics: http://{server.address}/metrics", err=True)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    server.close()


def show(settings: Settings) -> None:
    logs.configure(settings)
    click.echo(generate_latest(make_registry(settings)).decode(), nl=False)
