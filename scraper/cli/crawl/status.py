"""`scraper status`: prints the fleet's status once: a screen on a terminal, tab-separated parts
elsewhere."""

from __future__ import annotations

import sys

import click
from rich.console import Console

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, json_option, load_settings, print_json
from scraper.cli.common.tables import print_table
from scraper.cli.crawl.screen import make_parts, make_screen
from scraper.views import dashboard as views
from scraper.views.dashboard import FleetStatus
from scraper.views.named_sites import require_site

NEWEST = 20
# Lines left free for the shell's prompt, so that the first line stays visible.
PROMPT_LINES = 2


@click.command()
@click.argument("site", required=False, shell_complete=complete_site)
@json_option()
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="Ended crawls to show (20, or as many as fit on the screen).",
)
def status(site: str | None, as_json: bool, limit: int | None) -> None:
    """Show the state of everything, or of SITE, on one screen.

    Starts with what is worst: each site's newest crawl (with SITE, --limit or --json all recent
    ones), queues, hosts that rest, are paused or slowed, workers, dead pages, the latest errors.
    """
    newest = NEWEST if limit is None else limit
    engine = open_engine()
    with engine.connect() as connection:
        require_site(connection, site)
    by_site = limit is None and not as_json
    fleet = views.read(engine, load_settings(), site=site, newest=newest, every_site=by_site)
    if as_json:
        print_json(views.as_json(fleet))
    elif sys.stdout.isatty():
        console = Console()
        height = console.size.height - PROMPT_LINES if limit is None else None
        console.print(make_screen(fleet, width=console.size.width, height=height))
    else:
        _print_parts(fleet)


def _print_parts(fleet: FleetStatus) -> None:
    for number, part in enumerate(make_parts(fleet)):
        if number:
            click.echo()
        click.echo("  ".join(filter(None, [f"# {part.title}", part.about, part.note])))
        if part.rows:
            titles = [column.title or "bar" for column in part.columns]
            print_table(titles, [[str(text) for text in row] for row in part.rows])
