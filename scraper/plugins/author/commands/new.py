"""`scraper new`: writes and proves a definition for a shop's URL. Needs no servers."""

from __future__ import annotations

import re
from typing import TextIO

import click

from scraper.cli.common.shared import json_option, load_settings, print_json, require_project
from scraper.errors import ScraperError
from scraper.plugins.author.commands import shop_list
from scraper.plugins.author.commands.one_shop import (
    check_head,
    draw_request,
    name_site,
    parse_address,
    print_request,
    write_shop,
)
from scraper.plugins.author.commands.survey_report import show_survey, survey_as_json
from scraper.plugins.author.discovery.writing import HeadKeys
from scraper.plugins.author.supervision import run_apart
from scraper.settings import Settings


@click.command()
@click.argument("url", required=False)
@click.argument("name", required=False)
@click.option(
    "-f",
    "--file",
    type=click.File(encoding="utf-8-sig", errors="surrogateescape"),
    help="Read shops from a file, or from - (stdin): an address a line, and a name if you like.",
)
@click.option("--rate", help="Requests to the host: 60/m, 2/s (that of defaults.yaml, or 4/s).")
@click.option("--schedule", help="When it is crawled: a cron expression such as '0 6 * * *'.")
@click.option("--queue", help="Which workers crawl it: datacenter, residential, or your own name.")
@click.option("--tags", default="", help="Words for filters, with commas: garden,new.")
@click.option("--record", is_flag=True, help="Keep the pages that were read in sites/NAME.pages/.")
@json_option()
def new(
    url: str | None,
    name: str | None,
    file: TextIO | None,
    rate: str | None,
    schedule: str | None,
    queue: str | None,
    tags: str,
    record: bool,
    as_json: bool,
) -> None:
    """Write a definition for the shop at URL, and prove it.

    URL is a list of products, such as a category page, or the shop's home. Reads at most 60 pages,
    at the rate and as robots.txt allows. Writes only sites/NAME.yaml, and never overwrites it.
    Needs no servers. --json with --file prints one object a line, for each address.
    """
    if (url is None) == (file is None):
        raise click.UsageError("give either URL or --file")
    settings = load_settings()
    require_project(settings)
    head = HeadKeys(rate, schedule, queue, [tag for tag in re.split(r"[\s,]+", tags) if tag])
    check_head(head)
    if file is not None:
        shop_list.write_shops(file, head, settings, record=record, as_json=as_json)
        return
    address = parse_address(url or "")
    if address is None:
        raise click.UsageError(f"{url!r} is not a URL, such as https://shop.example/all")
    _write_one(address, name or name_site(address), head, settings, record, as_json)


@run_apart
def _write_one(
    url: str, name: str, head: HeadKeys, settings: Settings, record: bool, as_json: bool
) -> None:
    announce = print_request if as_json else draw_request
    shop = write_shop(url, name, head, settings, announce, record=record)
    if as_json:
        print_json(survey_as_json(shop))
    else:
        show_survey(shop)
    if shop.problem:
        raise ScraperError(shop.problem)
