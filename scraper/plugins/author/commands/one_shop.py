"""Surveys one shop for `scraper new`, and writes and proves its definition."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
from pydantic import ValidationError

from scraper.cli.common.tables import one_line
from scraper.domain import Kind, Outcome
from scraper.errors import ConfigError, DefinitionError, FetchError, ScraperError, quote_command
from scraper.plugins.author.discovery.fields.standard import standard_definition
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.survey import Survey
from scraper.plugins.author.discovery.surveyor import Surveyor
from scraper.plugins.author.discovery.trial import PageTrial, try_listing, try_product
from scraper.plugins.author.discovery.writing import (
    HeadKeys,
    definition_text,
    needs_browser_everywhere,
)
from scraper.plugins.author.repair.record_files import save_records
from scraper.plugins.author.repair.records import make_records
from scraper.rules import urls
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.sites.grammar.scalars import parse_rate
from scraper.sites.problems import explain_problems

Announce = Callable[[int, str], None]
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
# The first request is for robots.txt, whose failure is kept as a sentence: its cause is only there.
_FIXES_BY_CAUSE = {
    "not known": "check the spelling of the address",
    "TLS with ": "check `https` or `http`, and the port, in a browser",
}


class NewShop(NamedTuple):
    """A shop whose definition is written. `problem`: why it is not yet good, or ""."""

    survey: Survey
    trials: list[PageTrial]
    path: Path
    requests: int
    seconds: float
    definition: Site
    problem: str


def parse_address(text: str) -> str | None:
    """Returns the URL that a person means, or None."""
    return urls.clean(text if "://" in text else f"https://{text}")


def check_head(head: HeadKeys) -> None:
    """Raises `ConfigError` for values that no definition can have."""
    _make_provisional("https://shop.example/", "shop", head)


def write_shop(
    url: str,
    name: str,
    head: HeadKeys,
    settings: Settings,
    announce: Announce,
    *,
    record: bool = False,
) -> NewShop:
    """Surveys the shop at `url`, and writes sites/NAME.yaml. Raises `ScraperError` if nothing
    is written. `record`: keeps the pages that were read."""
    path = settings.sites_dir / f"{name}.yaml"
    loader.refuse_defaults(name)
    if path.exists():
        raise ConfigError(
            f"{path} is there already, and is not overwritten (fix: remove it, or give another "
            f"name: `{quote_command('scraper new', url, 'NAME')}`)"
        )
    default = _read_default_rate(settings.sites_dir)
    reading = head._replace(rate=head.rate or (default if default != "unlimited" else None) or RATE)
    try:
        survey, requests, seconds = _survey_shop(url, name, reading, settings, announce=announce)
    except FetchError as error:
        raise ScraperError(_explain_failure(error, url)) from None
    if head.queue and needs_browser_everywhere(survey):
        survey.notes.append(f"scripts fill its pages: queue is browser, and not {head.queue}")
    head = head._replace(rate=head.rate or _choose_rate(default, survey.crawl_delay_s))
    text = definition_text(survey, name, head, private=urls.is_private(survey.start))
    definition = loader.load_text(text, path, settings.site_function_modules)
    trials = _try_pages(definition, survey, settings)
    _refuse_shared_id(trials, survey)
    _write_file(path, text)
    if record:
        lists = [(page.url, Kind.LISTING, page.page) for page in survey.listing_pages]
        sold = [(address, Kind.PRODUCT, page) for address, page in survey.product_pages]
        save_records(path, make_records(definition, settings, [*lists, *sold]))
    problem = _find_problem(survey, trials, path, name)
    return NewShop(survey, trials, path, requests, seconds, definition, problem)


def _read_default_rate(folder: Path) -> str | None:
    """Returns the rate in defaults.yaml. Raises `ConfigError` for one that is none."""
    file = folder / loader.DEFAULTS
    try:
        keys = loader.read_definition(file).keys
    except DefinitionError:
        # It is missing, empty, or reported with its lines when the definition is loaded.
        return None
    if "rate" not in keys:
        return None
    try:
        parse_rate(str(keys["rate"]))
    except ValueError as error:
        raise ConfigError(f"{file}: rate: {error}") from None
    return str(keys["rate"])


def _choose_rate(default: str | None, crawl_delay_s: float) -> str | None:
    """Returns the rate to write; None if that of defaults.yaml is slow enough for robots.txt."""
    if default is None:
        return RATE
    rate = parse_rate(default)
    if not crawl_delay_s or (rate is not None and 1 / rate >= crawl_delay_s):
        return None
    return f"{max(1, int(3600 / crawl_delay_s))}/h"


def _find_problem(survey: Survey, trials: list[PageTrial], path: Path, name: str) -> str:
    if survey.unproved:
        return (
            f"{survey.unproved}. {path} was written with `queue: browser`, unproved (fix: install "
            "a browser, remove the file, and run the command again)"
        )
    bad = sum(not trial.complete for trial in trials)
    if bad:
        return (
            f"{path}: {bad} of {len(trials)} product pages would not be stored "
            f"(fix: see `{quote_command('scraper try', name)}`)"
        )
    return ""


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


def _make_provisional(url: str, name: str, head: HeadKeys) -> Site:
    """Returns the definition that reads pages before the survey. Raises `ConfigError` for a name or
    an option that no definition can have."""
    data = standard_definition(url).model_dump(mode="json", exclude_unset=True)
    try:
        checked = Site.model_validate({**data, **head.written, "name": name})
    except ValidationError as error:
        raise ConfigError(_explain_option(error, {**data, **head.written, "name": name})) from None
    # Its pages are read here, and not by the workers of a queue.
    return checked.model_copy(update={"queue": Site.model_fields["queue"].default})


def _explain_option(error: ValidationError, data: dict[str, object]) -> str:
    """Names each option with its value: `--queue 'My queue': has the wrong form (fix: …)`."""
    lines = []
    for _, message in explain_problems(error, data, {}, Path()):
        key, _, sentence = message.partition(": ")
        option, _, position = key.partition(".")
        value = data.get(option)
        if isinstance(value, list) and position.isdigit():
            value = value[int(position)]
        prefix = option.upper() if option == "name" else f"--{option}"
        lines.append(f"{prefix} {value!r}: {sentence}")
    return "\n".join(lines)


def print_request(number: int, url: str) -> None:
    """Prints a line for each request, for programs: `reading 3 https://…`."""
    click.echo(f"reading {number} {one_line(url)}", err=True)


def draw_request(number: int, url: str) -> None:
    """Shows the last request in the terminal's current line."""
    draw_line(f"request {number}: {one_line(url)}")


def draw_line(text: str) -> None:
    """Replaces the terminal's current line."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        click.echo(f"\r\x1b[K{text[:width]}", err=True, nl=False)


def clear_line() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def _survey_shop(
    url: str, name: str, head: HeadKeys, settings: Settings, *, announce: Announce, moved: str = ""
) -> tuple[Survey, int, float]:
    """Returns the survey, and how many requests and seconds it took.

    Follows a shop that redirects to another name of its own, such as www. `moved`: the URL before
    that.
    """

    async def run() -> tuple[Survey, int, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        provisional = _make_provisional(url, name, head)
        async with PoliteReader(provisional, settings, announce=announce) as reader:
            survey = await Surveyor(reader).survey(url)
            survey.crawl_delay_s = reader.crawl_delay_s
            return survey, reader.requests, loop.time() - began

    try:
        survey, requests, seconds = asyncio.run(run())
    except FetchError as error:
        own = error.outcome is Outcome.OFF_SITE and error.url and is_own_name(url, error.url)
        if moved or not own:
            raise
        return _survey_shop(str(error.url), name, head, settings, announce=announce, moved=url)
    finally:
        clear_line()
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
        fix = f"if that is the shop: `{quote_command('scraper new', error.url)}`"
    else:
        words = str(error)
        fix = next((text for cause, text in _FIXES_BY_CAUSE.items() if cause in words), fix)
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
