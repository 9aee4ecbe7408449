"""`scraper try`: what a definition gives on some pages. Stores nothing, needs no servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TypeVar

import click
from pydantic import ValidationError

from scraper.cli.common.definitions import load_definition, page_errors
from scraper.cli.common.shared import complete_site, json_option, load_settings, print_json
from scraper.cli.common.tables import format_cell, one_line, print_table
from scraper.domain import Fetched, Kind
from scraper.errors import DefinitionError, ScraperError, quote_command
from scraper.plugins.author.discovery.fields.standard import standard_definition
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.sampling import Sample, Sampler, spread_sample
from scraper.plugins.author.discovery.trial import (
    ListingTrial,
    Matches,
    PageTrial,
    match_source,
    parse_source,
)
from scraper.plugins.author.supervision import record_page, run_apart
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.sites.grammar.sources import Source

T = TypeVar("T")
PRODUCTS = 3
LINKS_SHOWN = 5
ITEMS_SHOWN = 20
# The URL of a saved page that is given without one.
NOWHERE = "http://saved.invalid/"


@click.command("try")
@click.argument("target", metavar="SITE|FILE|URL", shell_complete=complete_site)
@click.argument("selector", required=False)
@click.option("--listing", is_flag=True, help="Read a listing page: show its links.")
@click.option("--site", metavar="NAME", help="The definition that reads FILE or URL.")
@click.option("--url", "address", metavar="URL", help="The address that FILE was saved from.")
@click.option(
    "--products",
    default=PRODUCTS,
    type=click.IntRange(1, 20),
    show_default=True,
    help="Number of product pages to read.",
)
@click.option("--browser", is_flag=True, help="Render pages with a browser, whatever their queue.")
@json_option()
@run_apart
def try_(
    target: str,
    selector: str | None,
    listing: bool,
    site: str | None,
    address: str | None,
    products: int,
    browser: bool,
    as_json: bool,
) -> None:
    """Show what a definition reads on pages of SITE, URL or FILE.

    Shows each field with its value, the source that gave it, and its problems. With SELECTOR (CSS,
    XPath, or KEY:VALUE with a source's key, such as jsonld:offers.price), shows only its matches.
    FILE may also be a definition. Without a definition, reads what the page states for machines.
    A Chromium of this machine renders pages of the queue `browser`.
    Obeys robots.txt and the rate; needs no servers; stores nothing.
    """
    settings = load_settings()
    source = None if selector is None else _parse_selector(selector)
    kind = Kind.LISTING if listing else Kind.PRODUCT
    saved = Path(target)
    result: Sample | Matches
    if target.startswith(("http://", "https://")):
        definition = definition_of(settings, site, target)

        async def on_url(reader: PoliteReader, sampler: Sampler) -> Sample | Matches:
            return _read_page(sampler, await reader.read(target, kind), target, kind, source)

        result = _with_reader(definition, settings, browser, as_json, on_url)
    elif saved.is_file() and saved.suffix not in loader.SUFFIXES:
        if browser:
            raise click.UsageError("--browser renders pages of SITE or URL, not a saved page")
        definition = definition_of(settings, site, address or NOWHERE)
        page = Fetched(address or NOWHERE, 200, {}, saved.read_bytes())
        sampler = Sampler(PoliteReader(definition, settings), settings.site_function_modules)
        result = _read_page(sampler, page, page.url, kind, source)
    else:
        definition = load_definition(settings, target)

        async def on_site(reader: PoliteReader, sampler: Sampler) -> Sample | Matches:
            if source is None:
                return await sampler.sample(0 if listing else products)
            return await _match_on_site(reader, sampler, target, kind, source)

        result = _with_reader(definition, settings, browser, as_json, on_site)
    if not _show_result(definition, result, as_json=as_json):
        raise SystemExit(ScraperError.exit_code)


def _parse_selector(selector: str) -> Source:
    try:
        return parse_source(selector)
    except ValidationError as error:
        raise DefinitionError([f"{selector}: {error.errors()[0]['msg']}"]) from None


async def _match_on_site(
    reader: PoliteReader, sampler: Sampler, target: str, kind: Kind, source: Source
) -> Matches:
    """Returns the matches on the site's first listing page, or on its first product page."""
    start = reader.context.site.start
    if kind is not Kind.LISTING:
        url = await _find_product(sampler, target)
    elif start:
        url = start[0]
    else:
        raise ScraperError(f"{target}: has no start page (fix: give the URL of a listing page)")
    return match_source(source, await reader.read(url, kind))


async def _find_product(sampler: Sampler, target: str) -> str:
    sample = await sampler.sample(0)
    links = list(chain.from_iterable(page.products for page in sample.listings))
    if not links:
        raise ScraperError(
            f"{target}: no product page was found for the selector "
            f"(fix: see `{quote_command('scraper try', target)}`)"
        )
    return links[0]


def _with_reader(
    definition: Site,
    settings: Settings,
    browser: bool,
    as_json: bool,
    use: Callable[[PoliteReader, Sampler], Awaitable[T]],
) -> T:
    """Runs `use` on a loop of its own, and prints how many requests it took."""

    async def run() -> T:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with PoliteReader(definition, settings, shown=browser) as reader:
            result = await use(reader, Sampler(reader, settings.site_function_modules))
            if not as_json:
                requests = f"{reader.requests} request{'s' if reader.requests != 1 else ''}"
                click.echo(
                    f"{requests}, robots.txt included, in {loop.time() - began:.1f} s; "
                    "nothing was stored",
                    err=True,
                )
            return result

    with page_errors(definition.name):
        return asyncio.run(run())


def _read_page(
    sampler: Sampler, page: Fetched, url: str, kind: Kind, source: Source | None
) -> Sample | Matches:
    """Returns what the definition gives, or only what `source` matches."""
    record_page(url)
    if source is not None:
        return match_source(source, page)
    if kind is Kind.LISTING:
        return Sample(0, listings=[sampler.read_listing(page, url)])
    return Sample(1, products=[sampler.read_product(page, url)])


def definition_of(settings: Settings, name: str | None, url: str) -> Site:
    """Returns the named definition, or else that of the URL's host, or else the standard one."""
    if name is not None:
        return load_definition(settings, name)
    for file in loader.list_definition_files(settings.sites_dir):
        try:
            site = loader.load_file(file, settings.site_function_modules)
        except DefinitionError:
            # `scraper sites check` shows the mistakes of other sites.
            continue
        if site.owns(url):
            return site
    return standard_definition(url)


def _show_result(site: Site, result: Sample | Matches, *, as_json: bool) -> bool:
    """Returns whether the result is good."""
    if isinstance(result, Matches):
        _show_matches(result, as_json=as_json)
        return bool(result.matches)
    _show_sample(site, result, as_json=as_json)
    return result.is_good


def _show_sample(site: Site, sample: Sample, *, as_json: bool) -> None:
    if as_json:
        print_json({"site": site.name, **asdict(sample)})
        return
    for listing in sample.listings:
        _show_listing(listing)
    for product in sample.products:
        _show_product(product)


def _show_listing(listing: ListingTrial) -> None:
    click.echo(one_line(listing.url))
    for name, links in (("products", listing.products), ("listings", listing.listings)):
        click.echo(f"  {name}: {len(links)} link{'s' if len(links) != 1 else ''}")
        for link in spread_sample(links, LINKS_SHOWN):
            click.echo(f"    {one_line(link)}")
    _show_problems(listing.problems)


def _show_product(page: PageTrial) -> None:
    if page.gone:
        click.echo(f"{one_line(page.url)}\n  gone: the shop answers that it no longer exists")
        return
    stored = "" if page.complete else "  (would not be stored)"
    click.echo(f"{one_line(page.url)}\n  id {one_line(page.external_id or '-')}{stored}")
    rows = [
        (
            trial.name,
            format_cell(trial.value),
            trial.source,
            one_line("; ".join(trial.problems)),
            ", ".join(
                f"{rival.source}: {format_cell(rival.value)}"
                for rival in trial.rivals
                if rival.value != trial.value
            ),
        )
        for trial in page.fields
    ]
    if rows:
        print_table(("field", "value", "source", "problem", "others say"), rows)
    _show_items(page)
    _show_problems(page.problems)


def _show_items(page: PageTrial) -> None:
    """Shows the products of a page with several, each with its own fields."""
    if not page.items:
        return
    click.echo(f"  {len(page.items)} items")
    columns = list(dict.fromkeys(key for item in page.items for key in item.data))
    print_table(
        ("id", *columns),
        [
            (
                one_line(item.external_id),
                *(format_cell(item.data.get(key)) for key in columns),
            )
            for item in page.items[:ITEMS_SHOWN]
        ],
    )
    if len(page.items) > ITEMS_SHOWN:
        click.echo(f"  and {len(page.items) - ITEMS_SHOWN:,} more")


def _show_problems(problems: tuple[str, ...]) -> None:
    for problem in problems:
        click.echo(f"  problem: {one_line(problem)}", err=True)


def _show_matches(result: Matches, *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    for match in result.matches:
        click.echo(format_cell(match))
    count = len(result.matches)
    click.echo(
        f"{result.source}: {count} match{'es' if count != 1 else ''} on {one_line(result.url)}",
        err=True,
    )
    if result.nearest:
        click.echo(f"the longest part that matches: {result.nearest}", err=True)
