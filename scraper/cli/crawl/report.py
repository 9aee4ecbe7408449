"""A crawl's report as people read it: the table of its fields, why it is suspect, and where to
look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import sqlalchemy as sa

from scraper.domain import CrawlStatus
from scraper.errors import ConfigError, ScraperError, SuspectError
from scraper.infra.database import retried
from scraper.infra.tables import plain, print_table
from scraper.quality import notify
from scraper.quality import report as reports
from scraper.quality.notify import Notice
from scraper.quality.report import FieldReport, Report
from scraper.settings import Settings, readable_by_all
from scraper.settle import crawl_quality

EXCERPT_CHARS = 500
as_json = reports.as_json


def crawl_id(engine: sa.Engine, word: str) -> int:
    """The crawl that an id or a site's name means."""
    if word.isascii() and word.isdecimal() and len(word) < 19:
        return int(word)
    with engine.connect() as connection:
        return reports.newest(connection, word)


def read(engine: sa.Engine, crawl: int) -> Report:
    with engine.connect() as connection:
        return reports.read(connection, crawl)


def accept(engine: sa.Engine, crawl: int) -> None:
    """Takes a crawl as the new usual. One that was accepted before stays so."""

    def work() -> bool:
        with engine.begin() as connection:
            return crawl_quality.accept(connection, crawl)

    if retried(work):
        click.echo(
            f"crawl {crawl} is the new usual; what came before is not compared with any more",
            err=True,
        )
        return
    found = read(engine, crawl)
    if found.judged_at is None:
        raise ScraperError(
            f"crawl {crawl} of {found.site} is {found.status}: only one that has ended and was judged can be accepted"
        )
    click.echo(f"crawl {crawl} was accepted before", err=True)


def print_report(report: Report) -> None:
    click.echo(f"{report.site}: crawl {report.crawl_id}, {report.status}: {_verdict(report)}")
    click.echo(f"products: {report.products_phrase}")
    if report.products and report.records < report.products:
        click.echo(
            f"read: {report.records:,} product pages; the others were fresh, or answered 304"
        )
    if report.note:
        click.echo(f"note: {plain(report.note)}")
    if report.fields:
        click.echo()
        columns = [
            "field",
            "fill",
            "usual",
            "floor",
            "mistyped",
            "distinct",
            "usual",
            "kept",
            "verdict",
        ]
        print_table(columns, [_row(one) for one in report.fields])
    for reason in report.reasons:
        _print_reason(report, reason)
    if report.suspect:
        click.echo(
            "\nNothing was delisted, and values that vanished were kept. Mend the definition and crawl again; or, if the "
            f"shop has changed for good:\n  scraper report {report.crawl_id} --accept"
        )


def _verdict(report: Report) -> str:
    if report.suspect:
        return f"SUSPECT, {len(report.reasons)} reason{'s' if len(report.reasons) != 1 else ''}"
    if report.accepted_at is not None:
        return "accepted as the new usual"
    if report.judged_at is None:
        return "not judged yet"
    if all(one.usual_fill is None for one in report.fields):
        return "nothing to compare with yet"
    return "as usual" if not report.reasons else "a replay, which is not judged"


def _row(one: FieldReport) -> list[str]:
    usual = "?" if one.usual_fill is None else f"{one.usual_fill:.1%}"
    fill = "" if one.fill is None else f"{one.fill:.1%}"
    distinct = f"{one.distinct:,}" if one.sampled else ""
    return [
        one.field,
        fill,
        usual,
        f"{one.line:.1%}" if one.line else "",
        f"{one.mistyped:,}" if one.mistyped else "",
        distinct,
        f"{one.usual_distinct:,.0f}" if one.usual_distinct else "",
        f"{one.kept:,}" if one.kept else "",
        one.breach or ("values are kept for now" if one.guarded else "ok"),
    ]


def _print_reason(report: Report, reason: dict[str, Any]) -> None:
    name = reason["field"]
    click.echo(f"\n{name or 'products'}: {plain(reason['text'])}")
    if name is None:
        return
    selector = report.selector(name)
    if selector:
        click.echo(f"  selector: {plain(selector)}")
    for example in report.examples.get(name, []):
        known = f" (the product has {plain(example['known'])!r})" if example["known"] else ""
        click.echo(f"  page: {plain(example['url'])}: {plain(example['problem'])}{known}")
    excerpts = [
        example["excerpt"] for example in report.examples.get(name, []) if example["excerpt"]
    ]
    if excerpts:
        click.echo(f"  excerpt: {plain(excerpts[0])[:EXCERPT_CHARS]}")


def refuse(report: Report) -> None:
    """Raises `SuspectError` where the crawl is."""
    if report.suspect:
        raise SuspectError(f"crawl {report.crawl_id} of {report.site} is suspect")


def test_alerts(settings: Settings) -> list[dict[str, Any]]:
    """Tells everybody on the list that this is a test. Raises `ConfigError` where there is no list,
    or a wrong one."""
    if settings.alerts is None:
        raise ConfigError(
            "nobody is told of anything: SCRAPER_ALERTS names no file (docs/operations.md, Alerts)"
        )
    everybody = notify.recipients(settings.alerts)
    if readable_by_all(settings.alerts):
        click.echo(
            f"{settings.alerts} can be read by every user of this machine (mend: chmod 600)",
            err=True,
        )
    details: dict[str, Any] = {
        "crawl": None,
        "site": None,
        "status": CrawlStatus.COMPLETED,
        "suspect": False,
        "reasons": [],
    }
    told = notify.send(
        Notice("scraper: a test", "Alerts of suspect and failed crawls come here.", details, False),
        everybody,
    )
    return [{"line": one.line, "kind": one.kind, "told": one in told} for one in everybody]


def print_tested(done: Sequence[dict[str, Any]]) -> None:
    rows = [
        [str(one["line"]), one["kind"], "told" if one["told"] else "not reached"] for one in done
    ]
    print_table(["line", "kind", "result"], rows)


def refuse_untold(done: Sequence[dict[str, Any]]) -> None:
    if not done:
        raise ConfigError("the file that SCRAPER_ALERTS names holds no address")
    untold = sum(not one["told"] for one in done)
    if untold:
        raise ScraperError(f"{untold} of {len(done)} recipients were not reached")
