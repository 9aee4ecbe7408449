"""`scraper links`: which offers are one product, and who says so."""

from __future__ import annotations

import getpass
from dataclasses import dataclass

import click
import sqlalchemy as sa

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import json_option, print_json
from scraper.cli.common.tables import format_cell, print_table
from scraper.feed.prices import format_amount
from scraper.infra import logs
from scraper.plugins.matching import review as proposals
from scraper.plugins.matching.linking import decisions, step
from scraper.plugins.matching.linking.decisions import Decision
from scraper.plugins.matching.review import Proposal

STEP_S = 5.0
COUNT = sa.text("SELECT count(*) AS offers, count(DISTINCT article_id) AS articles FROM offers")


@click.group(invoke_without_command=True)
@json_option("array")
@click.pass_context
def links(context: click.Context, as_json: bool) -> None:
    """Show how offers of shops are linked, and review proposals."""
    if context.invoked_subcommand is not None:
        return
    with open_engine().connect() as connection:
        counts = proposals.count_links(connection)
    if as_json:
        print_json(counts)
    else:
        rows = [[row["state"], row["method"], f"{row['links']:,}"] for row in counts]
        print_table(["state", "method", "links"], rows)


@links.command()
@click.option("--limit", type=click.IntRange(min=1), help="End after this many proposals.")
@json_option("array")
def review(limit: int | None, as_json: bool) -> None:
    """Show proposals one by one: y links the two offers, n keeps them apart for good, s skips."""
    engine = open_engine()
    if as_json:
        with engine.connect() as connection:
            rows = proposals.read_proposals(connection, most=limit or proposals.AT_ONCE)
        print_json([row._asdict() for row in rows])
        return
    reviewed = _Reviewed()
    for proposal in proposals.iterate_proposals(engine):
        if reviewed.total == limit or not _ask_about(engine, proposal, reviewed):
            break
    click.echo(f"{reviewed.confirmed} linked, {reviewed.refused} kept apart")


@dataclass
class _Reviewed:
    confirmed: int = 0
    refused: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        return self.confirmed + self.refused + self.skipped


def _ask_about(engine: sa.Engine, proposal: Proposal, reviewed: _Reviewed) -> bool:
    """Asks about one proposal, and stores the answer. Returns False to end."""
    _print_proposal(proposal)
    answer = click.prompt("one product?", type=click.Choice(list("ynsq")), default="s")
    if answer == "q":
        return False
    if answer == "s":
        reviewed.skipped += 1
        return True
    state: Decision = "confirmed" if answer == "y" else "refused"
    decisions.decide_link(
        engine, proposal.left_id, proposal.right_id, state=state, by=getpass.getuser()
    )
    setattr(reviewed, state, getattr(reviewed, state) + 1)
    return True


def _print_proposal(proposal: Proposal) -> None:
    click.echo()
    rows = [
        [
            proposal.left_site,
            format_cell(proposal.left_title),
            format_amount(proposal.left_price, proposal.left_currency),
            format_cell(proposal.left_url),
        ],
        [
            proposal.right_site,
            format_cell(proposal.right_title),
            format_amount(proposal.right_price, proposal.right_currency),
            format_cell(proposal.right_url),
        ],
    ]
    print_table(["shop", "title", "price", "url"], rows)
    evidence = proposals.describe_evidence(proposal.evidence)
    click.echo(f"confidence {proposal.confidence:.0%}: {evidence}")


@links.command()
@click.argument("one", metavar="SITE:ID")
@click.argument("other", metavar="SITE:ID")
@json_option()
def confirm(one: str, other: str, as_json: bool) -> None:
    """Link two offers for good."""
    _store_decision(one, other, "confirmed", as_json=as_json)


@links.command()
@click.argument("one", metavar="SITE:ID")
@click.argument("other", metavar="SITE:ID")
@json_option()
def refuse(one: str, other: str, as_json: bool) -> None:
    """Keep two offers apart for good."""
    _store_decision(one, other, "refused", as_json=as_json)


def _store_decision(one: str, other: str, state: Decision, *, as_json: bool) -> None:
    keys = [tuple(text.split(":", 1)) for text in (one, other)]
    if any(len(key) != 2 for key in keys):
        raise click.UsageError("an offer is named SITE:ID, as `scraper articles show` lists them")
    (site, id_), (other_site, other_id) = keys
    user = getpass.getuser()
    decisions.decide_keys(open_engine(), (site, id_), (other_site, other_id), state=state, by=user)
    if as_json:
        print_json({"offers": [one, other], "state": state})
    else:
        click.echo(f"{one} and {other}: {'linked' if state == 'confirmed' else 'kept apart'}")


@links.command()
@json_option("object")
def update(as_json: bool) -> None:
    """Link now what coordinators would link in the background."""
    engine = open_engine()
    with logs.warnings_alone():
        while not step.run(engine, STEP_S, waits=True):
            click.echo(_describe_progress(engine, "linking"), err=True)
    with engine.connect() as connection:
        counts = proposals.count_links(connection)
    if as_json:
        print_json({"links": counts})
    else:
        click.echo(_describe_progress(engine, "done"))


def _describe_progress(engine: sa.Engine, word: str) -> str:
    with engine.connect() as connection:
        row = connection.execute(COUNT).one()
    return f"{word}: {row.offers:,} offers of {row.articles:,} articles"
