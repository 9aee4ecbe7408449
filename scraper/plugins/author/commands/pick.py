"""`scraper sites pick`: what the tab needs to correct a field by a click: recorded pages, their
elements, and sources that read an element. Reads files alone."""

from __future__ import annotations

from typing import Any

import click

from scraper.cli.common.definitions import definition_file
from scraper.cli.common.shared import complete_site, load_settings, print_json
from scraper.domain import Kind
from scraper.errors import NotFoundError
from scraper.extract.document import Document
from scraper.plugins.author.discovery.fields.standard import TYPES
from scraper.plugins.author.discovery.trial import PATIENT, try_product
from scraper.plugins.author.picking.page_elements import list_elements
from scraper.plugins.author.picking.proposals import format_value, propose_sources
from scraper.plugins.author.repair.record_files import load_records
from scraper.plugins.author.repair.records import Record
from scraper.plugins.author.supervision import record_page, run_apart
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site


@click.command()
@click.argument("name", metavar="SITE", shell_complete=complete_site)
@click.argument("page", required=False, type=click.IntRange(1, 1000))
@click.argument("element", required=False, type=click.IntRange(0, 1_000_000))
@click.argument("field", required=False)
@run_apart
def pick(name: str, page: int | None, element: int | None, field: str | None) -> None:
    """Propose a source for FIELD from an ELEMENT of a recorded PAGE of SITE, as JSON.

    Without FIELD, prints the page's elements with their numbers; without PAGE, what the definition
    reads on each recorded product page. Needs no network and no servers.
    """
    settings = load_settings()
    path = definition_file(settings.sites_dir, name)
    records = [record for record in load_records(path) if record.kind is Kind.PRODUCT]
    if page is None:
        site = loader.load_file(path, settings.site_function_modules)
        rows = [_try_record(site, record, settings) for record in records]
        named = {*site.product.fields, *site.product.own_fields}
        more = [key for key in TYPES if key not in named]
        fields = list(site.product.fields)
        print_json({"pages": rows, "fields": fields, "more": more})
        return
    if page > len(records):
        raise NotFoundError(f"{name} has {len(records)} recorded product pages, and no page {page}")
    record = records[page - 1]
    record_page(record.asked)
    if field is None or element is None:
        document = Document(record.page, record.asked, PATIENT)
        print_json({"url": record.asked, **list_elements(document.dom)})
        return
    site = loader.load_file(path, settings.site_function_modules)
    text = path.read_text(encoding="utf-8")
    proposals = propose_sources(site, path, text, records, page - 1, element, field)
    print_json(
        {
            "urls": [row.asked for row in records],
            "proposals": [proposal._asdict() for proposal in proposals],
        }
    )


def _try_record(site: Site, record: Record, settings: Settings) -> dict[str, Any]:
    """Returns what the definition reads on a page."""
    record_page(record.asked)
    trial = try_product(site, record.page, record.asked, settings.site_function_modules)
    data = {row.name: row.value for row in trial.fields}
    shown = {name: format_value(name, data) for name in data if not name.endswith("_currency")}
    of_fields = [problem for row in trial.fields for problem in row.problems]
    return {
        "url": record.asked,
        "id": trial.external_id,
        "stored": trial.complete,
        "values": {key: value for key, value in shown.items() if value is not None},
        "problems": [*of_fields, *trial.problems],
    }
