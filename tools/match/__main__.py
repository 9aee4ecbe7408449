"""Prints, for each labelled set, how precise automatic links are, and what proposals find.

Each set goes through the plug-in as own catalogues do, into a PostgreSQL of its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import sqlalchemy as sa

from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.plugins.embedded import servers
from scraper.plugins.matching.identity.offer import read_offer
from scraper.plugins.matching.linking import decisions, step, store
from scraper.plugins.matching.linking.store import IncomingOffer
from scraper.settings import Settings
from tools.match.generated import generate
from tools.match.sets import Key, LabelledSet, Pair, find_sets

BATCH = 1000
AT_PRODUCT = 20
DECIDED = 100
LINKED = sa.text("""
SELECT a.site, a.external_id, b.site, b.external_id FROM offers a
  JOIN offers b ON b.article_id = a.article_id AND b.id > a.id AND b.site <> a.site
""")
# A proposal is about all offers of both articles: a person is asked once.
PROPOSED = sa.text("""
WITH proposed AS (
     SELECT a.article_id AS one, b.article_id AS other, max(confidence) AS confidence
       FROM offer_links l JOIN offers a ON a.id = left_id JOIN offers b ON b.id = right_id
      WHERE state = 'proposed' GROUP BY 1, 2
), ranked AS (
     SELECT one, other, row_number() OVER (PARTITION BY one ORDER BY confidence DESC) AS place
       FROM (SELECT * FROM proposed UNION SELECT other, one, confidence FROM proposed) p
)
SELECT a.site, a.external_id, b.site, b.external_id
  FROM ranked JOIN offers a ON a.article_id = one JOIN offers b ON b.article_id = other
 WHERE place <= :most AND a.site <> b.site
""")
DECISIONS = sa.text("""
SELECT count(*) FILTER (WHERE state = 'confirmed'
                        AND (SELECT article_id FROM offers WHERE id = left_id)
                          = (SELECT article_id FROM offers WHERE id = right_id)) AS confirmed,
       count(*) FILTER (WHERE state = 'refused'
                        AND (SELECT article_id FROM offers WHERE id = left_id)
                         <> (SELECT article_id FROM offers WHERE id = right_id)) AS refused
  FROM offer_links
""")


@dataclass(frozen=True)
class Figures:
    """What became of a set. `wrong` links are between offers known to be different."""

    offers: int
    pairs: int
    right: int
    wrong: int
    proposed: int
    changed: int
    seconds: float

    @property
    def precision(self) -> float | None:
        linked = self.right + self.wrong
        return self.right / linked if linked else None


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--products", default=400, show_default=True, help="Lines of the generated set.")
@click.option("--seed", default=1, show_default=True)
@click.option("--wrong", is_flag=True, help="List the wrong links.")
def main(folder: Path | None, products: int, seed: int, wrong: bool) -> None:
    """Measure links on a generated set, and on the labelled sets in FOLDER."""
    with tempfile.TemporaryDirectory(prefix="match-") as home:
        settings = Settings(home=Path(home))
        servers.up(settings)
        try:
            sets: Iterable[LabelledSet] = find_sets(folder) if folder else ()
            print(
                "set                    offers   pairs  precision  recall  +proposed  changed     s"
            )
            for labelled in (generate(products, seed), *sets):
                _print_figures(labelled, measure(settings, labelled, list_wrong=wrong))
        finally:
            servers.down(settings)


def _print_figures(labelled: LabelledSet, figures: Figures) -> None:
    precision = "-" if figures.precision is None else f"{figures.precision:.4f}"
    found = (figures.right + figures.proposed) / max(figures.pairs, 1)
    print(
        f"{labelled.name[:22]:22} {figures.offers:7,} {figures.pairs:7,} {precision:>10} "
        f"{figures.right / max(figures.pairs, 1):7.3f} {found:10.3f} {figures.changed:8} "
        f"{figures.seconds:6.1f}"
    )


def measure(settings: Settings, labelled: LabelledSet, *, list_wrong: bool = False) -> Figures:
    """Links a set in an empty database."""
    engine = make_engine(settings.postgres_url)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    migrations.upgrade(engine)
    began = time.monotonic()
    _load(engine, labelled)
    while not step.run(engine, 60):
        pass
    seconds = time.monotonic() - began
    with engine.connect() as connection:
        linked = _read_pairs(connection, LINKED, {})
        proposed = _read_pairs(connection, PROPOSED, {"most": AT_PRODUCT})
    known = [pair for pair in linked if _is_different(labelled, pair)]
    for pair in known if list_wrong else ():
        print("  wrong:", *(labelled.offers[key] for key in pair), sep="\n    ")
    right = labelled.same & linked
    found = labelled.same & proposed - right
    return Figures(
        len(labelled.offers),
        len(labelled.same),
        len(right),
        len(known),
        len(found),
        _count_undone(engine, labelled, linked, found),
        seconds,
    )


def _is_different(labelled: LabelledSet, pair: Pair) -> bool:
    if labelled.complete:
        return pair not in labelled.same
    return pair in labelled.different


def _load(engine: sa.Engine, labelled: LabelledSet) -> None:
    offers = [_make_offer(key, fields) for key, fields in labelled.offers.items()]
    for first in range(0, len(offers), BATCH):
        with engine.begin() as connection:
            learned = store.read_learned(connection)
            step.apply_offers(connection, offers[first : first + BATCH], learned)


def _make_offer(key: Key, fields: dict[str, Any]) -> IncomingOffer:
    identity, terms = read_offer(fields)
    return IncomingOffer(*key, None, identity, terms)


def _count_undone(
    engine: sa.Engine, labelled: LabelledSet, linked: set[Pair], found: set[Pair]
) -> int:
    """Confirms some proposals and refuses some links, has all offers crawled again under other
    titles and codes, and returns how many of the decisions no longer hold."""
    confirm = sorted(found, key=sorted)[:DECIDED]
    involved = {key for pair in confirm for key in pair}
    refuse = [pair for pair in sorted(linked, key=sorted) if not pair & involved][:DECIDED]
    for pair in confirm:
        decisions.decide_keys(engine, *sorted(pair), state="confirmed", by="make match")
    for pair in refuse:
        decisions.decide_keys(engine, *sorted(pair), state="refused", by="make match")
    changed = LabelledSet(labelled.name)
    for key, fields in labelled.offers.items():
        changed.offers[key] = {**fields, "title": f"{fields.get('title')} new", "gtin": None}
    _load(engine, changed)
    with engine.connect() as connection:
        row = connection.execute(DECISIONS).one()
    return len(confirm) + len(refuse) - int(row.confirmed) - int(row.refused)


def _read_pairs(
    connection: sa.Connection, statement: sa.TextClause, values: dict[str, Any]
) -> set[Pair]:
    rows = connection.execute(statement, values)
    return {frozenset(((row[0], row[1]), (row[2], row[3]))) for row in rows}


if __name__ == "__main__":
    main()
