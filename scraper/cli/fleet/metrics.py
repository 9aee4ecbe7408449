"""`scraper metrics`."""

from __future__ import annotations

import click

from scraper.cli.common.shared import load_settings


@click.command()
@click.option(
    "--host", metavar="ADDRESS", help="Where to listen (SCRAPER_METRICS_HOST, 127.0.0.1)."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Which port (SCRAPER_EXPORTER_PORT, 9750); 0: any free one.",
)
@click.option("--once", is_flag=True, help="Print them and end.")
def metrics(host: str | None, port: int | None, once: bool) -> None:
    """Serve the state of the whole fleet for Prometheus, from PostgreSQL, Redis and the broker.

    One is enough for an installation. Workers have metrics of their own: see SCRAPER_METRICS_PORT.
    """
    from scraper.cli.fleet import metrics_command as serving

    settings = load_settings()
    if once:
        serving.show(settings)
        return
    where = settings.metrics_host if host is None else host
    serving.serve(settings, where, settings.exporter_port if port is None else port)
