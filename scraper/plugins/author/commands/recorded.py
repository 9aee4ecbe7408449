"""`scraper sites record` and `scraper sites test`: recorded pages of a site, read again offline."""

from __future__ import annotations

import click

from scraper.cli.common.definitions import definition_file, page_errors
from scraper.cli.common.shared import complete_site, json_option, load_settings, print_json
from scraper.cli.common.tables import format_cell, one_line, print_table
from scraper.domain import Kind
from scraper.errors import NotFoundError, ScraperError, quote_command
from scraper.plugins.author.repair.record_checks import RecordDifference, check_sites
from scraper.plugins.author.repair.record_files import INDEX, records_folder, save_records
from scraper.plugins.author.repair.recording import record_site
from scraper.plugins.author.supervision import run_apart
from scraper.sites import loader

PAGES = 20


@click.command()
@click.argument("name", metavar="SITE", shell_complete=complete_site)
@click.option(
    "--pages",
    default=PAGES,
    type=click.IntRange(2, 200),
    show_default=True,
    help="Number of pages to record.",
)
@json_option()
@run_apart
def record(name: str, pages: int, as_json: bool) -> None:
    """Record pages of SITE, and what its definition gives on them, for `scraper sites test`.

    Records listings and products in sites/NAME.pages/, and replaces earlier records. Obeys
    robots.txt and the rate; needs no servers. Records neither cookies nor secrets in settings.
    """
    settings = load_settings()
    path = definition_file(settings.sites_dir, name)
    site = loader.load_file(path, settings.site_function_modules)
    with page_errors(site.name):
        recorded, requests = record_site(site, settings, pages)
    folder = save_records(path, recorded)
    products = sum(page.kind is Kind.PRODUCT for page in recorded)
    if as_json:
        print_json({"folder": str(folder), "pages": len(recorded), "products": products})
        return
    click.echo(
        f"{len(recorded)} pages, {products} of products, recorded in {folder}/ by {requests} "
        f"requests; next: check {folder / INDEX}, commit the folder, and run "
        f"`{quote_command('scraper sites test', site.name)}`"
    )


@click.command()
@click.argument("names", metavar="[SITES]...", nargs=-1, shell_complete=complete_site)
@click.option("--update", is_flag=True, help="Record today's values as the expected ones.")
@json_option()
@run_apart
def test(names: tuple[str, ...], update: bool, as_json: bool) -> None:
    """Read the recorded pages with today's definitions, and show every field that differs.

    Without SITES, reads all sites with recorded pages. Needs neither servers nor the network. Exits
    with 1 if something differs.
    """
    settings = load_settings()
    folder = settings.sites_dir
    paths = [definition_file(folder, name) for name in names] or [
        path for path in loader.list_definition_files(folder) if records_folder(path).is_dir()
    ]
    if not paths:
        raise NotFoundError(f"no recorded pages in {folder}/ (fix: `scraper sites record SITE`)")
    checks = check_sites(paths, settings.site_function_modules, update)
    differing = [row for check in checks for row in check.differences]
    problems = [check.problem for check in checks if check.problem is not None]
    pages = sum(check.pages for check in checks)
    if as_json:
        print_json(
            {
                "sites": len(checks),
                "pages": pages,
                "problems": problems,
                "differences": [row._asdict() for row in differing],
            }
        )
    elif differing:
        columns = ("site", "field", "expected", "today", "page")
        print_table(columns, [_difference_cells(row) for row in differing])
    summary = f"{len(checks)} sites, {pages} pages: {len(differing)} differences"
    if problems:
        raise ScraperError("\n".join([*problems, summary]))
    if differing and not update:
        raise ScraperError(f"{summary} (fix: correct the definition; or, if it is right: --update)")
    if not as_json:
        click.echo(f"{summary}{', taken as expected' if differing else ''}")


def _difference_cells(row: RecordDifference) -> tuple[str, ...]:
    page, old, new = one_line(row.page), format_cell(row.old), format_cell(row.new)
    return row.site, row.field, old, new, page
