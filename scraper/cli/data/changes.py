"""`scraper changes` and `scraper consumers`: what has become of products, in order."""

from __future__ import annotations

import sys

import click

from scraper.cli.common.shared import harmless, open_engine, print_json


@click.command()
@click.argument("site", required=False)
@click.option(
    "--since",
    metavar="CURSOR|TIME",
    help="After a cursor or a time (2h, 2025-11-21), `oldest` or `now`.",
)
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until SIGTERM or Ctrl-C.")
@click.option("--limit", type=click.IntRange(1), help="End after so many.")
@click.option(
    "--consumer",
    metavar="NAME",
    help="Go on where this name has read to, and note where it comes to.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines; into a pipe they always are.")
def changes(
    site: str | None,
    since: str | None,
    follow: bool,
    limit: int | None,
    consumer: str | None,
    as_json: bool,
) -> None:
    """Show new, changed, delisted and relisted products (of SITE), once each and in order.

    From the oldest that is kept, from --since, or from where --consumer has come to.
    """
    from scraper.cli.data import changes_command as showing

    begin = None if since is None else showing.since_of(since)
    showing.show(open_engine(), site, since=begin, follow=follow, limit=limit, consumer=consumer,
                 as_json=harmless if as_json or not sys.stdout.isatty() else None)  # fmt: skip


@click.command()
@click.option("--forget", metavar="NAME", help="Forget where this one has read to.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def consumers(forget: str | None, as_json: bool) -> None:
    """Show how far named consumers have read the feed of changes, and how much is left to each."""
    from scraper.cli.data import changes_command as showing

    engine = open_engine()
    if forget is not None:
        showing.forget(engine, forget)
        return
    found = showing.consumers_json(engine)
    if as_json:
        print_json(found)
    else:
        showing.print_consumers(found)
