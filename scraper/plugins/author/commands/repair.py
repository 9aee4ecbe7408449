"""`scraper repair`: fields that are read no longer, and what would read them now."""

from __future__ import annotations

import asyncio
import difflib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from scraper.cli.common.definitions import definition_file
from scraper.cli.common.shared import (
    complete_site,
    json_option,
    load_settings,
    open_engine,
    print_json,
)
from scraper.cli.common.tables import plain
from scraper.domain import Fetched, Kind
from scraper.errors import ConfigError, FetchError, NotFoundError, ScraperError, did_you_mean
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.repair import records, repairing, rewriting
from scraper.plugins.author.repair.repairing import Case, Repair
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.views import products

PAGES = 20
# So many products are looked at for each page that is wanted, where pages have several.
ITEMS_LOOKED_AT = 20


@click.command()
@click.argument("name", metavar="SITE", shell_complete=complete_site)
@click.argument("field", required=False)
@click.option(
    "--pages",
    default=PAGES,
    type=click.IntRange(repairing.PAGES_MIN, 100),
    show_default=True,
    help="So many product pages are read.",
)
@click.option("--apply", is_flag=True, help="Write what is proposed into the definition.")
@json_option()
def repair(name: str, field: str | None, pages: int, apply: bool, as_json: bool) -> None:
    """Propose what would read a field of SITE that is read no longer, with proof, as a diff.

    Reads product pages anew, politely, and looks for what gives the last known values on them:
    those of `scraper sites record`, without servers; else the products that are stored. Without
    FIELD: every field that shows the known value on less than half of the pages.
    """
    settings = load_settings()
    path = definition_file(settings.sites_dir, name)
    site = loader.load_file(path, settings.site_function_modules)
    _require_repairable(path, site, field)
    known, origin = _known(path, site, pages)
    proofs = _read(site, settings, known)
    if len(proofs.pages) < repairing.PAGES_MIN:
        raise ScraperError(
            f"{site.name}: {len(proofs.pages)} of {len(known)} product pages answered, too few "
            f"to tell a field by{': ' if proofs.failures else ''}{'; '.join(proofs.failures[:2])}"
        )
    before = path.read_text(encoding="utf-8")
    text, repairs = _proposals(path, before, site, field, proofs)
    diff = "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True), text.splitlines(keepends=True), str(path), str(path)
        )
    )
    applied = apply and bool(diff)
    if applied:
        path.write_text(text, encoding="utf-8")
    if as_json:
        print_json(
            {
                "site": site.name,
                "pages": len(proofs.pages),
                "known": origin,
                "fields": repairs,
                "diff": diff,
                "applied": applied,
            }
        )
    else:
        pages_read = f"{len(proofs.pages)} product pages read"
        click.echo(f"{site.name}: {pages_read}; values of {origin}", err=True)
        for repair in repairs:
            _show(repair)
        if diff:
            click.echo("\n" + "".join(char for char in diff if char == "\n" or char.isprintable()))
        _say_next(site, path, repairs, applied=applied)
    if not proofs.tell_items(site) and field in (None, *site.product.own_fields):
        raise ScraperError(
            f"{path}: product.items: of its known products {len(proofs.items)} are found on pages "
            "of today: their scope and id are for you to repair (fix: `scraper try URL SELECTOR` "
            "shows what a selector matches)"
        )
    if any(repair.before.right < repair.before.pages and not repair.value for repair in repairs):
        raise ScraperError(
            "for some fields nothing is certain enough (fix: `scraper try URL SELECTOR` shows "
            "what a selector matches)"
        )


@dataclass(slots=True)
class Proofs:
    """The pages as they are today, their items, and why others could not be read."""

    pages: list[Case] = field(default_factory=list)
    items: list[Case] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def tell_items(self, site: Site) -> bool:
        """Whether there are enough items to tell their fields by, or none are wanted."""
        return not site.product.own_fields or len(self.items) >= repairing.PAGES_MIN


def _require_repairable(path: Path, site: Site, field: str | None) -> None:
    if field is not None and field not in site.product.all_fields:
        raise NotFoundError(
            f"{site.name} has no field {field!r}{did_you_mean(field, site.product.all_fields)}"
        )
    if site.product.function is not None:
        raise ConfigError(f"{path}: product.function: what Python reads is for you to repair")


def _proposals(
    path: Path, before: str, site: Site, field: str | None, proofs: Proofs
) -> tuple[str, list[Repair]]:
    """The definition's text with what is proposed, and the proposals."""
    text, repairs = before, []
    for name, inner in _names(site, field):
        if inner and not proofs.tell_items(site):
            continue
        cases = proofs.items if inner else proofs.pages
        if field is None and not repairing.is_broken(site, name, cases, inner=inner):
            continue
        written = rewriting.written_field(before, name, inner=inner)
        repair = repairing.repair_field(site, name, written, cases, inner=inner)
        if repair.value is not None:
            text = rewriting.with_field(text, path, name, repair.value, inner=inner)
        repairs.append(replace(repair, name=f"items.{name}") if inner else repair)
    return text, repairs


def _names(site: Site, field: str | None) -> list[tuple[str, bool]]:
    """What may be broken; True: a field of items, which takes the place of the page's."""
    own = site.product.own_fields
    names = [(name, name in own) for name in site.product.all_fields]
    return [(name, inner) for name, inner in names if field in (None, name)]


def _show(repair: Repair) -> None:
    click.echo(f"{repair.name}: the definition gives the known value on {repair.before} pages")
    if repair.now is None or repair.old is None:
        if repair.before.right < repair.before.pages:
            click.echo("  nothing gives the known values on enough of them")
        return
    shown = f"{repair.now} pages of today"
    if repair.old.pages:
        shown += f", {repair.old} recorded ones ({repair.old.wrong} wrong)"
    word = "proposed" if repair.value else "not certain enough"
    click.echo(f"  {word}: {plain(repair.nearest)}: {shown}; confidence {repair.confidence:.2f}")


def _say_next(site: Site, path: Path, repairs: list[Repair], *, applied: bool) -> None:
    if not repairs:
        click.echo("every field shows its known values: nothing to repair")
    elif applied:
        click.echo(
            f"{path} written; next: scraper sites check {site.name}, scraper try {site.name}, "
            f"scraper sites record {site.name}"
        )
    elif any(repair.value for repair in repairs):
        click.echo(f"next: scraper repair {' '.join([site.name, *_only(repairs)])} --apply")


def _only(repairs: list[Repair]) -> list[str]:
    return [repairs[0].name.removeprefix("items.")] if len(repairs) == 1 else []


class KnownPage(NamedTuple):
    """A page by its address, what is known of its products by their ids, and the page as it was
    recorded."""

    url: str
    rows: dict[str, dict[str, Any]]
    old: Fetched | None = None


def _known(path: Path, site: Site, pages: int) -> tuple[list[KnownPage], str]:
    """The address, the last known values and the recorded page of some products, and where they are
    from."""
    if records.folder_of(path).is_dir():
        kept = [
            KnownPage(
                record.asked,
                {row["id"]: row["data"] for row in record.expected["rows"]},
                record.page,
            )
            for record in records.load(path)
            if record.kind is Kind.PRODUCT
            and (len(record.expected["rows"]) == 1 or site.product.items is not None)
        ]
        return kept[:pages], f"{records.folder_of(path)}/"
    with open_engine().connect() as connection:
        # Of a page with several products one says what is to be read of the page.
        several = ITEMS_LOOKED_AT if site.product.items is not None else 1
        rows = products.read(connection, site.name, limit=pages * several)
    stored: dict[str, KnownPage] = {}
    for row in rows:
        page = stored.setdefault(row.url, KnownPage(row.url, {}))
        page.rows[row.external_id] = json.loads(row.data)
    if not stored:
        raise NotFoundError(
            f"{site.name}: nothing is known of its products: it has neither recorded pages nor "
            f"stored products (fix: `scraper crawl {site.name}`, or `scraper sites record "
            f"{site.name}`, while it is read well)"
        )
    return list(stored.values())[:pages], "the stored products"


def _read(site: Site, settings: Settings, known: list[KnownPage]) -> Proofs:
    async def run() -> Proofs:
        proofs = Proofs()
        async with PoliteReader(site, settings) as reader:
            for url, rows, old in known:
                try:
                    page = await reader.read(url, Kind.PRODUCT)
                except FetchError as error:
                    proofs.failures.append(f"{url}: {error.outcome}: {error}")
                    continue
                proofs.pages.append(repairing.case_of(next(iter(rows.values())), url, page, old))
                if site.product.items is not None:
                    proofs.items += repairing.item_cases(site, rows, url, page, old)
        return proofs

    return asyncio.run(run())
