"""What `scraper new` prints: a table of sources, notes, and the next command; or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from scraper.cli.common.tables import format_cell, format_span, one_line, print_table
from scraper.errors import quote_command
from scraper.plugins.author.commands.one_shop import NewShop
from scraper.plugins.author.discovery.fields.expected_former import NONE_NOW
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.platform import OpenInterface
from scraper.plugins.author.discovery.survey import Survey
from scraper.plugins.author.discovery.trial import PageTrial
from scraper.sites import loader
from scraper.sites.definition import Site

EXAMPLE_CHARS = 60
# A line of the table: field, source, pages, example, origins that agree.
Row = tuple[str, str, str, str, str]


def _count_fields(trials: list[PageTrial]) -> Counter[str]:
    """Counts the pages that have each field."""
    return Counter(row.name for trial in trials for row in trial.fields if row.value is not None)


def _format_example(choice: FieldChoice) -> str:
    assert choice.best is not None
    if not choice.best.count:
        return NONE_NOW
    position = next(at for at, value in enumerate(choice.best.values) if value is not None)
    currency = choice.currency or choice.best.currencies[position]
    return format_cell(choice.best.values[position])[:EXAMPLE_CHARS] + (
        f" {currency}" if currency else ""
    )


def show_survey(shop: NewShop) -> None:
    survey, trials, definition = shop.survey, shop.trials, shop.definition
    click.echo(
        f"{shop.requests} requests: robots.txt, {len(survey.listing_pages)} listing and "
        f"{len(trials)} product pages read in {shop.seconds:.0f} s; nothing was stored",
        err=True,
    )
    rows = [*_describe_products(survey, trials), *_describe_fields(survey, trials)]
    print_table(("field", "source", "pages", "example", "agrees with"), rows)
    if survey.interface is not None:
        click.echo(_describe_interface(survey.interface))
        if added := survey.describe_page_fields():
            click.echo(f"  {added}")
    for note in survey.notes:
        click.echo(f"note: {one_line(note)}", err=True)
    if definition.allow_private:
        click.echo(
            "allow_private: true was written, since the address is on this machine or its network",
            err=True,
        )
    click.echo(
        f"{shop.path} written. {_estimate_crawl(survey, definition)}next: "
        f"{quote_command('scraper try', definition.name)}"
    )


def _describe_products(survey: Survey, trials: list[PageTrial]) -> list[Row]:
    """Returns the rows on the links to products, and on what identifies a product."""
    about = "" if survey.products is None else f": about {survey.products:,} products"
    links = (survey.listing or survey.sitemap or {}).get("products", "")
    number = f"{survey.links or len(survey.known_urls)} links"
    identity = ", ".join(f"{key} {value}" for key, value in (survey.id or {"the": "URL"}).items())
    identified = sum(trial.external_id is not None for trial in trials)
    example = one_line(trials[0].external_id or "") if trials else ""
    rows = [
        (
            "products",
            one_line(str(links)),
            number,
            f"{one_line(survey.pages_text)[:60]}{about}",
            "",
        ),
        ("id", one_line(identity), f"{identified} of {len(trials)}", example, ""),
    ]
    items = survey.items
    if items is not None:
        (scope, where), *_ = items.items.items()
        sizes = one_line(f"{items.sizes} a page, as {items.example}")
        rows.append(
            (
                "items",
                one_line(f"{scope} {where}"),
                f"{items.pages} of {len(trials)}",
                sizes,
                "",
            )
        )
    return rows


def _describe_fields(survey: Survey, trials: list[PageTrial]) -> Iterator[Row]:
    counts = _count_fields(trials)
    for name, choice in survey.fields.items():
        if choice.best is None:
            yield name, "-", "", one_line("; ".join(choice.guesses)), ""
            continue
        source = [str(value) for key, value in choice.best.candidate.source.items() if key != "map"]
        agrees = ", ".join(sorted(choice.best.agrees))
        pages = f"{counts[name]} of {len(trials)}"
        yield name, one_line(", ".join(source)), pages, _format_example(choice), agrees


def _describe_interface(interface: OpenInterface) -> str:
    """Says how many variants have each field, and shows one variant."""
    named = [name for product in interface.products for name in product.data]
    counts = ", ".join(f"{name} {named.count(name)}" for name in dict.fromkeys(named))
    first = interface.products[0]
    example = ", ".join(
        one_line(f"{name} {format_cell(value)[:EXAMPLE_CHARS]}")
        for name, value in first.data.items()
    )
    return (
        f"platform: {interface.name}: its interface gives {len(interface.products)} variants on "
        f"its first page{', and has more' if interface.more else ''}: {counts}\n"
        f"  such as {one_line(first.external_id)}: {example}"
    )


def _estimate_crawl(survey: Survey, definition: Site) -> str:
    """Says how long a crawl takes at the definition's rate."""
    if survey.products is None or not definition.rate_per_s:
        return ""
    pages = survey.products + (survey.pages or 0)
    seconds = pages / definition.rate_per_s
    return f"{pages:,} pages at {definition.rate}: about {format_span(max(1.0, seconds))}; "


def list_missing(survey: Survey) -> list[str]:
    """Returns the usual fields for which no page gave a certain source."""
    return [name for name, choice in survey.fields.items() if choice.best is None]


def survey_as_json(shop: NewShop) -> dict[str, Any]:
    """Returns the survey: what was chosen, on how many pages, and each sampled page's values."""
    survey, trials = shop.survey, shop.trials
    counts = _count_fields(trials)
    titles = ("field", "source", "pages", "example", "agrees")
    rows = [*_describe_products(survey, trials), *_describe_fields(survey, trials)]
    return {
        "file": str(shop.path),
        "table": [dict(zip(titles, row, strict=True)) for row in rows],
        "samples": [_sample_as_json(trial) for trial in trials],
        "warnings": loader.find_warnings(shop.definition),
        "estimate": _estimate_crawl(survey, shop.definition).removesuffix("; "),
        "interface": _describe_interface(survey.interface) if survey.interface else None,
        "page_fields": survey.describe_page_fields() or None,
        "requests": shop.requests,
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
        "missing": list_missing(survey),
        "pages": len(trials),
        "platform": survey.interface.name if survey.interface is not None else None,
        "notes": survey.notes,
    }


def _sample_as_json(trial: PageTrial) -> dict[str, Any]:
    fields = {row.name: row.value for row in trial.fields if row.value is not None}
    of_fields = [problem for row in trial.fields for problem in row.problems]
    return {
        "url": trial.url,
        "id": trial.external_id,
        "stored": trial.complete,
        "values": fields,
        "problems": [*of_fields, *trial.problems],
    }
