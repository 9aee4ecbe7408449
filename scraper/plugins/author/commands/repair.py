"""`scraper repair`: new sources for the fields that a definition no longer reads."""

from __future__ import annotations

import asyncio
import difflib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from scraper.cli.common.definitions import definition_file
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, json_option, load_settings, print_json
from scraper.cli.common.tables import one_line
from scraper.domain import Fetched, Kind
from scraper.errors import (
    ConfigError,
    FetchError,
    NotFoundError,
    ScraperError,
    did_you_mean,
    quote_command,
)
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.repair import repairing
from scraper.plugins.author.repair.cases import RepairCase, make_case, make_item_cases
from scraper.plugins.author.repair.record_files import load_records, records_folder
from scraper.plugins.author.repair.repairing import FieldRepair
from scraper.plugins.author.repair.rewriting import read_written_field, rewrite_field
from scraper.plugins.author.supervision import record_page, run_apart
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.sites.whole_files import write_whole
from scraper.views import products

PAGES = 20
# For each wanted page with several products, this many stored products are read.
ITEMS_LOOKED_AT = 20


@click.command()
@click.argument("name", metavar="SITE", shell_complete=complete_site)
@click.argument("field", required=False)
@click.option(
    "--pages",
    default=PAGES,
    type=click.IntRange(repairing.PAGES_MIN, 100),
    show_default=True,
    help="Number of product pages to read.",
)
@click.option("--apply", is_flag=True, help="Write the proposals into the definition.")
@json_option()
@run_apart
def repair(name: str, field: str | None, pages: int, apply: bool, as_json: bool) -> None:
    """Propose new sources for fields that SITE no longer shows.

    Prints a diff, and its proof. Reads product pages politely, and searches them for the last
    known values: those of `scraper sites record`, without servers, or else those of the stored
    products. Without FIELD, repairs every field that shows its known value on less than half of
    the pages.
    """
    settings = load_settings()
    path = definition_file(settings.sites_dir, name)
    site = loader.load_file(path, settings.site_function_modules)
    _require_repairable(path, site, field)
    known_pages, origin = _load_known_pages(path, site, pages)
    read = _read_pages(site, settings, known_pages)
    if len(read.pages) < repairing.PAGES_MIN:
        raise ScraperError(
            f"{site.name}: {len(read.pages)} of {len(known_pages)} product pages could be read, "
            "too few to prove a source"
            f"{': ' if read.failures else ''}{'; '.join(read.failures[:2])}"
        )
    proposal = _propose_repairs(path, path.read_bytes().decode("utf-8"), site, field, read)
    if apply and proposal.diff:
        write_whole(path, proposal.text)
    proposal.show(path, read, origin, applied=apply and bool(proposal.diff), as_json=as_json)
    _require_all_repaired(path, site, field, read, proposal.repairs)


@dataclass(slots=True)
class RepairPages:
    """The product pages of today, their items, and why other pages could not be read."""

    pages: list[RepairCase] = field(default_factory=list)
    items: list[RepairCase] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def has_enough_items(self, site: Site) -> bool:
        """Returns whether the items prove the sources of their fields, if they have any."""
        return not site.product.own_fields or len(self.items) >= repairing.PAGES_MIN


@dataclass(frozen=True, slots=True)
class RepairProposal:
    """The repaired fields, and the definition's text with them."""

    site: str
    text: str
    diff: str
    repairs: list[FieldRepair]

    def show(
        self, path: Path, read: RepairPages, origin: str, *, applied: bool, as_json: bool
    ) -> None:
        if as_json:
            print_json(
                {
                    "site": self.site,
                    "pages": len(read.pages),
                    "known": origin,
                    "fields": self.repairs,
                    "diff": self.diff,
                    "text": self.text,
                    "applied": applied,
                }
            )
            return
        click.echo(
            f"{self.site}: {len(read.pages)} product pages read; known values from {origin}",
            err=True,
        )
        for repair in self.repairs:
            _show_repair(repair)
        if self.diff:
            printable = (char for char in self.diff if char == "\n" or char.isprintable())
            click.echo("\n" + "".join(printable))
        _show_next_step(self.site, path, self.repairs, applied=applied)


def _require_all_repaired(
    path: Path, site: Site, field: str | None, read: RepairPages, repairs: list[FieldRepair]
) -> None:
    """Raises `ScraperError` if items or fields are left to repair by hand."""
    if not read.has_enough_items(site) and field in (None, *site.product.own_fields):
        raise ScraperError(
            f"{path}: product.items: only {len(read.items)} of the known products are on pages of "
            "today (fix: repair the scope and id of items by hand; `scraper try URL SELECTOR` "
            "shows what a selector matches)"
        )
    if any(repair.before.right < repair.before.pages and not repair.value for repair in repairs):
        raise ScraperError(
            "for some fields nothing is certain enough (fix: `scraper try URL SELECTOR` shows "
            "what a selector matches)"
        )


def _require_repairable(path: Path, site: Site, field: str | None) -> None:
    if field is not None and field not in site.product.all_fields:
        raise NotFoundError(
            f"{site.name} has no field {field!r}{did_you_mean(field, site.product.all_fields)}"
        )
    if site.product.function is not None:
        raise ConfigError(
            f"{path}: product.function: fields that a function reads cannot be repaired (fix: "
            "change the function)"
        )


def _propose_repairs(
    path: Path, before: str, site: Site, field: str | None, read: RepairPages
) -> RepairProposal:
    text, repairs = before, []
    for name, inner in _list_fields(site, field):
        if inner and not read.has_enough_items(site):
            continue
        record_page(f"{site.name}, field {name}")
        cases = read.items if inner else read.pages
        if field is None and not repairing.is_broken(site, name, cases, inner=inner):
            continue
        written = read_written_field(before, name, inner=inner)
        repair = repairing.repair_field(site, name, written, cases, inner=inner)
        if repair.value is not None:
            text = rewrite_field(text, path, name, repair.value, inner=inner)
        repairs.append(replace(repair, name=f"items.{name}") if inner else repair)
    if "\r\n" in before and "\n" not in before.replace("\r\n", ""):
        # What was added also has the newlines of the other lines.
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    lines, new_lines = (version.splitlines(keepends=True) for version in (before, text))
    diff = "".join(difflib.unified_diff(lines, new_lines, str(path), str(path)))
    return RepairProposal(site.name, text, diff, repairs)


def _list_fields(site: Site, field: str | None) -> list[tuple[str, bool]]:
    """Returns the fields to check; True: a field of items, which replaces the page's."""
    own = site.product.own_fields
    names = [(name, name in own) for name in site.product.all_fields]
    return [(name, inner) for name, inner in names if field in (None, name)]


def _show_repair(repair: FieldRepair) -> None:
    click.echo(f"{repair.name}: the definition gives the known value on {repair.before} pages")
    if repair.now is None or repair.old is None:
        if repair.before.right < repair.before.pages:
            click.echo("  no source gives the known values on enough pages")
        return
    shown = f"{repair.now} pages of today"
    if repair.old.pages:
        shown += f", {repair.old} recorded pages ({repair.old.wrong} wrong)"
    word = "proposed" if repair.value else "not certain enough"
    click.echo(f"  {word}: {one_line(repair.nearest)}: {shown}; confidence {repair.confidence:.2f}")


def _show_next_step(site: str, path: Path, repairs: list[FieldRepair], *, applied: bool) -> None:
    if not repairs:
        click.echo("every field shows its known values: nothing to repair")
    elif applied:
        click.echo(
            f"{path} written; next: {quote_command('scraper sites check', site)}, "
            f"{quote_command('scraper try', site)}, {quote_command('scraper sites record', site)}"
        )
    elif any(repair.value for repair in repairs):
        names = [repairs[0].name.removeprefix("items.")] if len(repairs) == 1 else []
        click.echo(f"next: {quote_command('scraper repair', site, *names, '--apply')}")


class KnownPage(NamedTuple):
    """A page's URL, the last known data of its products by their ids, and the recorded page."""

    url: str
    rows: dict[str, dict[str, Any]]
    old: Fetched | None = None


def _load_known_pages(path: Path, site: Site, pages: int) -> tuple[list[KnownPage], str]:
    """Returns pages with known values, and where the values are from: records if there are any,
    else the stored products."""
    if records_folder(path).is_dir():
        recorded = [
            KnownPage(
                record.asked,
                {row["id"]: row["data"] for row in record.expected["rows"]},
                record.page,
            )
            for record in load_records(path)
            if record.kind is Kind.PRODUCT
            and (len(record.expected["rows"]) == 1 or site.product.items is not None)
        ]
        return recorded[:pages], f"{records_folder(path)}/"
    with open_engine().connect() as connection:
        # A page with several products proves the page's fields by one of them.
        several = ITEMS_LOOKED_AT if site.product.items is not None else 1
        rows = products.read(connection, site.name, limit=pages * several)
    stored: dict[str, KnownPage] = {}
    for row in rows:
        page = stored.setdefault(row.url, KnownPage(row.url, {}))
        page.rows[row.external_id] = json.loads(row.data)
    if not stored:
        raise NotFoundError(
            f"{site.name}: no values are known: the site has neither recorded pages nor stored "
            f"products (fix: `{quote_command('scraper crawl', site.name)}` or "
            f"`{quote_command('scraper sites record', site.name)}`, "
            "while its definition still reads it)"
        )
    return list(stored.values())[:pages], "the stored products"


def _read_pages(site: Site, settings: Settings, known_pages: list[KnownPage]) -> RepairPages:
    async def run() -> RepairPages:
        read = RepairPages()
        async with PoliteReader(site, settings) as reader:
            for url, rows, old in known_pages:
                try:
                    page = await reader.read(url, Kind.PRODUCT)
                except FetchError as error:
                    read.failures.append(f"{url}: {error.outcome}: {error}")
                    continue
                read.pages.append(make_case(next(iter(rows.values())), url, page, old))
                if site.product.items is not None:
                    read.items += make_item_cases(site, rows, url, page, old)
        return read

    return asyncio.run(run())
