"""`scraper why`: where a stored value comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from scraper.cli.common.definitions import page_errors
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, json_option, load_settings, print_json
from scraper.cli.common.tables import format_cell, format_local_time, one_line, print_table
from scraper.domain import Fetched, Kind
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.trial import FieldTrial, PageTrial, try_product
from scraper.registry import find_service
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.views import provenance
from scraper.views.provenance import ArchivedPages, HeldBack, Origin, Provenance


@click.command()
@click.argument("site", shell_complete=complete_site)
@click.argument("product_id", metavar="ID")
@click.argument("field", required=False)
@click.option("--fetch", is_flag=True, help="Read the live page instead of the archived one.")
@json_option()
def why(site: str, product_id: str, field: str | None, fetch: bool, as_json: bool) -> None:
    """Show where the values of a product of SITE come from.

    All, or FIELD: since when, from which crawl, definition and source, what other sources of the
    page say, and which values are held."""
    settings = load_settings()
    with open_engine().connect() as connection:
        found = provenance.read(connection, site, product_id, field)
    page = (
        _fetched(found, settings, product_id)
        if fetch
        else _try_archived_page(found.archived, settings, product_id)
    )
    trials = {trial.name: trial for trial in page.fields} if page else {}
    if as_json:
        print_json(_as_json(site, product_id, found, page, trials, fetch))
        return
    click.echo(f"{one_line(found.url)}, last read {format_local_time(found.fetched_at)}")
    click.echo(_where(found, page, fetch))
    columns = ("field", "value", "since", "crawl", "definition", "source", "others say", "held")
    print_table(columns, [_row(origin, found.site, trials) for origin in found.origins])


def _try_archived_page(
    row: Mapping[str, Any] | None, settings: Settings, product_id: str
) -> PageTrial | None:
    """Reads the archived page by the definition of its own crawl."""
    archive = find_service(ArchivedPages)  # type: ignore[type-abstract]
    if row is None or archive is None:
        return None
    page = archive.read_page(row, settings.body_max_bytes)
    if page.fetched is None:
        click.echo(f"its archived page cannot be read: {one_line(page.problem)}", err=True)
        return None
    site = Site.model_validate(row["definition"])
    return try_product(
        site, page.fetched, page.page_url, settings.site_function_modules, product_id
    )


def _fetched(found: Provenance, settings: Settings, product_id: str) -> PageTrial:
    """The page as it is now, as the definition of today reads it."""

    async def read() -> Fetched:
        async with PoliteReader(found.site, settings) as pages:
            return await pages.read(found.url, Kind.PRODUCT)

    with page_errors(found.url):
        page = asyncio.run(read())
    return try_product(found.site, page, found.url, settings.site_function_modules, product_id)


def _where(found: Provenance, page: PageTrial | None, fetch: bool) -> str:
    if fetch:
        return "sources: by the page as it is now, read by the definition of today"
    if page is None or found.archived is None:
        return "sources: all that may have given it (`--fetch` reads the page, and says which does)"
    row = found.archived
    return (
        f"sources: by the page as archived {format_local_time(row['fetched_at'])}, "
        f"crawl {row['crawl_id']} "
        f"({one_line(row['key'])}, bytes {row['start']:,} to {row['start'] + row['size']:,})"
    )


def _row(origin: Origin, site: Site, trials: Mapping[str, FieldTrial]) -> list[str]:
    trial = trials.get(origin.field)
    rivals = trial.rivals if trial else ()
    return [
        origin.field,
        format_cell(origin.value),
        format_local_time(origin.since),
        str(origin.crawl or ""),
        origin.definition or "",
        trial.source if trial else " or ".join(provenance.list_sources(site, origin.field)),
        ", ".join(f"{rival.source}: {format_cell(rival.value)}" for rival in rivals),
        _held(origin.held),
    ]


def _held(held: HeldBack | None) -> str:
    if held is None:
        return ""
    value = ", ".join(format_cell(part) for part in held.value.values()) or "nothing"
    return one_line(f"{value} (crawl {held.crawl}: {held.why})")


def _as_json(
    site: str,
    product_id: str,
    found: Provenance,
    page: PageTrial | None,
    trials: Mapping[str, FieldTrial],
    fetch: bool,
) -> dict[str, Any]:
    row = found.archived
    names = ("crawl_id", "place", "key", "start", "size", "fetched_at")
    return {
        "site": site,
        "id": product_id,
        "url": found.url,
        "fetched_at": found.fetched_at,
        "delisted_at": found.delisted_at,
        "archived": row and {name: row[name] for name in names},
        "read": "now" if fetch else "archive" if page else None,
        "fields": [
            {
                **asdict(origin),
                "sources": provenance.list_sources(found.site, origin.field),
                "source": trial.source if trial else None,
                "rivals": trial.rivals if trial else [],
            }
            for origin in found.origins
            for trial in [trials.get(origin.field)]
        ],
    }
