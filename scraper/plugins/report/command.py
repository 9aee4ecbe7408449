"""`scraper report`: whether a crawl's data can be trusted, and if not, why and where to look."""

from __future__ import annotations

import sys
from typing import Any

import click

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import json_option, print_json
from scraper.cli.common.tables import one_line, print_table
from scraper.domain import CrawlStatus
from scraper.errors import CrawlFailedError, SuspectError, quote_command
from scraper.quality import report as reports
from scraper.quality.report import FieldReport, Report
from scraper.rules.quality import is_rare

EXCERPT_CHARS = 500
SELDOM_FOUND = "seldom found: is its selector right?"
COLUMNS = [
    "field",
    "fill",
    "usual",
    "floor",
    "mistyped",
    "distinct",
    "usual",
    "changed",
    "held",
    "verdict",
]


@click.command()
@click.argument("crawl", metavar="CRAWL")
@json_option()
def report(crawl: str, as_json: bool) -> None:
    """Show each field's fill rate in CRAWL, and the usual rate.

    CRAWL is an id, or a site for its newest one. For a suspect crawl, show the reasons with
    selectors, pages and excerpts. Exits with 5 if the crawl is suspect, and with 4 if it
    failed.
    """
    engine = open_engine()
    with engine.connect() as connection:
        quality = reports.read_report(connection, reports.resolve_crawl(connection, crawl))
    if as_json:
        print_json(reports.as_json(quality))
    else:
        _print_report(quality)
    if quality.suspect:
        raise SuspectError(f"crawl {quality.crawl_id} of {quality.site} is suspect")
    if quality.status == CrawlStatus.FAILED:
        raise CrawlFailedError(f"crawl {quality.crawl_id} of {quality.site} failed")


def _print_share_read(report: Report) -> None:
    if report.coverage is not None:
        click.echo(f"found: {one_line(str(report.coverage))}")
    if 0 < report.fresh == report.product_done:
        click.echo(f"read: 0 prices read, {report.fresh:,} not due (`revisit`)")
    elif report.products and report.records < report.products:
        click.echo(f"read: {report.records:,} product pages; the others were fresh, or not changed")


def _print_report(report: Report) -> None:
    click.echo(f"{report.site}: crawl {report.crawl_id}, {report.status}: {_crawl_verdict(report)}")
    for line in report.answers if report.suspect and report.suspicions else ():
        click.echo(one_line(line))
    click.echo(f"products: {report.products_phrase}")
    _print_share_read(report)
    if report.note and not any(report.note in reason["text"] for reason in report.reasons):
        click.echo(f"note: {one_line(report.note)}")
    for reason in report.reasons:
        _print_reason(report, reason)
    if report.fields:
        click.echo()
        ended_well = report.status != CrawlStatus.FAILED
        _print_fields([_field_cells(field, ended_well) for field in report.fields])
    for text in report.contradictions:
        click.echo(f"\n{one_line(text)}")
    for field in report.fields:
        if _is_seldom(field):
            click.echo(f"\n{field.field}: {SELDOM_FOUND} it is not on")
            for example in report.examples.get(field.field, []):
                click.echo(f"  page: {one_line(example['url'])}: {one_line(example['problem'])}")
    if report.held:
        click.echo("\nheld until the next crawl reads the same:")
    for held in report.held:
        if held.field is None:
            click.echo(f"  {held.number:,} new products: {held.why}")
            click.echo(f"    page: {one_line(held.url)}")
            continue
        click.echo(f"  {held.field}: {held.number:,} values: {held.why}")
        known, value = (
            one_line(held.known or "nothing"),
            one_line(held.value or "nothing"),
        )
        click.echo(f"    page: {one_line(held.url)}: {value!r} (the product has {known!r})")
    if report.suspect:
        click.echo(
            f"\n{_make_advice(report)}; or, if the shop has changed for good:\n"
            f"  scraper accept {report.crawl_id}"
        )


def _make_advice(report: Report) -> str:
    if report.block:
        return f"What these pages show {report.block}"
    return f"Fix the definition and crawl again{_repair_hint(report)}"


def _repair_hint(report: Report) -> str:
    """Returns the commands that search new sources for the suspect fields."""
    fields = dict.fromkeys(reason["field"] for reason in report.reasons if reason["field"])
    if not fields:
        return ""
    commands = (quote_command("scraper repair", report.site, name) for name in fields)
    return " (" + ", ".join(f"`{command}`" for command in commands) + " looks)"


def _crawl_verdict(report: Report) -> str:
    if report.status == CrawlStatus.FAILED and not report.suspect:
        return "not to be trusted"
    if report.suspect:
        return f"SUSPECT, reasons: {len(report.suspicions)}"
    if report.accepted_at is not None:
        return "accepted as the new usual"
    if report.judged_at is None:
        return "not judged yet"
    if all(field.usual_fill is None for field in report.fields):
        return "nothing to compare with yet"
    return "as usual" if not report.suspicions else "a replay, which is not judged"


def _print_fields(cells: list[list[str]]) -> None:
    """Prints the fields; on a terminal without empty columns, to leave room for the verdict."""
    shown = [
        index
        for index in range(len(COLUMNS))
        if not sys.stdout.isatty() or any(row[index] for row in cells)
    ]
    print_table([COLUMNS[i] for i in shown], [[row[i] for i in shown] for row in cells])


def _field_cells(field: FieldReport, ended_well: bool) -> list[str]:
    return [
        field.field,
        "" if field.fill is None else f"{field.fill:.1%}",
        "?" if field.usual_fill is None else f"{field.usual_fill:.1%}",
        f"{field.line:.1%}" if field.line else "",
        f"{field.mistyped:,}" if field.mistyped else "",
        f"{field.distinct:,}" if field.sampled else "",
        f"{field.usual_distinct:,.0f}" if field.usual_distinct else "",
        f"{field.changed:,}" if field.changed else "",
        f"{field.held:,}" if field.held else "",
        _field_verdict(field, ended_well),
    ]


def _field_verdict(field: FieldReport, ended_well: bool) -> str:
    if field.breach:
        return field.breach
    if _is_seldom(field):
        return SELDOM_FOUND
    return "ok" if ended_well else "read of too few pages"


def _is_seldom(field: FieldReport) -> bool:
    return not field.breach and is_rare(field.usual_fill, field.fill)


def _print_reason(report: Report, reason: dict[str, Any]) -> None:
    name = reason["field"]
    level = "notice: " if reason.get("level") == "notice" else ""
    click.echo(f"\n{level}{name or 'products'}: {one_line(reason['text'])}")
    if name is None:
        return
    selector, examples = report.selector(name), report.examples.get(name, [])
    if selector:
        click.echo(f"  selector: {one_line(selector)}")
    for example in examples:
        stored = f" (the product has {one_line(example['known'])!r})" if example["known"] else ""
        click.echo(f"  page: {one_line(example['url'])}: {one_line(example['problem'])}{stored}")
    excerpt = next((example["excerpt"] for example in examples if example["excerpt"]), None)
    if excerpt:
        click.echo(f"  excerpt: {one_line(excerpt)[:EXCERPT_CHARS]}")
