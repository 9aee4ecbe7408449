"""`scraper archive …`: lists, prunes and verifies archived pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import click
import sqlalchemy as sa

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, json_option, print_json
from scraper.cli.common.tables import format_minute, one_line, print_table
from scraper.errors import ScraperError
from scraper.plugins.archive import prune as pruning
from scraper.plugins.archive import rows as store
from scraper.plugins.archive.prune import Pruned
from scraper.plugins.archive.reader import read_all
from scraper.plugins.archive.reextract.command import progress_bar, since_option
from scraper.views.named_sites import require_site

PROBLEMS_MAX = 20
# Rows are read in batches, since reading their records takes longer than a transaction should.
BATCH = 2000
# Verifying reads every stored body, whatever today's limit is.
BODY_MAX = 2**31 - 1
COLUMNS = ["site", "pages", "urls", "segments", "size", "unpacked", "oldest", "newest", "kept"]


@dataclass(slots=True)
class Verified:
    """The number of records read, and the records that cannot be used."""

    pages: int = 0
    broken: int = 0
    problems: list[dict[str, str]] = field(default_factory=list)


@click.group()
def archive() -> None:
    """List, prune and verify the archived pages."""


@archive.command("list")
@click.argument("site", required=False, shell_complete=complete_site)
@json_option("array")
def archive_list(site: str | None, as_json: bool) -> None:
    """Show the archived pages of SITE or of all sites."""
    archives = _list_archives(open_engine(), site)
    if as_json:
        print_json(archives)
    elif archives:
        print_table(COLUMNS, [_archive_cells(archive) for archive in archives])
    else:
        click.echo("no pages are archived; `archive: true` in a site's definition keeps them")


@archive.command("prune")
@json_option()
def archive_prune(as_json: bool) -> None:
    """Delete pages that are older than their site's `keep` now; coordinators also do this by
    themselves."""
    pruned = _prune_all(open_engine())
    if as_json:
        print_json({name: value for name, value in asdict(pruned).items() if name != "more"})
    else:
        click.echo(f"{pruned.pages:,} pages forgotten, {pruned.segments:,} segments deleted")
    if pruned.problems:
        raise ScraperError("\n".join(pruned.problems))


@archive.command("verify")
@click.argument("site", required=False, shell_complete=complete_site)
@since_option
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of records to read.")
@json_option()
def archive_verify(
    site: str | None, since: datetime | None, limit: int | None, as_json: bool
) -> None:
    """Read every record of SITE or of all sites, and compare its digests; exit 1 unless all
    match."""
    verified = _verify_records(open_engine(), site, since, limit)
    if as_json:
        print_json(verified)
    else:
        for problem in verified.problems:
            click.echo(f"{one_line(problem['url'])}: {one_line(problem['problem'])}")
        click.echo(f"{verified.pages:,} records read, {verified.broken:,} of them cannot be used")
    if verified.broken:
        raise ScraperError(
            f"{verified.broken:,} of {verified.pages:,} archived records cannot be used"
        )


def _list_archives(engine: sa.Engine, site: str | None) -> list[dict[str, Any]]:
    """Returns, for each site, pages, URLs, segments, bytes packed and unpacked, oldest and newest
    page, and how long pages are kept."""
    with engine.connect() as connection:
        require_site(connection, site)
        rows = store.summarize_sites(connection, site)
        keep = {keeping.site: keeping.keep for keeping in store.list_retentions(connection)}
    return [
        {
            **row._asdict(),
            "bytes": int(row.bytes),
            "body_bytes": int(row.body_bytes),
            "keep_s": pruning.keep_s(keep.get(row.site)),
        }
        for row in rows
    ]


def _archive_cells(archive: dict[str, Any]) -> list[str]:
    counts = [f"{archive[name]:,}" for name in ("pages", "urls", "segments")]
    sizes = [f"{archive[name] / 1e6:,.1f} MB" for name in ("bytes", "body_bytes")]
    times = [format_minute(archive["oldest"]), format_minute(archive["newest"])]
    return [archive["site"], *counts, *sizes, *times, f"{archive['keep_s'] / 86400:g} d"]


def _prune_all(engine: sa.Engine) -> Pruned:
    """Prunes everything that is due, batch by batch."""
    pruned = Pruned()
    while True:
        batch = pruning.prune(engine)
        pruned.pages += batch.pages
        pruned.segments += batch.segments
        pruned.problems = batch.problems
        if not batch.more:
            return pruned


def _verify_records(
    engine: sa.Engine, site: str | None, since: datetime | None, limit: int | None
) -> Verified:
    """Reads every record and compares its digests."""
    verified = Verified()
    with engine.connect() as connection:
        require_site(connection, site)
    with progress_bar("reading") as tick:
        for record in read_all(_read_rows(engine, site, since, limit), BODY_MAX):
            verified.pages += 1
            tick(verified.pages, limit or verified.pages)
            if record.answer is None:
                verified.broken += 1
                if len(verified.problems) < PROBLEMS_MAX:
                    problem = {"url": record.row["url"], "problem": record.problem}
                    verified.problems.append(problem)
    return verified


def _read_rows(
    engine: sa.Engine, site: str | None, since: datetime | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    after, left = (0, -1), limit
    while True:
        with engine.connect() as connection:
            batch = BATCH if left is None else min(BATCH, left)
            rows = store.list_records(connection, site, since, after, batch)
        yield from (row._asdict() for row in rows)
        left = None if left is None else left - len(rows)
        if len(rows) < BATCH or left == 0:
            return
        after = (rows[-1].segment_id, rows[-1].start)
