"""`scraper reextract`: the definition and the pages that are meant, what would change in words and
as JSON, and the question before it is written.

All that a shop sent is shown without control characters.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import sqlalchemy as sa

from scraper.actions import crawls
from scraper.errors import NotFoundError, ScraperError, SuspectError
from scraper.frontier import sites
from scraper.infra.tables import cell, plain, print_table
from scraper.reextract.differences import Change, FieldSums
from scraper.reextract.run import (
    Outlook,
    Reextraction,
    Tick,
    Written,
)
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.sites.grammar.scalars import seconds

NO_PAGES = "no archived pages"


def when(text: str, now: datetime) -> datetime:
    """A date or time in ISO 8601 (UTC unless it says otherwise), or how long ago: `7d`. ValueError
    says what it should be."""
    if re.match(r"\d{4}-", text.strip()):
        try:
            at = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ValueError(
                f"{text!r} is no date (mend: as in 2026-11-20 or 2026-11-20T18:00)"
            ) from None
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    return now - timedelta(seconds=seconds(text))


def today(engine: sa.Engine, settings: Settings, name: str) -> tuple[int, Site, bool]:
    """The site's id, its definition of today, and whether that is from sites/ (else the stored
    one)."""
    with engine.connect() as connection:
        found = sites.find(connection, name)
    if found is None:
        raise NotFoundError(
            f"there is no site named {name!r} in the database; `scraper status` shows those crawled"
        )
    from_file = crawls.from_files(settings, name)
    return found[0], from_file or found[1], from_file is not None


def take_over(engine: sa.Engine, site: Site) -> None:
    """Crawls from now on run by the definition that products are written by."""
    with engine.begin() as connection:
        sites.sync(connection, [site])


@contextmanager
def progress(label: str) -> Iterator[Tick]:
    """A bar on stderr, where that is a terminal."""
    bars: list[Any] = []

    def tick(done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        if not bars:
            bars.append(
                click.progressbar(
                    length=total,
                    label=label,
                    file=sys.stderr,
                    update_min_steps=max(1, total // 200),
                )
            )
            bars[0].__enter__()
        bars[0].update(done - bars[0].pos)

    try:
        yield tick
    finally:
        for bar in bars:
            bar.__exit__(None, None, None)


def refuse_unless_usual(outlook: Outlook, *, accept: bool) -> None:
    """Raises `SuspectError` where a crawl with this outcome would be suspect, and nobody has said
    to take it all the same."""
    if outlook.reasons and not accept:
        reasons = "\n".join(f"  {reason.field}: {reason.text}" for reason in outlook.reasons)
        raise SuspectError(
            f"not written, for a crawl with this outcome would be suspect:\n{reasons}\nmend the definition; or, if this is "
            "what you want, add --accept"
        )


def refuse_nothing(outlook: Outlook, name: str) -> None:
    if not outlook.pages:
        raise ScraperError(
            f"{NO_PAGES} of products of {name}: `archive: true` in its definition keeps them from the next crawl on; "
            "`scraper archive list` shows what there is"
        )


def confirmed(outlook: Outlook, *, yes: bool) -> bool:
    if yes or not sys.stdin.isatty():
        return True
    return click.confirm(
        f"write {outlook.changed:,} changed and {outlook.new:,} new products?", err=True
    )


def as_json(name: str, outlook: Outlook, written: Written | None) -> dict[str, Any]:
    return {
        "site": name,
        "pages": outlook.pages,
        "oldest": outlook.oldest.isoformat() if outlook.oldest else None,
        "newest": outlook.newest.isoformat() if outlook.newest else None,
        "unreadable": outlook.unreadable,
        "not_extracted": outlook.not_extracted,
        "problems": [{"url": url, "problem": problem} for url, problem in outlook.problems],
        "products": {
            "same": outlook.same,
            "changed": outlook.changed,
            "new": outlook.new,
            "vanished": outlook.vanished,
            "left_alone": dict(outlook.left),
        },
        "vanished_examples": outlook.vanished_examples,
        "fields": {
            field: _field_json(outlook, sums) for field, sums in sorted(outlook.sums.fields.items())
        },
        "changes": [
            {
                "id": one.external_id,
                "url": one.url,
                "new": one.new,
                "fields": {field: _change_json(change) for field, change in one.fields.items()},
            }
            for one in outlook.shown
        ],
        "reasons": [asdict(reason) for reason in outlook.reasons],
        "written": asdict(written) if written else None,
    }


def _field_json(outlook: Outlook, sums: FieldSums) -> dict[str, Any]:
    return {
        "fill_before": sums.before / outlook.sums.known if outlook.sums.known else None,
        "fill_after": sums.after / outlook.sums.found if outlook.sums.found else None,
        "gained": sums.gained,
        "changed": sums.changed,
        "lost": sums.lost,
        "examples": [
            {"id": external_id, **_change_json(change)} for external_id, change in sums.examples
        ],
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {"before": change.before, "after": change.after}


def print_outlook(name: str, outlook: Outlook) -> None:
    span = f", fetched {_time(outlook.oldest)} to {_time(outlook.newest)}" if outlook.oldest else ""
    click.echo(f"{name}: {outlook.pages:,} archived product pages{span}")
    counts = [("same", outlook.same), ("changed", outlook.changed), ("new", outlook.new)]
    click.echo("products: " + ", ".join(f"{count:,} {what}" for what, count in counts))
    for reason, count in sorted(outlook.left.items()):
        click.echo(f"left alone: {count:,} {reason}")
    if outlook.vanished:
        ids = ", ".join(plain(one) for one in outlook.vanished_examples)
        click.echo(
            f"not found on their pages, and left as they are: {outlook.vanished:,}, such as {ids}"
        )
    for what, count in (
        ("not extracted", outlook.not_extracted),
        ("not readable", outlook.unreadable),
    ):
        if count:
            click.echo(f"pages {what}: {count:,}")
    for url, problem in outlook.problems:
        click.echo(f"  {plain(url)}: {plain(problem)}")
    if outlook.sums.fields:
        click.echo()
        rows = [_row(outlook, field, sums) for field, sums in sorted(outlook.sums.fields.items())]
        print_table(["field", "fill", "then", "gained", "changed", "lost", "such as"], rows)
    if outlook.shown:
        click.echo()
        print_table(["product", "field", "before", "then"], list(_changes(outlook)))
        left = outlook.to_write - len(outlook.shown)
        if left:
            click.echo(f"and {left:,} products more; `--show` shows more", err=True)
    for suspicion in outlook.reasons:
        click.echo(f"SUSPECT: {suspicion.field}: {plain(suspicion.text)}")


def _row(outlook: Outlook, name: str, sums: FieldSums) -> list[str]:
    such = ""
    if sums.examples:
        external_id, change = sums.examples[0]
        such = f"{cell(external_id)}: {_value(change.before)} -> {_value(change.after)}"
    return [
        name,
        _share(sums.before, outlook.sums.known),
        _share(sums.after, outlook.sums.found),
        *(f"{count:,}" if count else "" for count in (sums.gained, sums.changed, sums.lost)),
        such,
    ]


def _changes(outlook: Outlook) -> Iterator[list[str]]:
    for one in outlook.shown:
        if one.new:
            yield [cell(one.external_id), "", "", "new"]
        for name, change in one.fields.items():
            yield [cell(one.external_id), name, _value(change.before), _value(change.after)]


def _value(value: Any) -> str:
    return "nothing" if value is None else cell(value)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "?"


def _time(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M") if at else ""


def print_written(written: Written) -> None:
    click.echo(
        f"written: {written.changed:,} products changed, {written.new:,} new, as crawl {written.crawl_id}"
    )


def run(
    engine: sa.Engine,
    settings: Settings,
    name: str,
    *,
    since: datetime | None,
    limit: int | None,
    show: int,
    diff: bool,
    accept: bool,
    yes: bool,
    told: Any = None,
) -> None:
    """All of it. `told` takes the JSON where that is wanted, before anything is refused."""
    site_id, site, from_file = today(engine, settings, name)
    with Reextraction(engine, settings, site) as extraction:
        with progress("reading") as tick:
            outlook = extraction.read(site_id, since=since, limit=limit, show=show, tick=tick)
        refuse_nothing(outlook, name)
        if told is None:
            print_outlook(name, outlook)
        written = None
        may_write = not diff and not (outlook.reasons and not accept) and outlook.to_write > 0
        if may_write and confirmed(outlook, yes=yes):
            if from_file:
                take_over(engine, site)
            with progress("writing") as tick:
                written = extraction.write(site_id, tick)
        if told is not None:
            told(as_json(name, outlook, written))
        elif written is not None:
            print_written(written)
        else:
            click.echo("nothing was written", err=True)
        if not diff:
            refuse_unless_usual(outlook, accept=accept)
