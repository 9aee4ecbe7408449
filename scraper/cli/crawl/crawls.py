"""`scraper crawl`, `stop`, `status` and `watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper.cli.common.shared import load_settings, open_engine, print_json

if TYPE_CHECKING:
    pass

NEWEST = 20


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
    from scraper.actions import crawls

    settings = load_settings()
    engine = open_engine()
    opened = crawls.open_site(engine, settings, site, refetch=refetch)
    running = " was already running" if opened.already_running else " opened"
    click.echo(f"{site}: crawl {opened.crawl_id}{running}", err=True)
    if not wait:
        click.echo(opened.crawl_id)
        return
    crawls.wait_all(engine, settings, [opened.crawl_id], local=local or settings.embedded)


@click.command()
@click.argument("crawl_id", metavar="CRAWL", type=int)
def stop(crawl_id: int) -> None:
    """Stop a crawl now: what is not fetched yet is dropped."""
    from scraper.actions import overrides

    overrides.stop(open_engine(), crawl_id)
    click.echo(f"crawl {crawl_id} stopped")


@click.command()
@click.argument("site", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="Crawls to show (20, or as many as fit on the screen).",
)
def status(site: str | None, as_json: bool, limit: int | None) -> None:
    """Show how things stand, on one screen; of SITE alone, its crawls, hosts, dead pages and
    errors.

    Running and recent crawls, queues, hosts that rest, are paused or slowed, workers, dead pages,
    the latest errors.
    """
    from scraper.cli.crawl import showing
    from scraper.views import glance

    found = glance.read(
        open_engine(), load_settings(), site=site, newest=NEWEST if limit is None else limit
    )
    if as_json:
        print_json(glance.as_json(found))
    else:
        showing.print_glance(found, whole=limit is not None)


@click.command()
@click.argument("site", required=False)
@click.option(
    "--every",
    "every_s",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.2),
    help="Seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, each time.")
def watch(site: str | None, every_s: float, as_json: bool) -> None:
    """Watch what `scraper status` shows, live; Ctrl-C ends it.

    Without a terminal: lines of what moves, every five seconds or less often.
    """
    from scraper.cli.crawl import watching

    watch = watching.Watch(open_engine(), load_settings(), site=site, every_s=every_s)
    watch.run(print_json if as_json else None)
