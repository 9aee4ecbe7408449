"""`scraper crawl` and `scraper stop`."""

from __future__ import annotations

import click

from scraper.actions import crawls, overrides
from scraper.cli.common.shared import load_settings, open_engine
from scraper.cli.crawl.wait import wait_all


@click.command()
@click.argument("site")
@click.option(
    "--wait",
    is_flag=True,
    help="Show progress until it ends; exit 4 unless it completes, 5 if it is suspect.",
)
@click.option("--refetch", is_flag=True, help="Fetch every page, however recently it was fetched.")
@click.option(
    "--local",
    is_flag=True,
    help="With --wait: start workers here where none is running (embedded: default).",
)
def crawl(site: str, wait: bool, refetch: bool, local: bool) -> None:
    """Crawl SITE now.

    With --wait and the embedded servers, a coordinator and a worker are started for the crawl where
    none is running.
    """
    settings = load_settings()
    engine = open_engine()
    opened = crawls.open_site(engine, settings, site, refetch=refetch)
    event = "was already running" if opened.already_running else "opened"
    click.echo(f"{site}: crawl {opened.crawl_id} {event}", err=True)
    if wait:
        wait_all(engine, settings, [opened.crawl_id], local=local or settings.embedded)
    else:
        click.echo(opened.crawl_id)


@click.command()
@click.argument("crawl_id", metavar="CRAWL", type=int)
def stop(crawl_id: int) -> None:
    """Stop a crawl now: what is not fetched yet is dropped."""
    overrides.stop(open_engine(), crawl_id)
    click.echo(f"crawl {crawl_id} stopped")
