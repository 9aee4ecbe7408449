"""`scraper dead …`: pages that were given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from scraper.cli.common.shared import load_settings, open_engine, print_json
from scraper.domain import Blame, Outcome, Status

if TYPE_CHECKING:
    import sqlalchemy as sa

    from scraper.dead_letters.store import Selection


# What a page can be dead or invalid for.
UNUSABLE = [
    outcome.value
    for outcome in Outcome
    if outcome.blame not in (Blame.NOBODY, Blame.PROXY)
    and outcome not in (Outcome.NOT_FOUND, Outcome.DEFERRED, Outcome.NO_LOGIN)
]


@click.group()
def dead() -> None:
    """Dead and invalid pages: why, replayed, or dropped."""


def _age(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    from scraper.sites.grammar.scalars import seconds

    try:
        return None if value is None else seconds(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _selecting(command: Callable[..., None]) -> Callable[..., None]:
    """The filters that say which dead and invalid pages are meant."""
    for option in (
        click.option(
            "--newer", "newer_s", metavar="AGE", callback=_age, help="Given up less than AGE ago."
        ),
        click.option(
            "--older",
            "older_s",
            metavar="AGE",
            callback=_age,
            help="Given up longer than AGE ago, as in 30m, 12h, 7d.",
        ),
        click.option(
            "--status",
            type=click.Choice([Status.DEAD.value, Status.INVALID.value]),
            help="One of the two only.",
        ),
        click.option(
            "--host",
            metavar="HOST",
            type=str.lower,
            help="Of that host, with its port if it has one.",
        ),
        click.option(
            "--reason",
            metavar="OUTCOME",
            type=click.Choice(UNUSABLE),
            help="Given up for that outcome.",
        ),
    ):
        command = option(command)
    return command


@dead.command("list")
@click.argument("site", required=False)
@_selecting
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(min=0), help="Pages to show."
)
@click.option("--summary", is_flag=True, help="Count them by site, reason and host instead.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def dead_list(site: str | None, limit: int, summary: bool, as_json: bool, **filters: Any) -> None:
    """Show dead and invalid pages, of SITE or of all, the latest first."""
    from scraper.actions import replay as shown
    from scraper.dead_letters import store as store

    with open_engine().connect() as connection:
        selection = shown.selected(connection, site, **filters)
        found = (
            store.summary(connection, selection)
            if summary
            else store.find(connection, selection, limit)
        )
        total = store.total(connection, selection)
    if as_json:
        print_json([shown.page_json(row) for row in found])
    elif not total:
        click.echo(shown.NOTHING)
    elif summary:
        shown.print_summary(found)
    else:
        shown.print_found(found, total)


@dead.command("show")
@click.argument("page")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def dead_show(page: str, as_json: bool) -> None:
    """Show all that is known of PAGE (an id, or a URL), and what to type next."""
    from scraper.actions import replay as shown
    from scraper.dead_letters import store as store

    with open_engine().connect() as connection:
        row = store.read(connection, shown.page_id(connection, page))
    assert row is not None
    if as_json:
        print_json(shown.page_json(row))
    else:
        shown.print_page(row)


def _acting(command: Callable[..., None]) -> Callable[..., None]:
    """What replay and drop have in common: they want to be told which pages are meant."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON array."),
        click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing."),
        click.option(
            "--all",
            "everything",
            is_flag=True,
            help="All there are, or all that the filters let through.",
        ),
        _selecting,
        click.argument("words", metavar="[SITE] [PAGE]...", nargs=-1),
    ):
        command = option(command)
    return command


def _selection(
    engine: sa.Engine, words: tuple[str, ...], everything: bool, filters: dict[str, Any]
) -> Selection:
    from scraper.actions import replay as shown

    if not (everything or words or any(value is not None for value in filters.values())):
        raise click.UsageError("say which pages are meant: a site, pages, a filter, or --all")
    site, pages = shown.site_and_pages(words)
    with engine.connect() as connection:
        return shown.selected(connection, site, pages, **filters)


@dead.command("replay")
@_acting
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
    """Try dead and invalid pages again: those of SITE, certain PAGEs (ids or URLs), those a filter
    lets through.

    They join the site's running crawl, or one that is opened for them alone, which delists nothing.
    """
    from dataclasses import asdict

    from scraper.actions import crawls
    from scraper.actions import replay as shown
    from scraper.dead_letters import replay as step

    settings, engine = load_settings(), open_engine()
    selection = _selection(engine, words, everything, filters)
    done = step.outlook(engine, selection) if dry_run else shown.replay(engine, settings, selection)
    shown.tell_missing(selection, sum(one.pages for one in done))
    if as_json:
        print_json([asdict(one) for one in done])
        shown.refuse(done)
    elif not done:
        click.echo(shown.NOTHING)
    else:
        shown.print_replayed(done, dry_run=dry_run)
    if wait and not dry_run:
        ids = [one.crawl_id for one in done if one.crawl_id is not None]
        crawls.wait_all(engine, settings, ids, local=settings.embedded, summary_to_stderr=as_json)


@dead.command("drop")
@_acting
def dead_drop(
    words: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool, **filters: Any
) -> None:
    """Give dead and invalid pages up until a crawl finds them again. Products stay as they are."""
    from dataclasses import asdict

    from scraper.actions import replay as shown
    from scraper.dead_letters import replay as step

    engine = open_engine()
    selection = _selection(engine, words, everything, filters)
    done = step.to_drop(engine, selection) if dry_run else step.drop(engine, selection)
    shown.tell_missing(selection, sum(one.pages for one in done))
    if as_json:
        print_json([asdict(one) for one in done])
    elif not done:
        click.echo(shown.NOTHING)
    else:
        shown.print_dropped(done, dry_run=dry_run)
