"""`scraper crawl` and `scraper stop`."""

from __future__ import annotations

import click

from scraper.actions import crawls, overrides
from scraper.cli.common.shared import (
    complete_site,
    json_option,
    load_settings,
    open_engine,
    print_json,
)
from scraper.cli.crawl.wait import wait_all
from scraper.views import progress


@click.command()
@click.argument("site", shell_complete=complete_site)
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
@json_option()
def crawl(site: str, wait: bool, refetch: bool, local: bool, as_json: bool) -> None:
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
        ids = [opened.crawl_id]
        wait_all(engine, settings, ids, local=local or settings.embedded, as_json=as_json)
    elif as_json:
        print_json(progress.as_json(progress.read_one(engine, opened.crawl_id)))
    else:
        click.echo(opened.crawl_id)


@click.command()
@click.argument("crawl", metavar="CRAWL|SITE", required=False, shell_complete=complete_site)
@click.option("--all", "all_", is_flag=True, help="Every crawl that runs.")
@json_option("array")
def stop(crawl: str | None, all_: bool, as_json: bool) -> None:
    """Stop a crawl now: what is not fetched yet is dropped.

    CRAWL is its id, SITE the site whose running crawl is meant.
    """
    if (crawl is None) is not all_:
        raise click.UsageError("say which: the id of a crawl, a site's name, or --all")
    stopped = overrides.stop_all(open_engine(), crawl)
    if as_json:
        print_json(stopped)
        return
    for crawl_id in stopped:
        click.echo(f"crawl {crawl_id} stopped")
    if not stopped:
        click.echo("no crawl is running", err=True)
