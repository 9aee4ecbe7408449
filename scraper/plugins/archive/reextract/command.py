"""`scraper reextract`: shows what today's definition would change in stored products, asks, and
writes it.

Shops' texts are shown without control characters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click
import sqlalchemy as sa

from scraper.actions.named_definitions import definition_in_file, stored_site
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import (
    complete_site,
    json_option,
    load_settings,
    parse_time,
    parsed_by,
    print_json,
)
from scraper.cli.common.tables import format_cell, format_minute, one_line, print_table
from scraper.errors import ScraperError, SuspectError
from scraper.frontier import sites
from scraper.plugins.archive.reextract.differences import FieldSums
from scraper.plugins.archive.reextract.run import Preview, Reextraction, Tick, WriteResult
from scraper.sites.definition import Site

since_option = click.option(
    "--since",
    metavar="WHEN",
    callback=parsed_by(parse_time),
    help="Pages fetched since then: 7d, 2026-11-20, 2026-11-20T18:00.",
)
FIELD_COLUMNS = ["field", "fill", "then", "gained", "changed", "lost", "such as"]


@click.command()
@click.argument("site", shell_complete=complete_site)
@since_option
@click.option("--diff", is_flag=True, help="Show what would change, and write nothing.")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of pages to read.")
@click.option(
    "--show",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="Number of products to show one by one.",
)
@click.option(
    "--accept", is_flag=True, help="Write the result even if it would make a crawl suspect."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option()
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
    """Read SITE's archived pages with today's definition.

    Shows what changes, and writes it unless --diff is given. Exits with 5 if the result would make
    a crawl suspect.
    """
    engine, settings = open_engine(), load_settings()
    with engine.connect() as connection:
        site_id, stored = stored_site(connection, site)
    in_file = definition_in_file(settings, site)
    try:
        with Reextraction(engine, settings, in_file or stored) as extraction:
            with progress_bar("reading") as tick:
                preview = extraction.read(site_id, since=since, limit=limit, show=show, tick=tick)
            _require_pages(site, preview)
            if not as_json:
                _print_preview(site, preview)
            refused = bool(preview.reasons) and not accept
            written = None
            if not diff and not refused and _ask_to_write(preview, yes=yes):
                if in_file:
                    _store_definition(engine, in_file)
                with progress_bar("writing") as tick:
                    written = extraction.write(site_id, tick)
            # JSON is printed even if writing is refused.
            if as_json:
                print_json(_as_json(site, preview, written))
            else:
                _print_written(written)
            if refused and not diff:
                raise _suspect_error(preview)
    except KeyboardInterrupt:
        click.echo(
            "\ninterrupted; what was written stays, and the same command does the rest", err=True
        )
        sys.exit(130)


def _require_pages(name: str, preview: Preview) -> None:
    if not preview.pages:
        raise ScraperError(
            f"no archived product pages of {name} (fix: with `archive: true` in its definition, "
            "the next crawl keeps them; `scraper archive list` shows what is kept)"
        )


def _ask_to_write(preview: Preview, *, yes: bool) -> bool:
    if not preview.to_write:
        return False
    if yes or not sys.stdin.isatty():
        return True
    question = f"write {preview.changed:,} changed and {preview.new:,} new products?"
    return click.confirm(question, err=True)


def _store_definition(engine: sa.Engine, site: Site) -> None:
    """Makes later crawls use the definition with which the products are written."""
    with engine.begin() as connection:
        sites.store_definitions(connection, [site])


def _suspect_error(preview: Preview) -> SuspectError:
    reasons = "\n".join(f"  {reason.field}: {reason.text}" for reason in preview.reasons)
    return SuspectError(
        f"not written, since a crawl with this outcome would be suspect:\n{reasons}\n"
        "fix the definition; or, if this is what you want, add --accept"
    )


@contextmanager
def progress_bar(label: str) -> Iterator[Tick]:
    """Shows a progress bar on stderr if that is a terminal."""
    bars: list[Any] = []

    def tick(done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        if not bars:
            steps = max(1, total // 200)
            bar = click.progressbar(
                length=total, label=label, file=sys.stderr, update_min_steps=steps
            )
            bars.append(bar.__enter__())
        bars[0].update(done - bars[0].pos)

    try:
        yield tick
    finally:
        for bar in bars:
            bar.__exit__(None, None, None)


def _as_json(name: str, preview: Preview, written: WriteResult | None) -> dict[str, Any]:
    return {
        "site": name,
        "pages": preview.pages,
        "oldest": preview.oldest,
        "newest": preview.newest,
        "unreadable": preview.unreadable,
        "not_extracted": preview.not_extracted,
        "problems": [{"url": url, "problem": problem} for url, problem in preview.problems],
        "products": {
            "same": preview.same,
            "changed": preview.changed,
            "new": preview.new,
            "vanished": preview.vanished,
            "left_alone": dict(preview.left),
        },
        "vanished_examples": preview.vanished_examples,
        "fields": {
            field: _field_json(preview, sums) for field, sums in sorted(preview.sums.fields.items())
        },
        "changes": [
            {
                "id": product.external_id,
                "url": product.url,
                "new": product.new,
                "fields": {name: change._asdict() for name, change in product.fields.items()},
            }
            for product in preview.shown
        ],
        "reasons": preview.reasons,
        "written": written,
    }


def _field_json(preview: Preview, sums: FieldSums) -> dict[str, Any]:
    return {
        "fill_before": sums.before / preview.sums.known if preview.sums.known else None,
        "fill_after": sums.after / preview.sums.found if preview.sums.found else None,
        "gained": sums.gained,
        "changed": sums.changed,
        "lost": sums.lost,
        "examples": [
            {"id": external_id, **change._asdict()} for external_id, change in sums.examples
        ],
    }


def _print_preview(name: str, preview: Preview) -> None:
    times = f", fetched {format_minute(preview.oldest)} to {format_minute(preview.newest)}"
    click.echo(f"{name}: {preview.pages:,} archived product pages{times if preview.oldest else ''}")
    click.echo(f"products: {preview.same:,} same, {preview.changed:,} changed, {preview.new:,} new")
    for reason, count in sorted(preview.left.items()):
        click.echo(f"left alone: {count:,} {reason}")
    if preview.vanished:
        ids = ", ".join(map(one_line, preview.vanished_examples))
        click.echo(
            f"no longer on their pages, and left as they are: {preview.vanished:,}, such as {ids}"
        )
    if preview.not_extracted:
        click.echo(f"pages not extracted: {preview.not_extracted:,}")
    if preview.unreadable:
        click.echo(f"pages not readable: {preview.unreadable:,}")
    for url, problem in preview.problems:
        click.echo(f"  {one_line(url)}: {one_line(problem)}")
    if preview.sums.fields:
        click.echo()
        rows = [
            _field_cells(preview, field, sums)
            for field, sums in sorted(preview.sums.fields.items())
        ]
        print_table(FIELD_COLUMNS, rows)
    if preview.shown:
        click.echo()
        print_table(["product", "field", "before", "then"], list(_change_rows(preview)))
        left = preview.to_write - len(preview.shown)
        if left:
            click.echo(f"{left:,} more products; `--show` shows more", err=True)
    for suspicion in preview.reasons:
        click.echo(f"SUSPECT: {suspicion.field}: {one_line(suspicion.text)}")


def _print_written(written: WriteResult | None) -> None:
    if written is None:
        click.echo("nothing was written", err=True)
        return
    counts = f"{written.changed:,} products changed, {written.new:,} new"
    click.echo(f"written: {counts}, as crawl {written.crawl_id}")


def _field_cells(preview: Preview, name: str, sums: FieldSums) -> list[str]:
    example = ""
    if sums.examples:
        external_id, change = sums.examples[0]
        values = f"{_value_text(change.before)} -> {_value_text(change.after)}"
        example = f"{format_cell(external_id)}: {values}"
    return [
        name,
        _share_text(sums.before, preview.sums.known),
        _share_text(sums.after, preview.sums.found),
        *(f"{count:,}" if count else "" for count in (sums.gained, sums.changed, sums.lost)),
        example,
    ]


def _change_rows(preview: Preview) -> Iterator[list[str]]:
    for product in preview.shown:
        if product.new:
            yield [format_cell(product.external_id), "", "", "new"]
        for name, change in product.fields.items():
            yield [
                format_cell(product.external_id),
                name,
                _value_text(change.before),
                _value_text(change.after),
            ]


def _value_text(value: Any) -> str:
    return "nothing" if value is None else format_cell(value)


def _share_text(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "?"
