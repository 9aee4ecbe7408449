"""`scraper new`: writes and proves a definition for a shop's URL. Needs no servers."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from scraper.cli.common.shared import json_option, load_settings, print_json, require_project
from scraper.cli.common.tables import cell, plain, print_table, span
from scraper.domain import Outcome
from scraper.errors import ConfigError, FetchError, ScraperError
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.fields.standard import standard_definition
from scraper.plugins.author.discovery.platform import OpenInterface
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.survey import Survey
from scraper.plugins.author.discovery.surveyor import Surveyor
from scraper.plugins.author.discovery.trial import PageTrial, try_listing, try_product
from scraper.plugins.author.discovery.writing import definition_text
from scraper.rules import urls
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site

# A line of the table: field, source, pages, example, origins that agree.
Row = tuple[str, str, str, str, str]

RATE = "4/s"
EXAMPLE_CHARS = 60
_FIXES = {
    Outcome.NOT_FOUND: "open the shop in a browser, and copy the address of a list of products",
    Outcome.ROBOTS_DISALLOWED: "give another page of the shop; you are responsible for "
    "`robots: ignore` in a definition",
    Outcome.BLOCKED: "see docs/how-to/blocked-pages.md",
    Outcome.REFUSED: "see docs/how-to/blocked-pages.md",
    Outcome.SERVER_ERROR: "retry later",
    Outcome.THROTTLED: "retry later, with a lower --rate",
    Outcome.UNREACHABLE: "check whether a browser on this machine shows it",
    Outcome.ROBOTS_UNAVAILABLE: "check whether a browser on this machine shows it",
}


@click.command()
@click.argument("url")
@click.argument("name", required=False)
@click.option("--rate", default=RATE, show_default=True, help="Requests to the host: 60/m, 2/s.")
@json_option()
def new(url: str, name: str | None, rate: str, as_json: bool) -> None:
    """Write a definition for the shop at URL, and prove it on some of its pages.

    URL is a list of products, such as a category page, or the shop's home. Reads at most 60 pages,
    at the rate and as robots.txt allows. Writes only sites/NAME.yaml, and never overwrites it.
    Needs no servers.
    """
    settings = load_settings()
    require_project(settings)
    address = urls.clean(url if "://" in url else f"https://{url}")
    if address is None:
        raise click.UsageError(f"{url!r} is not a URL, such as https://shop.example/all")
    name = name or name_site(address)
    path = settings.sites_dir / f"{name}.yaml"
    if path.exists():
        raise ConfigError(
            f"{path} is there already, and is not overwritten (fix: remove it, or give another "
            f"name: `scraper new {url} NAME`)"
        )
    try:
        survey, requests, seconds = _survey_shop(address, name, rate, settings)
    except FetchError as error:
        raise ScraperError(_explain(error, address)) from None
    text = definition_text(survey, name, rate, private=urls.is_private(survey.start))
    definition = loader.load_text(text, path, settings.site_function_modules)
    trials = _try_pages(definition, survey, settings)
    _write_file(path, text)
    good = sum(trial.complete for trial in trials)
    if as_json:
        print_json(_as_json(survey, trials, path, requests))
    else:
        _show_survey(survey, trials, path, requests, seconds, definition)
    if survey.unproved:
        raise ScraperError(
            f"{survey.unproved}. {path} was written with `queue: browser`, unproved (fix: install "
            "a browser, remove the file, and run the command again)"
        )
    if good < len(trials):
        raise ScraperError(
            f"{path}: {len(trials) - good} of {len(trials)} product pages would not be stored "
            f"(fix: see `scraper try {name}`)"
        )


def _write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error}") from None


def name_site(url: str) -> str:
    """Returns a site's name by its host: `books` for https://www.books.example/."""
    host, port = urls.split_host(urls.host_of(url))
    if urls.is_private(url):
        return f"local-{port}" if port else "local"
    labels = [label for label in host.removeprefix("www.").split(".") if label]
    # Second levels that serve as a top level: co.uk, com.au.
    ending = 2 if len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3 else 1
    label = labels[-1 - ending] if len(labels) > ending else labels[0]
    return re.sub(r"[^a-z0-9_-]", "-", label.lower()).strip("-_")[:63] or "shop"


def _make_provisional(url: str, name: str, rate: str) -> Site:
    """Returns the definition that reads pages before the survey."""
    data = standard_definition(url).model_dump(mode="json", exclude_unset=True)
    try:
        return Site.model_validate({**data, "name": name, "rate": rate})
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _survey_shop(
    url: str, name: str, rate: str, settings: Settings, *, moved: str = ""
) -> tuple[Survey, int, float]:
    """Returns the survey, and how many requests and seconds it took.

    Follows a shop that redirects to another name of its own, such as www. `moved`: the URL before
    that.
    """

    async def run() -> tuple[Survey, int, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with PoliteReader(_make_provisional(url, name, rate), settings) as reader:
            survey = await Surveyor(reader).survey(url)
            return survey, reader.requests, loop.time() - began

    try:
        survey, requests, seconds = asyncio.run(run())
    except FetchError as error:
        own = error.outcome is Outcome.OFF_SITE and error.url and is_own_name(url, error.url)
        if moved or not own:
            raise
        return _survey_shop(str(error.url), name, rate, settings, moved=url)
    if moved:
        survey.notes.append(f"{moved} redirects to {url}")
    return survey, requests, seconds


def is_own_name(url: str, other: str) -> bool:
    """Returns whether the hosts differ only by a part such as www: shop.example,
    www.shop.example."""
    names = (urls.split_host(urls.host_of(address))[0] for address in (url, other))
    short, long = sorted(names, key=len)
    return long == short or long.endswith(f".{short}")


def _explain(error: FetchError, url: str) -> str:
    fix = _FIXES.get(error.outcome, "")
    if error.outcome is Outcome.OFF_SITE and error.url:
        fix = f"if that is the shop: `scraper new {error.url}`"
    elif "not known" in str(error):
        fix = "check the spelling of the address"
    elif "TLS" in str(error):
        fix = "check `https` or `http`, and the port, in a browser"
    return f"{error.url or url}: {error}" + (f" (fix: {fix})" if fix else "")


def _try_pages(definition: Site, survey: Survey, settings: Settings) -> list[PageTrial]:
    """Reads the surveyed pages with the written definition. Raises `ScraperError` if it finds no
    product on the first listing page."""
    allowed = settings.site_function_modules
    if definition.listing is not None and survey.listing_pages:
        page = survey.listing_pages[0]
        trial = try_listing(definition, page.page, page.url, allowed)
        if not trial.products:
            raise ScraperError(f"{page.url}: no product link: {'; '.join(trial.problems)}")
    return [try_product(definition, page, url, allowed) for url, page in survey.product_pages]


def _count_fields(trials: list[PageTrial]) -> Counter[str]:
    """Counts the pages that have each field."""
    return Counter(row.name for trial in trials for row in trial.fields if row.value is not None)


def _format_example(choice: FieldChoice) -> str:
    assert choice.best is not None
    position = next(at for at, value in enumerate(choice.best.values) if value is not None)
    currency = choice.currency or choice.best.currencies[position]
    return cell(choice.best.values[position])[:EXAMPLE_CHARS] + (f" {currency}" if currency else "")


def _show_survey(
    survey: Survey,
    trials: list[PageTrial],
    path: Path,
    requests: int,
    seconds: float,
    definition: Site,
) -> None:
    click.echo(
        f"{requests} requests: robots.txt, {len(survey.listing_pages)} listing and {len(trials)} "
        f"product pages read in {seconds:.0f} s; nothing was stored",
        err=True,
    )
    rows = [*_describe_products(survey, trials), *_describe_fields(survey, trials)]
    print_table(("field", "source", "pages", "example", "agrees with"), rows)
    if survey.interface is not None:
        click.echo(_describe_interface(survey.interface))
    for note in survey.notes:
        click.echo(f"note: {plain(note)}", err=True)
    if definition.allow_private:
        click.echo(
            "allow_private: true was written, since the address is on this machine or its network",
            err=True,
        )
    click.echo(
        f"{path} written. {_estimate_crawl(survey, definition)}next: scraper try {definition.name}"
    )


def _describe_products(survey: Survey, trials: list[PageTrial]) -> list[Row]:
    """Returns the rows on the links to products, and on what identifies a product."""
    about = "" if survey.products is None else f": about {survey.products:,} products"
    links = (survey.listing or survey.sitemap or {}).get("products", "")
    number = f"{survey.links or len(survey.known_urls)} links"
    identity = ", ".join(f"{key} {value}" for key, value in (survey.id or {"the": "URL"}).items())
    identified = sum(trial.external_id is not None for trial in trials)
    example = plain(trials[0].external_id or "") if trials else ""
    rows = [
        ("products", plain(str(links)), number, f"{plain(survey.pages_text)[:60]}{about}", ""),
        ("id", plain(identity), f"{identified} of {len(trials)}", example, ""),
    ]
    items = survey.items
    if items is not None:
        (scope, where), *_ = items.items.items()
        sizes = plain(f"{items.sizes} a page, as {items.example}")
        rows.append(
            ("items", plain(f"{scope} {where}"), f"{items.pages} of {len(trials)}", sizes, "")
        )
    return rows


def _describe_fields(survey: Survey, trials: list[PageTrial]) -> Iterator[Row]:
    counts = _count_fields(trials)
    for name, choice in survey.fields.items():
        if choice.best is None:
            yield name, "-", "", plain("; ".join(choice.guesses)), ""
            continue
        source = [str(value) for key, value in choice.best.candidate.source.items() if key != "map"]
        agrees = ", ".join(sorted(choice.best.agrees))
        pages = f"{counts[name]} of {len(trials)}"
        yield name, plain(", ".join(source)), pages, _format_example(choice), agrees


def _describe_interface(interface: OpenInterface) -> str:
    """Says how many variants have each field, and shows one variant."""
    named = [name for product in interface.products for name in product.data]
    counts = ", ".join(f"{name} {named.count(name)}" for name in dict.fromkeys(named))
    first = interface.products[0]
    example = ", ".join(
        plain(f"{name} {cell(value)[:EXAMPLE_CHARS]}") for name, value in first.data.items()
    )
    return (
        f"platform: {interface.name}: its interface gives {len(interface.products)} variants on "
        f"its first page{', and has more' if interface.more else ''}: {counts}\n"
        f"  such as {plain(first.external_id)}: {example}"
    )


def _estimate_crawl(survey: Survey, definition: Site) -> str:
    """Says how long a crawl takes at the definition's rate."""
    if survey.products is None or not definition.rate_per_s:
        return ""
    pages = survey.products + (survey.pages or 0)
    seconds = pages / definition.rate_per_s
    return f"{pages:,} pages at {definition.rate}: about {span(max(1.0, seconds))}; "


def _as_json(survey: Survey, trials: list[PageTrial], path: Path, requests: int) -> dict[str, Any]:
    counts = _count_fields(trials)
    return {
        "file": str(path),
        "requests": requests,
        "listing": survey.listing,
        "sitemap": survey.sitemap,
        "products": survey.products,
        "id": survey.id,
        "fields": {
            name: {
                **choice.definition(),
                "pages": counts[name],
                "agrees": sorted(choice.best.agrees),
                "values": choice.best.values,
            }
            for name, choice in survey.fields.items()
            if choice.best is not None
        },
        "items": survey.items.items if survey.items is not None else None,
        "pages": len(trials),
        "platform": survey.interface.name if survey.interface is not None else None,
        "notes": survey.notes,
    }
