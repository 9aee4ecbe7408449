"""`scraper dead`: which pages are meant, what is known of them, and what came of replaying or
dropping them.

All that a shop sent is shown without control characters: an excerpt or a header must not steer the
reader's terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
import sqlalchemy as sa

from scraper.actions import crawls
from scraper.dead_letters import replay as dead
from scraper.dead_letters import store as store
from scraper.dead_letters.replay import Dropped, Replayed
from scraper.dead_letters.store import Selection
from scraper.domain import Blame, Outcome, Status
from scraper.errors import NotFoundError, ScraperError
from scraper.frontier import sites
from scraper.infra import servers, tables
from scraper.rules.urls import clean, fingerprint
from scraper.settings import Settings

NOTHING = "no such dead or invalid pages"
HINTS = {
    Blame.PARSER: "mend the site's definition (the excerpt shows what the page says), then type",
    Blame.HOST: "once its host answers again, type",
    Blame.PROXY: "once there is a way to its host again, type",
    Blame.PAGE: "if that has changed, or the definition allows it by now, type",
    Blame.US: "a fault of ours: please report it with the URL. To try it again, type",
}


# --- which pages


def selected(
    connection: sa.Connection, site: str | None, pages: Sequence[str] = (), **filters: Any
) -> Selection:
    """The filters with a site's name checked, and pages' ids or URLs looked up. Raises
    `NotFoundError` for what there is not."""
    known = sa.text("SELECT FROM sites WHERE name = :name")
    if site is not None and connection.execute(known, {"name": site}).first() is None:
        raise NotFoundError(
            f"there is no site named {site!r} in the database; `scraper status` shows those crawled"
        )
    return Selection(
        site=site, ids=tuple(page_id(connection, page) for page in pages) or None, **filters
    )


def site_and_pages(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Arguments in any order: numbers and URLs are pages, and one word may be a site."""
    names = [word for word in words if not _names_page(word)]
    if len(names) > 1:
        raise NotFoundError(f"one site at a time, not {' and '.join(map(repr, names))}")
    return (names[0] if names else None), [word for word in words if _names_page(word)]


def _names_page(word: str) -> bool:
    return (word.isascii() and word.isdecimal()) or "://" in word


def page_id(connection: sa.Connection, word: str) -> int:
    """The id of the page that an id or a URL names."""
    if not _names_page(word):
        raise NotFoundError(
            f"{word!r} is neither a page's id nor its URL; `scraper dead list` shows both"
        )
    if "://" not in word:
        found = store.read(connection, int(word))
        if found is None:
            raise NotFoundError(f"there is no page {word}; `scraper dead list` shows ids")
        return int(found.id)
    pages = store.of_url(connection, [fingerprint(word), fingerprint(clean(word) or word)])
    if not pages:
        raise NotFoundError(
            f"no site has a page {word}; `scraper dead list` shows those that are dead"
        )
    if len(pages) > 1:
        ids = ", ".join(f"{page.id} ({page.site})" for page in pages)
        raise NotFoundError(f"several sites have this page: name it by its id, one of {ids}")
    return int(pages[0].id)


# --- what is known of them


def page_json(row: sa.Row[Any]) -> dict[str, Any]:
    """A page's columns, times in ISO 8601, and whom its reason blames."""
    values = {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in row._asdict().items()
    }
    return {**values, "blame": _blame(row.reason)}


def print_found(found: Sequence[sa.Row[Any]], total: int) -> None:
    rows = [
        [
            str(row.id),
            row.site,
            row.status,
            row.reason or "",
            str(row.http_status or ""),
            f"{row.attempts}+{row.host_attempts}" if row.host_attempts else str(row.attempts),
            _time(row.settled_at),
            tables.plain(row.url),
            tables.plain(row.error or ""),
        ]
        for row in found
    ]
    columns = ["page", "site", "status", "reason", "http", "tries", "when", "url", "error"]
    # a terminal has no room for the error: `dead show` has it
    shown = len(columns) - sys.stdout.isatty()
    tables.print_table(columns[:shown], [row[:shown] for row in rows])
    if total > len(found):
        click.echo(
            f"{len(found):,} of {total:,}; `--limit` shows more, `--summary` counts by site, reason and host",
            err=True,
        )


def print_summary(found: Sequence[sa.Row[Any]]) -> None:
    rows = [
        [
            row.site,
            row.status,
            row.reason or "",
            tables.plain(row.host),
            f"{row.pages:,}",
            _time(row.first_at),
            _time(row.last_at),
            str(row.example),
        ]
        for row in found
    ]
    tables.print_table(
        ["site", "status", "reason", "host", "pages", "first", "last", "such as page"], rows
    )


def print_page(row: sa.Row[Any]) -> None:
    """Everything about one page, line by line."""
    lines = {
        "page": f"{row.id}  {tables.plain(row.url)}",
        "site": f"{row.site}{' (paused)' if row.paused else ''}, crawl {row.crawl_id} ({row.crawl_status})",
        "kind": f"{row.kind}, depth {row.depth}, queue {tables.plain(row.queue)}",
        "status": row.status,
        "reason": _reason(row.reason),
        "tries": _tries(row),
        "last status": str(row.http_status or "no answer"),
        "error": tables.plain(row.error or ""),
        "when": f"{_time(row.settled_at)}, found {_time(row.discovered_at)}, last good {_time(row.fetched_at) or 'never'}",
    }
    width = max(map(len, lines)) + 1
    for name, text in lines.items():
        click.echo(f"{name + ':':<{width}} {text}")
    for title, text in (("answer's head", _head(row.response_head)), ("excerpt", row.excerpt)):
        if text:
            click.echo(f"\n{title}:")
            for line in str(text).splitlines():
                click.echo(f"  {tables.plain(line)}")
    click.echo(f"\n{_next(row)}")


def _head(head: dict[str, Any] | None) -> str:
    return "\n".join(
        f"{tables.plain(str(name))}: {tables.plain(str(value))}"
        for name, value in (head or {}).items()
    )


def _next(row: sa.Row[Any]) -> str:
    if row.status not in (Status.DEAD, Status.INVALID):
        return f"it is {row.status}: there is nothing to replay"
    hint = HINTS.get(_outcome_blame(row.reason), "to try it again, type")
    told = [
        f"{hint}:",
        f"  scraper dead replay {row.id}",
        "or, to give it up until a crawl finds it again:",
    ]
    if row.paused:
        told.insert(0, f"{row.site} is paused; `scraper sites resume {row.site}` first")
    return "\n".join([*told, f"  scraper dead drop {row.id}"])


def _reason(reason: str | None) -> str:
    if reason not in set(Outcome):
        return reason or ""
    outcome = Outcome(reason)
    return f"{reason}: {outcome.phrase}; blames {_blame(reason)}"


def _outcome_blame(reason: str | None) -> Blame:
    return Outcome(reason).blame if reason in set(Outcome) else Blame.NOBODY


def _blame(reason: str | None) -> str:
    return str(_outcome_blame(reason))


def _tries(row: sa.Row[Any]) -> str:
    return f"{row.attempts} charged to the page, {row.host_attempts} to its host; workers that died holding it: {row.losses}"


def _time(at: Any) -> str:
    return at.strftime("%Y-%m-%d %H:%M") if at else ""


# --- replayed and dropped


def replay(engine: sa.Engine, settings: Settings, selection: Selection) -> list[Replayed]:
    """Takes over the sites' newest definitions from sites/, replays, and sends what is to be sent."""
    from scraper.runtime.send import send

    servers.require_broker(settings)
    names = {one.site for one in dead.outlook(engine, selection) if not one.refused}
    with engine.begin() as connection:
        sites.sync(connection, crawls.all_from_files(settings, names))
    done, messages = dead.replay(engine, selection)
    send(messages)
    return done


def print_replayed(done: Sequence[Replayed], *, dry_run: bool) -> None:
    """A line a site; on stderr, what a reader should know beside it. Raises `ScraperError` for
    sites that refuse."""
    rows = [[one.site, f"{one.pages:,}", _crawl(one)] for one in done if one.pages]
    if rows:
        tables.print_table(["site", "pages", "crawl"], rows)
    for one in done:
        if one.outdated:
            click.echo(
                f"crawl {one.crawl_id} of {one.site} began with an older definition and stays with it; to use the new one, "
                "replay once that crawl has ended",
                err=True,
            )
    if dry_run and rows:
        click.echo("nothing was changed", err=True)
    refuse(done)


def refuse(done: Sequence[Replayed]) -> None:
    refused = [one.refused for one in done if one.refused]
    if refused:
        raise ScraperError("\n".join(refused))


def _crawl(one: Replayed) -> str:
    if one.crawl_id is None:
        return "a new one"
    return f"{one.crawl_id}, {'opened for this' if one.opened else 'running already'}"


def print_dropped(done: Sequence[Dropped], *, dry_run: bool) -> None:
    tables.print_table(["site", "pages"], [[one.site, f"{one.pages:,}"] for one in done])
    if dry_run:
        click.echo("nothing was changed", err=True)


def tell_missing(selection: Selection, pages: int) -> None:
    """Of pages that were named one by one, some may be none of these any more."""
    named = len(set(selection.ids or ()))
    if pages < named:
        told = f"{named - pages} of the {named} pages named were left alone"
        click.echo(f"{told}: not dead or invalid (any more), or not meant by the filters", err=True)
