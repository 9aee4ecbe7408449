"""`scraper archive`: what is kept, forgetting what is old, and whether every record is what was
written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import click
import sqlalchemy as sa

from scraper.archive import rows as store
from scraper.archive.reader import read_all
from scraper.cli.data.reextract import progress
from scraper.coordinator import prune as step
from scraper.coordinator.prune import Pruned
from scraper.errors import NotFoundError, ScraperError
from scraper.infra.tables import plain, print_table

PROBLEMS = 20
PIECE = 2000
# what was stored is to be read, whatever a limit says now
BODY_MAX = 2**31 - 1


@dataclass(slots=True)
class Verified:
    """How many records were read, and which of them are not what was written."""

    pages: int = 0
    broken: int = 0
    problems: list[dict[str, str]] = field(default_factory=list)


def listed(engine: sa.Engine, site: str | None) -> list[dict[str, Any]]:
    """Per site: pages, URLs, segments, bytes packed and unpacked, oldest and newest, how long they
    are kept."""
    with engine.connect() as connection:
        _known(connection, site)
        rows = store.summary(connection, site)
        keep = {one.site: one.keep for one in store.keeping(connection)}
    return [
        {
            **row._asdict(),
            "bytes": int(row.bytes),
            "body_bytes": int(row.body_bytes),
            "oldest": row.oldest.isoformat(),
            "newest": row.newest.isoformat(),
            "keep_s": step.keep_s(keep.get(row.site)),
        }
        for row in rows
    ]


def print_listed(found: list[dict[str, Any]]) -> None:
    if not found:
        click.echo("no pages are archived; `archive: true` in a site's definition keeps them")
        return
    columns = ["site", "pages", "urls", "segments", "size", "unpacked", "oldest", "newest", "kept"]
    print_table(columns, [_row(one) for one in found])


def _row(one: dict[str, Any]) -> list[str]:
    return [
        one["site"],
        f"{one['pages']:,}",
        f"{one['urls']:,}",
        f"{one['segments']:,}",
        f"{one['bytes'] / 1e6:,.1f} MB",
        f"{one['body_bytes'] / 1e6:,.1f} MB",
        one["oldest"][:16],
        one["newest"][:16],
        f"{one['keep_s'] / 86400:g} d",
    ]


def prune(engine: sa.Engine) -> Pruned:
    """Everything that is due, not only a piece of it."""
    done = Pruned()
    while True:
        piece = step.prune(engine)
        done.pages += piece.pages
        done.segments += piece.segments
        done.problems = piece.problems
        if not piece.more:
            return done


def refuse_problems(done: Pruned) -> None:
    if done.problems:
        raise ScraperError("\n".join(done.problems))


def verify(
    engine: sa.Engine, site: str | None, since: datetime | None, limit: int | None
) -> Verified:
    """Reads every record and compares its digests."""
    done = Verified()
    with engine.connect() as connection:
        _known(connection, site)
    with progress("reading") as tick:
        for found in read_all(_records(engine, site, since, limit), BODY_MAX):
            done.pages += 1
            tick(done.pages, limit or done.pages)
            if found.answer is None:
                done.broken += 1
                if len(done.problems) < PROBLEMS:
                    done.problems.append({"url": found.row["url"], "problem": found.problem})
    return done


def _records(
    engine: sa.Engine, site: str | None, since: datetime | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    """Piece by piece: reading takes longer than a transaction should."""
    after, left = (0, -1), limit
    while True:
        wanted = PIECE if left is None else min(PIECE, left)
        with engine.connect() as connection:
            rows = store.records(connection, site, since, after, wanted)
        yield from (row._asdict() for row in rows)
        left = None if left is None else left - len(rows)
        if len(rows) < PIECE or left == 0:
            return
        after = (rows[-1].segment_id, rows[-1].start)


def print_verified(done: Verified) -> None:
    for one in done.problems:
        click.echo(f"{plain(one['url'])}: {plain(one['problem'])}")
    click.echo(f"{done.pages:,} records read, {done.broken:,} of them cannot be used")


def refuse_broken(done: Verified) -> None:
    if done.broken:
        raise ScraperError(f"{done.broken:,} of {done.pages:,} archived records cannot be used")


def verified_json(done: Verified) -> dict[str, Any]:
    return asdict(done)


def _known(connection: sa.Connection, site: str | None) -> None:
    query = sa.text("SELECT FROM sites WHERE name = :name")
    if site is not None and connection.execute(query, {"name": site}).first() is None:
        raise NotFoundError(
            f"there is no site named {site!r} in the database; `scraper status` shows those crawled"
        )
