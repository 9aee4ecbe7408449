"""`scraper dead …`: shows pages that were given up, and replays or drops them.

Excerpts and headers are shown without control characters, so that a shop's text cannot control the
terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
import sqlalchemy as sa

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import (
    complete_site,
    json_option,
    load_settings,
    parsed_by,
    print_json,
)
from scraper.cli.common.tables import format_minute, one_line, print_table
from scraper.cli.crawl.wait import wait_all
from scraper.domain import Blame, Outcome, Status
from scraper.errors import quote_command
from scraper.plugins.replay import choice, replay, store
from scraper.plugins.replay.replay import ReplayResult
from scraper.plugins.replay.store import Selection
from scraper.sites.grammar.scalars import parse_duration

# The outcomes that a page can be dead or invalid for.
UNUSABLE = [
    outcome.value
    for outcome in Outcome
    if outcome.blame not in (Blame.NOBODY, Blame.PROXY)
    and outcome not in (Outcome.NOT_FOUND, Outcome.DEFERRED, Outcome.NO_LOGIN)
]
NOTHING = "no such dead or invalid pages"
HINTS = {
    Blame.PARSER: "fix the site's definition (the excerpt shows what the page says), then type",
    Blame.HOST: "once its host answers again, type",
    Blame.PROXY: "once there is a way to its host again, type",
    Blame.PAGE: "if that has changed, or the definition allows it by now, type",
    Blame.US: "this is a bug of scraper: please report it with the URL. To try it again, type",
}
COLUMNS = ["page", "site", "status", "reason", "http", "tries", "when", "url", "error"]
SUMMARY_COLUMNS = ["site", "status", "reason", "host", "pages", "first", "last", "such as page"]

FILTERS = (
    click.option("--reason", metavar="OUTCOME", type=click.Choice(UNUSABLE),
                 help="Given up with this outcome."),
    click.option("--host", metavar="HOST", type=str.lower,
                 help="Only of this host, with its port if it has one."),
    click.option("--status", type=click.Choice([Status.DEAD.value, Status.INVALID.value]),
                 help="Only with this status."),
    click.option("--older", "older_s", metavar="AGE", callback=parsed_by(parse_duration),
                 help="Given up longer than AGE ago, as in 30m, 12h, 7d."),
    click.option("--newer", "newer_s", metavar="AGE", callback=parsed_by(parse_duration),
                 help="Given up less than AGE ago."),
)  # fmt: skip
# Replay and drop share the options that select pages.
SELECTION = (
    click.argument("words", metavar="[SITE] [PAGE]...", nargs=-1),
    *FILTERS,
    click.option("--all", "everything", is_flag=True,
                 help="All pages, or all that match the filters."),
    click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing."),
    json_option("array"),
)  # fmt: skip

Command = Callable[..., None]


def _with_options(options: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.group()
def dead() -> None:
    """Show dead and invalid pages, and why; replay or drop them."""


@dead.command("list")
@click.argument("site", required=False, shell_complete=complete_site)
@_with_options(FILTERS)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(min=0), help="Pages to show."
)
@click.option("--summary", is_flag=True, help="Count them by site, reason and host instead.")
@json_option("array")
def dead_list(site: str | None, limit: int, summary: bool, as_json: bool, **filters: Any) -> None:
    """Show dead and invalid pages of SITE or of all sites, latest first."""
    with open_engine().connect() as connection:
        selection = choice.select_pages(connection, site, **filters)
        if summary:
            rows = store.summarize_pages(connection, selection)
        else:
            rows = store.find_pages(connection, selection, limit)
        total = store.count_pages(connection, selection)
    if as_json:
        print_json([_as_json(row) for row in rows])
    elif not total:
        click.echo(NOTHING)
    elif summary:
        print_table(SUMMARY_COLUMNS, [_summary_cells(row) for row in rows])
    else:
        _print_pages(rows, total)


@dead.command("show")
@click.argument("page")
@json_option()
def dead_show(page: str, as_json: bool) -> None:
    """Show everything about PAGE (an id, or a URL), and what to do next."""
    with open_engine().connect() as connection:
        row = store.read_page(connection, choice.page_id(connection, page))
    assert row is not None
    if as_json:
        print_json(_as_json(row))
    else:
        _print_page(row)


@dead.command("replay")
@_with_options(SELECTION)
@click.option(
    "--wait",
    is_flag=True,
    help="Show progress until their crawls end; exit 4 unless they complete.",
)
def dead_replay(
    words: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    as_json: bool,
    wait: bool,
    **filters: Any,
) -> None:
    """Try dead and invalid pages again: those of SITE, certain PAGEs (ids or URLs), or those that
    match a filter.

    They join the site's running crawl, or a new crawl of their own, which delists nothing.
    """
    settings, engine = load_settings(), open_engine()
    selection = _select_pages(engine, words, everything, filters)
    if dry_run:
        replayed = replay.preview_replay(engine, selection)
    else:
        replayed = choice.replay_pages(engine, settings, selection)
    _warn_of_missing(selection, sum(site.pages for site in replayed))
    if as_json:
        print_json(replayed)
    elif replayed:
        _print_replayed(replayed, dry_run=dry_run)
    else:
        click.echo(NOTHING)
    ids = [site.crawl_id for site in replayed if site.crawl_id is not None]
    if wait and ids and not dry_run:
        wait_all(engine, settings, ids, local=settings.embedded, summary_to_stderr=as_json)
    choice.raise_refusals(replayed)


@dead.command("drop")
@_with_options(SELECTION)
def dead_drop(
    words: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool, **filters: Any
) -> None:
    """Drop dead and invalid pages until a crawl finds them again. Products stay as they are."""
    engine = open_engine()
    selection = _select_pages(engine, words, everything, filters)
    drop = replay.preview_drop if dry_run else replay.drop_pages
    dropped = drop(engine, selection)
    _warn_of_missing(selection, sum(site.pages for site in dropped))
    if as_json:
        print_json(dropped)
    elif not dropped:
        click.echo(NOTHING)
    else:
        print_table(["site", "pages"], [[site.site, f"{site.pages:,}"] for site in dropped])
        if dry_run:
            click.echo("nothing was changed", err=True)


def _select_pages(
    engine: sa.Engine, words: tuple[str, ...], everything: bool, filters: dict[str, Any]
) -> Selection:
    if not (everything or words or any(value is not None for value in filters.values())):
        raise click.UsageError("say which pages are meant: a site, pages, a filter, or --all")
    site, pages = choice.site_and_pages(words)
    with engine.connect() as connection:
        return choice.select_pages(connection, site, pages, **filters)


def _warn_of_missing(selection: Selection, pages: int) -> None:
    """Says how many of the pages named by id were left alone."""
    named = len(set(selection.ids or ()))
    if pages < named:
        click.echo(
            f"{named - pages} of the {named} pages named were left alone: not dead or invalid "
            "(or no longer), or excluded by the filters",
            err=True,
        )


def _print_replayed(replayed: Sequence[ReplayResult], *, dry_run: bool) -> None:
    """Prints a line for each site; remarks go to stderr."""
    rows = [[site.site, f"{site.pages:,}", _crawl_text(site)] for site in replayed if site.pages]
    if rows:
        print_table(["site", "pages", "crawl"], rows)
    for site in replayed:
        if site.outdated:
            click.echo(
                f"crawl {site.crawl_id} of {site.site} began with an older definition and stays "
                "with it; to use the new one, replay once that crawl has ended",
                err=True,
            )
    if dry_run and rows:
        click.echo("nothing was changed", err=True)


def _crawl_text(site: ReplayResult) -> str:
    if site.crawl_id is None:
        return "a new one"
    return f"{site.crawl_id}, {'opened for this' if site.opened else 'running already'}"


def _as_json(row: sa.Row[Any]) -> dict[str, Any]:
    """Returns a page's columns, and the party that its reason blames."""
    return {**row._asdict(), "blame": Outcome.blame_of(row.reason)}


def _print_pages(rows: Sequence[sa.Row[Any]], total: int) -> None:
    # A terminal has no room for the error: `dead show` has it.
    width = len(COLUMNS) - sys.stdout.isatty()
    print_table(COLUMNS[:width], [_page_cells(row)[:width] for row in rows])
    if total > len(rows):
        click.echo(
            f"{len(rows):,} of {total:,}; `--limit` shows more, `--summary` counts by site, reason "
            "and host",
            err=True,
        )


def _page_cells(row: sa.Row[Any]) -> list[str]:
    tries = f"{row.attempts}+{row.host_attempts}" if row.host_attempts else str(row.attempts)
    return [
        str(row.id), row.site, row.status, row.reason or "", str(row.http_status or ""), tries,
        format_minute(row.settled_at), one_line(row.url), one_line(row.error or ""),
    ]  # fmt: skip


def _summary_cells(row: sa.Row[Any]) -> list[str]:
    return [
        row.site, row.status, row.reason or "", one_line(row.host), f"{row.pages:,}",
        format_minute(row.first_at), format_minute(row.last_at), str(row.example),
    ]  # fmt: skip


def _print_page(row: sa.Row[Any]) -> None:
    """Prints everything about one page, line by line."""
    paused = " (paused)" if row.paused else ""
    last_good = format_minute(row.fetched_at) or "never"
    times = f"found {format_minute(row.discovered_at)}, last good {last_good}"
    lines = {
        "page": f"{row.id}  {one_line(row.url)}",
        "site": f"{row.site}{paused}, crawl {row.crawl_id} ({row.crawl_status})",
        "kind": f"{row.kind}, depth {row.depth}, queue {one_line(row.queue)}",
        "status": row.status,
        "reason": _reason_text(row.reason),
        "tries": f"{row.attempts} charged to the page, {row.host_attempts} to its host; "
        f"workers that died holding it: {row.losses}",
        "last status": str(row.http_status or "no answer"),
        "error": one_line(row.error or ""),
        "when": f"{format_minute(row.settled_at)}, {times}",
    }
    width = max(map(len, lines)) + 1
    for name, text in lines.items():
        click.echo(f"{name + ':':<{width}} {text}")
    head = [f"{one_line(str(n))}: {one_line(str(v))}" for n, v in (row.response_head or {}).items()]
    for title, texts in (("answer's head", head), ("excerpt", str(row.excerpt or "").splitlines())):
        if texts:
            click.echo(f"\n{title}:")
        for text in texts:
            click.echo(f"  {one_line(text)}")
    click.echo()
    _print_next(row)


def _print_next(row: sa.Row[Any]) -> None:
    if row.status not in (Status.DEAD, Status.INVALID):
        click.echo(f"it is {row.status}: there is nothing to replay")
        return
    if row.paused:
        click.echo(
            f"{row.site} is paused; `{quote_command('scraper sites resume', row.site)}` first"
        )
    click.echo(f"{HINTS.get(Outcome.blame_of(row.reason), 'to try it again, type')}:")
    click.echo(f"  scraper dead replay {row.id}")
    click.echo("or, to give it up until a crawl finds it again:")
    click.echo(f"  scraper dead drop {row.id}")


def _reason_text(reason: str | None) -> str:
    outcome = Outcome.stored(reason)
    if outcome is None:
        return reason or ""
    return f"{reason}: {outcome.phrase}; blames {outcome.blame}"
