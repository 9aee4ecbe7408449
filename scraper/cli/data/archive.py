"""`scraper archive …` and `scraper reextract`: raw pages that were kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from scraper.cli.common.shared import load_settings, open_engine, print_json

if TYPE_CHECKING:
    from datetime import datetime


def _when(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    from datetime import UTC, datetime

    from scraper.cli.data.reextract import when

    try:
        return None if value is None else when(value, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


SINCE = click.option(
    "--since",
    metavar="WHEN",
    callback=_when,
    help="Pages fetched since then: 7d, 2026-11-20, 2026-11-20T18:00.",
)


@click.group()
def archive() -> None:
    """Raw pages that were kept: what there is, what is too old, and whether it can be read."""


@archive.command("list")
@click.argument("site", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def archive_list(site: str | None, as_json: bool) -> None:
    """Show what is kept, of SITE or of all."""
    from scraper.cli.data import archive_command as shown

    found = shown.listed(open_engine(), site)
    if as_json:
        print_json(found)
    else:
        shown.print_listed(found)


@archive.command("prune")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def archive_prune(as_json: bool) -> None:
    """Forget now what is older than its site's `keep`; coordinators do so by themselves."""
    from dataclasses import asdict

    from scraper.cli.data import archive_command as shown

    done = shown.prune(open_engine())
    if as_json:
        print_json({name: value for name, value in asdict(done).items() if name != "more"})
    else:
        click.echo(f"{done.pages:,} pages forgotten, {done.segments:,} segments deleted")
    shown.refuse_problems(done)


@archive.command("verify")
@click.argument("site", required=False)
@SINCE
@click.option("--limit", type=click.IntRange(min=1), help="Records to read at the most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def archive_verify(
    site: str | None, since: datetime | None, limit: int | None, as_json: bool
) -> None:
    """Read every record, of SITE or of all, and compare its digests; exit 1 unless all are what was
    written."""
    from scraper.cli.data import archive_command as shown

    done = shown.verify(open_engine(), site, since, limit)
    if as_json:
        print_json(shown.verified_json(done))
    else:
        shown.print_verified(done)
    shown.refuse_broken(done)


@click.command()
@click.argument("site")
@SINCE
@click.option("--diff", is_flag=True, help="Show what would change, and write nothing.")
@click.option("--limit", type=click.IntRange(min=1), help="Pages to read at the most.")
@click.option(
    "--show",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="Products to show singly.",
)
@click.option("--accept", is_flag=True, help="Write even what a crawl would be suspect for.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def reextract(
    site: str,
    since: datetime | None,
    diff: bool,
    limit: int | None,
    show: int,
    accept: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Run SITE's definition of today over its archived product pages, without a request.

    Shows what changes, and writes it unless --diff is given. Exit 5 where the outcome would make a
    crawl suspect.
    """
    from scraper.cli.data import reextract as shown

    try:
        shown.run(
            open_engine(),
            load_settings(),
            site,
            since=since,
            limit=limit,
            show=show,
            diff=diff,
            accept=accept,
            yes=yes,
            told=print_json if as_json else None,
        )
    except KeyboardInterrupt:
        click.echo(
            "\nbroken off; what was written stays, and the same command does the rest", err=True
        )
        sys.exit(130)
