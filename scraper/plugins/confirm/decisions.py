"""`scraper accept` and `scraper reject`: an operator's decision on a suspect crawl, or on one that
should have been suspect."""

from __future__ import annotations

from dataclasses import asdict

import click
import sqlalchemy as sa

from scraper.actions import judgements
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, json_option, print_json
from scraper.cli.common.tables import one_line, print_table
from scraper.quality import report as reports
from scraper.results.rejection import Rejection

DRY = "Show what would be done, and change nothing."


@click.command()
@click.argument("crawl", metavar="CRAWL|SITE", shell_complete=complete_site)
@click.option("--field", "fields", multiple=True, help="Only values of this field; repeatable.")
@click.option("--dry-run", "dry", is_flag=True, help=DRY)
@json_option()
def accept(crawl: str, fields: tuple[str, ...], dry: bool, as_json: bool) -> None:
    """Publish the held values of CRAWL; take it as the new normal.

    CRAWL is an id, or a site for its newest one. With --field, publish only these values, and
    leave the crawl as it is.
    """
    engine = open_engine()
    crawl_id = _crawl_id(engine, crawl)
    held = judgements.accept_crawl(engine, crawl_id, fields or None, dry=dry)
    if as_json:
        print_json({"crawl": crawl_id, "released": held, "dry": dry})
        return
    click.echo(judgements.accepted_phrase(crawl_id, held, dry=dry))


@click.command()
@click.argument("crawl", metavar="CRAWL|SITE", shell_complete=complete_site)
@click.option("--field", "fields", multiple=True, help="Only values of this field; repeatable.")
@click.option("--dry-run", "dry", is_flag=True, help=DRY)
@json_option()
def reject(crawl: str, fields: tuple[str, ...], dry: bool, as_json: bool) -> None:
    """Take back what CRAWL wrote: values, products, delistings.

    CRAWL is an id, or a site for its newest one. Products get another version with their
    earlier values, and the feed an entry `reverted`. Changes of later crawls stay. With
    --field, takes back only these values.
    """
    engine = open_engine()
    crawl_id = _crawl_id(engine, crawl)
    outcome = judgements.reject_crawl(engine, crawl_id, fields or None, dry=dry)
    if as_json:
        print_json({"crawl": crawl_id, "dry": dry, **asdict(outcome)})
        return
    _print_rejection(crawl_id, outcome, dry)


def _print_rejection(crawl_id: int, outcome: Rejection, dry: bool) -> None:
    click.echo(judgements.rejected_phrase(crawl_id, outcome, dry=dry))
    if outcome.values:
        rows = [
            [one_line(name), f"{number:,}", one_line(outcome.examples[name])]
            for name, number in sorted(outcome.values.items())
        ]
        print_table(["field", "products", "such as"], rows)


def _crawl_id(engine: sa.Engine, crawl: str) -> int:
    with engine.connect() as connection:
        # Raises `NotFoundError` for an unknown crawl.
        return reports.read_report(connection, reports.resolve_crawl(connection, crawl)).crawl_id
