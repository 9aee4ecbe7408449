"""`scraper report` and `scraper alerts`: whether a crawl's data can be trusted, and who is told."""

from __future__ import annotations

import click

from scraper.cli.common.shared import load_settings, open_engine, print_json


@click.command()
@click.argument("crawl", metavar="CRAWL")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--accept", is_flag=True, help="Take the crawl as the new usual: the shop has changed for good."
)
def report(crawl: str, as_json: bool, accept: bool) -> None:
    """Show how full each field of CRAWL (an id, or a site for its newest one) was, beside what is
    usual.

    Of a suspect crawl: why, with selectors, pages and excerpts. Exits with 5 where the crawl is
    suspect.
    """
    from scraper.cli.crawl import report as shown

    engine = open_engine()
    crawl_id = shown.crawl_id(engine, crawl)
    if accept:
        shown.accept(engine, crawl_id)
    found = shown.read(engine, crawl_id)
    if as_json:
        print_json(shown.as_json(found))
    else:
        shown.print_report(found)
    shown.refuse(found)


@click.group()
def alerts() -> None:
    """Those who are told of suspect and failed crawls (SCRAPER_ALERTS)."""


@alerts.command("test")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def alerts_test(as_json: bool) -> None:
    """Send a test message to everybody on the list, and say who has got it. Exits with 1 unless all
    have."""
    from scraper.cli.crawl import report as shown

    done = shown.test_alerts(load_settings())
    if as_json:
        print_json(done)
    else:
        shown.print_tested(done)
    shown.refuse_untold(done)
