"""`scraper accept` and `scraper reject`: what a person makes of a crawl that is not believed, or
should not have been."""

from __future__ import annotations

from dataclasses import asdict

import click
import sqlalchemy as sa

from scraper.cli.common.shared import complete_site, json_option, open_engine, print_json
from scraper.cli.common.tables import plain, print_table
from scraper.errors import ScraperError
from scraper.infra.database import retried
from scraper.quality import report as reports
from scraper.settle import crawl_quality, held_values, rejection
from scraper.settle.rejection import Rejection

DRY = "Say what would be done, and change nothing."


@click.command()
@click.argument("crawl", metavar="CRAWL|SITE", shell_complete=complete_site)
@click.option("--field", "fields", multiple=True, help="Only values of that field; repeatable.")
@click.option("--dry-run", "dry", is_flag=True, help=DRY)
@json_option()
def accept(crawl: str, fields: tuple[str, ...], dry: bool, as_json: bool) -> None:
    """Believe CRAWL (an id, or a site for its newest one): what is held of it is released, and it
    is the new usual.

    With --field only these values are released, and the crawl stays what it is.
    """
    engine = open_engine()
    crawl_id = _crawl_id(engine, crawl)
    wanted = fields or None

    def work() -> int | None:
        with engine.begin() as connection:
            held = held_values.count(connection, crawl_id, wanted)
            if dry:
                return held
            if wanted is None:
                return held if crawl_quality.accept(connection, crawl_id) else None
            held_values.take(connection, crawl_id, wanted)
            held_values.release(connection, crawl_id)
            return held

    held = retried(work)
    if held is None:
        raise ScraperError(f"crawl {crawl_id} is not judged yet, or was accepted before")
    if as_json:
        print_json({"crawl": crawl_id, "released": held, "dry": dry})
        return
    click.echo(f"crawl {crawl_id}: {held:,} held values {'would be' if dry else 'are'} released")


@click.command()
@click.argument("crawl", metavar="CRAWL|SITE", shell_complete=complete_site)
@click.option("--field", "fields", multiple=True, help="Only values of that field; repeatable.")
@click.option("--dry-run", "dry", is_flag=True, help=DRY)
@json_option()
def reject(crawl: str, fields: tuple[str, ...], dry: bool, as_json: bool) -> None:
    """Take back what CRAWL (an id, or a site for its newest one) wrote: values, new products,
    delistings.

    Products get another version with the values from before, and the feed an entry `reverted`. What
    later crawls have changed stays. With --field only these values are taken back.
    """
    engine = open_engine()
    crawl_id = _crawl_id(engine, crawl)

    def work() -> Rejection | None:
        with engine.begin() as connection:
            return rejection.reject(connection, crawl_id, fields or None, dry=dry)

    outcome = retried(work)
    if outcome is None:
        raise ScraperError(f"crawl {crawl_id} is not judged yet, or was rejected before")
    if as_json:
        print_json({"crawl": crawl_id, "dry": dry, **asdict(outcome)})
        return
    _print_rejection(crawl_id, outcome, dry)


def _print_rejection(crawl_id: int, outcome: Rejection, dry: bool) -> None:
    click.echo(
        f"crawl {crawl_id}: {'would be taken' if dry else 'taken'} back: values of "
        f"{outcome.products:,} products, {outcome.new:,} new products, {outcome.delisted:,} "
        f"delistings; {outcome.held:,} held values go"
    )
    if outcome.values:
        rows = [
            [plain(name), f"{number:,}", plain(outcome.examples[name])]
            for name, number in sorted(outcome.values.items())
        ]
        print_table(["field", "products", "such as"], rows)


def _crawl_id(engine: sa.Engine, crawl: str) -> int:
    with engine.connect() as connection:
        if crawl.isascii() and crawl.isdecimal() and len(crawl) < 19:
            return reports.read(connection, int(crawl)).crawl_id
        return reports.newest(connection, crawl)
