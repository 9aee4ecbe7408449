"""`scraper new`: writes and proves a definition for a shop's URL. Needs no servers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import click
from pydantic import ValidationError

from scraper.cli.common.shared import json_option, load_settings, print_json, require_project
from scraper.cli.common.tables import one_line
from scraper.domain import Outcome
from scraper.errors import ConfigError, FetchError, ScraperError
from scraper.plugins.author.commands.survey_report import show_survey, survey_as_json
from scraper.plugins.author.discovery.fields.standard import standard_definition
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.survey import Survey
from scraper.plugins.author.discovery.surveyor import Surveyor
from scraper.plugins.author.discovery.trial import PageTrial, try_listing, try_product
from scraper.plugins.author.discovery.writing import definition_text
from scraper.rules import urls
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site

RATE = "4/s"
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
        raise ScraperError(_explain_failure(error, address)) from None
    text = definition_text(survey, name, rate, private=urls.is_private(survey.start))
    definition = loader.load_text(text, path, settings.site_function_modules)
    trials = _try_pages(definition, survey, settings)
    _refuse_shared_id(trials, survey)
    _write_file(path, text)
    good = sum(trial.complete for trial in trials)
    if as_json:
        print_json(survey_as_json(survey, trials, path, requests))
    else:
        show_survey(survey, trials, path, requests, seconds, definition)
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


def _refuse_shared_id(trials: list[PageTrial], survey: Survey) -> None:
    """Raises `ScraperError` if products of different titles have one id: a crawl would store them
    as one product."""
    titles: dict[str, dict[str, str]] = {}
    for trial in trials:
        title = next((str(row.value) for row in trial.fields if row.name == "title"), "")
        if trial.external_id is not None and not trial.items:
            titles.setdefault(trial.external_id, {})[title] = trial.url
    for identity, pages in titles.items():
        if len(pages) > 1:
            raise ScraperError(
                f"{survey.start}: pages of different titles have the id {one_line(identity)}: "
                f"{', '.join(list(pages.values())[:2])} (fix: write a definition with another "
                "`product.id`)"
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


def _explain_failure(error: FetchError, url: str) -> str:
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
