"""`scraper sites record` and `scraper sites test`: pages of a site, kept and read again."""

from __future__ import annotations

import click

from scraper.cli.common.definitions import definition_file, page_errors
from scraper.cli.common.shared import complete_site, json_option, load_settings, print_json
from scraper.cli.common.tables import cell, plain, print_table
from scraper.domain import Kind
from scraper.errors import NotFoundError, ScraperError
from scraper.plugins.author.repair import records
from scraper.sites import loader

RECORDED = 20


@click.command()
@click.argument("name", metavar="SITE", shell_complete=complete_site)
@click.option(
    "--pages",
    default=RECORDED,
    type=click.IntRange(2, 200),
    show_default=True,
    help="So many pages.",
)
@json_option()
def record(name: str, pages: int, as_json: bool) -> None:
    """Keep pages of SITE, and what its definition gives on them, for `scraper sites test`.

    Listings and products, in sites/NAME.pages/, which former ones are replaced in. Obeys robots.txt
    and the rate; needs no servers. No cookie is kept, nor what settings keep secret.
    """
    settings = load_settings()
    path = definition_file(settings.sites_dir, name)
    site = loader.load_file(path, settings.site_function_modules)
    with page_errors(site.name):
        kept, requests = records.fetch(site, settings, pages)
    folder = records.save(path, kept)
    products = sum(page.kind is Kind.PRODUCT for page in kept)
    if as_json:
        print_json({"folder": str(folder), "pages": len(kept), "products": products})
        return
    click.echo(
        f"{len(kept)} pages, {products} of products, in {folder}/ by {requests} requests; "
        f"next: look at {folder / records.INDEX}, commit it, and scraper sites test {site.name}"
    )


@click.command()
@click.argument("names", metavar="[SITES]...", nargs=-1, shell_complete=complete_site)
@click.option("--update", is_flag=True, help="Take what is read today as what is expected.")
@json_option()
def test(names: tuple[str, ...], update: bool, as_json: bool) -> None:
    """Read the recorded pages with the definitions of today, and show every field that differs.

    Without SITES: all that have recorded pages. Needs neither servers nor the network. Exits with 1
    where something differs.
    """
    settings = load_settings()
    folder = settings.sites_dir
    paths = [definition_file(folder, name) for name in names] or [
        path for path in loader.list_definition_files(folder) if records.folder_of(path).is_dir()
    ]
    if not paths:
        raise NotFoundError(
            f"no recorded pages in {folder}/ (fix: `scraper sites record SITE` keeps some)"
        )
    results = records.prove_all(paths, settings.site_function_modules, update)
    differing = [row for proof in results for row in proof.differences]
    problems = [proof.problem for proof in results if proof.problem is not None]
    pages = sum(proof.pages for proof in results)
    if as_json:
        print_json(
            {
                "sites": len(results),
                "pages": pages,
                "problems": problems,
                "differences": [row._asdict() for row in differing],
            }
        )
    elif differing:
        print_table(
            ("site", "field", "expected", "today", "page"),
            [
                (row.site, row.field, cell(row.old), cell(row.new), plain(row.page))
                for row in differing
            ],
        )
    summary = f"{len(results)} sites, {pages} pages: {len(differing)} differences"
    if problems:
        raise ScraperError("\n".join([*problems, summary]))
    if differing and not update:
        raise ScraperError(f"{summary} (fix: correct the definition; or, if it is right: --update)")
    if not as_json:
        click.echo(f"{summary}{', taken as expected' if differing else ''}")
