"""`scraper crawl`, `stop` and `status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper.cli.shared import load_settings, open_engine, print_json

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("site")
@click.option("--wait", is_flag=True, help="Show progress until it ends; exit 4 unless it completes.")
@click.option("--refetch", is_flag=True, help="Fetch every page, however recently it was fetched.")
@click.option(
    "--local", is_flag=True, help="With --wait: start workers here where none is running (embedded: default)."
)
def crawl(site: str, wait: bool, refetch: bool, local: bool) -> None:
    """Crawl SITE now.

    With --wait and the embedded servers, a coordinator and a worker are started for the crawl where none is running.
    """
    from scraper.commands import crawling

    settings = load_settings()
    engine = open_engine()
    opened = crawling.open_site(engine, settings, site, refetch=refetch)
    running = " was already running" if opened.already_running else " opened"
    click.echo(f"{site}: crawl {opened.crawl_id}{running}", err=True)
    if not wait:
        click.echo(opened.crawl_id)
        return
    crawling.wait_all(engine, settings, [opened.crawl_id], local=local or settings.embedded)


@click.command()
@click.argument("crawl_id", metavar="CRAWL", type=int)
def stop(crawl_id: int) -> None:
    """Stop a crawl now: what is not fetched yet is dropped."""
    from scraper.commands import steering

    steering.stop(open_engine(), crawl_id)
    click.echo(f"crawl {crawl_id} stopped")


@click.command()
@click.argument("site", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.option("--limit", default=20, show_default=True, help="Crawls to show.")
def status(site: str | None, as_json: bool, limit: int) -> None:
    """Show running and recent crawls, of SITE or of all."""
    from scraper import progress
    from scraper.commands import tables
    from scraper.stores import crawls
    from scraper.stores import sites as store

    with open_engine().connect() as connection:
        found = crawls.progress(connection, site=site, newest=limit)
        paused = store.paused(connection)
    if as_json:
        print_json([progress.as_json(one) for one in found])
        return
    tables.print_crawls(found)
    if paused:
        click.echo(f"paused: {', '.join(paused)}", err=True)
