"""`scraper metrics`: serves the fleet's metrics until a signal, or prints them once."""

from __future__ import annotations

import signal

import click
from prometheus_client import generate_latest

from scraper.cli.common.shared import load_settings
from scraper.errors import ConfigError
from scraper.infra import logs
from scraper.plugins.metrics.endpoint import MetricsServer
from scraper.plugins.metrics.exporter import make_registry
from scraper.plugins.metrics.settings import MetricsSettings
from scraper.process.signals import SignalEvent


@click.command()
@click.option(
    "--host", metavar="ADDRESS", help="The address to listen on (SCRAPER_METRICS_HOST, 127.0.0.1)."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port (SCRAPER_EXPORTER_PORT, 9750); 0: any free one.",
)
@click.option("--once", is_flag=True, help="Print the metrics once and exit.")
def metrics(host: str | None, port: int | None, once: bool) -> None:
    """Serve the state of the whole fleet for Prometheus.

    One per installation is enough. Workers have their own metrics, see SCRAPER_METRICS_PORT.
    """
    settings = load_settings()
    own = settings.of(MetricsSettings)
    logs.configure(settings)
    registry = make_registry(settings)
    if once:
        click.echo(generate_latest(registry).decode(), nl=False)
        return
    host = own.metrics_host if host is None else host
    port = own.exporter_port if port is None else port
    try:
        # It starts even if no server answers: `scraper_up` says so.
        server = MetricsServer(registry, host, port)
    except OSError as error:
        raise ConfigError(
            f"cannot serve metrics at {host}:{port}: {error.strerror} "
            "(fix: --host, --port, SCRAPER_EXPORTER_PORT)"
        ) from None
    click.echo(f"metrics: http://{server.address}/metrics", err=True)
    ended = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    server.close()
