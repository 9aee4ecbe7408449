"""`scraper crawl` and `scraper stop`."""

from __future__ import annotations

from typing import Protocol

import click
import sqlalchemy as sa

from scraper.actions import crawls, overrides
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, json_option, load_settings, print_json
from scraper.cli.crawl.wait import wait_all
from scraper.cli.data.export import form_of, write_export
from scraper.errors import SuspectError
from scraper.registry import require_service
from scraper.views import crawl_progress as progress


class SitePreview(Protocol):
    """A service of a plug-in: reads some products without servers, and prints or writes them."""

    def __call__(
        self, name: str, wanted: int, form: str, output: str | None, *, as_json: bool
    ) -> None: ...


@click.command()
@click.argument("site", shell_complete=complete_site)
@click.option(
    "--wait",
    is_flag=True,
    help="Show progress until it ends; exit 4 unless it completes, 5 if it is suspect.",
)
@click.option("--refetch", is_flag=True, help="Fetch every page, whatever its age.")
@click.option(
    "--local",
    is_flag=True,
    help="With --wait: start workers here if none is running (default with embedded servers).",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE|s3://…",
    help="Write the site's products to a .csv, .jsonl, .parquet or .xlsx file; implies --wait.",
)
@click.option(
    "--preview",
    "wanted",
    metavar="[N]",
    is_flag=False,
    flag_value=10,
    type=click.IntRange(1, 10_000),
    help="Read only N products (10), without servers: print them, or write them with -o.",
)
@json_option()
def crawl(
    site: str,
    wait: bool,
    refetch: bool,
    local: bool,
    output: str | None,
    wanted: int | None,
    as_json: bool,
) -> None:
    """Crawl SITE now.

    With --wait and the embedded servers, starts a worker for the crawl if none is running.
    """
    form = form_of(output)
    if wanted is not None:
        if wait or refetch or local:
            raise click.UsageError("--preview waits by itself, and knows of no former crawl")
        preview = require_service(SitePreview, "--preview")  # type: ignore[type-abstract]
        preview(site, wanted, form, output, as_json=as_json)
        return
    settings = load_settings()
    engine = open_engine()
    opened = crawls.open_site(engine, settings, site, refetch=refetch)
    event = "was already running" if opened.already_running else "opened"
    click.echo(f"{site}: crawl {opened.crawl_id} {event}", err=True)
    if wait or output is not None:
        ids = [opened.crawl_id]
        try:
            wait_all(engine, settings, ids, local=local or settings.embedded, as_json=as_json)
        except SuspectError:
            # Untrusted values are held back, so the products are safe to write.
            _write_products(engine, site, form, output)
            raise
        _write_products(engine, site, form, output)
    elif as_json:
        print_json(progress.as_json(progress.read_one(engine, opened.crawl_id)))
    else:
        click.echo(opened.crawl_id)


def _write_products(engine: sa.Engine, site: str, form: str, output: str | None) -> None:
    if output is not None:
        exported = write_export(engine, site, form, output, delisted=False)
        click.echo(f"{exported.products:,} products written to {output}", err=True)


@click.command()
@click.argument("crawl", metavar="CRAWL|SITE", required=False, shell_complete=complete_site)
@click.option("--all", "all_", is_flag=True, help="Every running crawl.")
@json_option("array")
def stop(crawl: str | None, all_: bool, as_json: bool) -> None:
    """Stop a crawl now, and drop its open pages.

    CRAWL is its id; SITE means the site's running crawl.
    """
    if (crawl is None) is not all_:
        raise click.UsageError("say which: the id of a crawl, a site's name, or --all")
    stopped = overrides.stop_crawls(open_engine(), crawl)
    if as_json:
        print_json(stopped)
        return
    for crawl_id in stopped:
        click.echo(f"crawl {crawl_id} stopped")
    if not stopped:
        click.echo("no crawl is running", err=True)
