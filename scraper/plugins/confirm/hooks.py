"""Weighs surprising changes when a crawl is judged, and requests pages again before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.frontier.crawls import REPLAY
from scraper.infra.database import roll_back
from scraper.infra.statements import sql
from scraper.plugin import Hooks
from scraper.plugins.confirm import cards, missing, second_readings, shapes
from scraper.plugins.confirm.cards import DoubtingCrawl
from scraper.results.judgement import plausibility
from scraper.results.judgement.crawl_judgement import STOCKS, CrawlJudgement, WeighedChanges
from scraper.results.judgement.earlier_crawls import SuspectCrawl
from scraper.results.judgement.plausibility import ONE_FACTOR, Changes, has_one_factor
from scraper.sites.definition import Site

# Texts change alone if at most this part of them comes with a change of another text.
ALONE_MAX = 0.1

UNEXPLAINED = sa.text(sql("plugins/confirm/unexplained_prices.sql"))
NEW_VALUES = sa.text(sql("plugins/confirm/compare_new_values.sql"))
# A judgement doubts held values alone, by what other values, other pages or cards say.
HOLDS = sa.text("SELECT EXISTS (SELECT FROM held_values WHERE crawl_id = :id)")


@dataclass(frozen=True, slots=True)
class ConfirmedChanges(WeighedChanges):
    """`unseen` prices have no other source on their pages, or no shape that decides: the cards of
    listings may say something of them."""

    unseen: Set[str] = frozenset()


class ConfirmHooks(Hooks):
    """See `Hooks`."""

    def crawl_extra(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site
    ) -> DoubtingCrawl | None:
        fields = site.product.all_fields.items()
        prices = [name for name, spec in fields if spec.type == "price"]
        confirms = prices and site.quality.doubt == "confirm"
        return DoubtingCrawl(crawl_id, site_id, prices) if confirms else None

    def weigh_changes(
        self, judgement: CrawlJudgement, changes: Mapping[str, Changes], contrary: int
    ) -> WeighedChanges:
        """Believes the fields that changed on surprisingly many products if the shop seems to have
        decided on all of these changes, and those of prices, of switches and of texts in other
        words came again when their pages were requested again."""
        answers = second_readings.read_answers(judgement.connection, judgement.crawl.id)
        votes = cards.read_votes(judgement.connection, judgement.crawl.id)
        denied = {
            name
            for name in judgement.figures
            if answers.deny(name)
            or (name in votes and votes[name].deny and not changes[name].agreed)
        }
        notes = {name: answers.describe(name) for name in answers.by_field}
        doubts = {name: judgement.find_doubt(name, changes[name]) for name in judgement.figures}
        doubted = {name for name, doubt in doubts.items() if doubt == "changed"} | denied
        mode = judgement.site.quality.doubt
        if mode == "publish":
            return WeighedChanges(doubted)
        odd = "vanished" in doubts.values() or plausibility.held_is_odd(
            contrary, judgement.compared
        )
        if not doubted or mode == "wait" or odd:
            return WeighedChanges(denied=denied, notes=notes)
        worded = doubted.difference(judgement.of_type("price"))
        new = read_new_values(judgement.connection, judgement.crawl.id, worded)
        prices = set(judgement.of_type("price"))
        undecided = find_undecided(judgement, changes, doubted, new)
        if any(name not in prices or has_one_factor(changes[name]) for name in undecided):
            return WeighedChanges(denied=denied, notes=notes)
        questions = doubted.intersection(judgement.of_type("price", "bool"))
        questions |= {name for name in new if judgement.is_own(name) and new[name].is_foreign}
        shown = {name for name, vote in votes.items() if vote.confirm}
        confirmed = undecided <= shown and all(
            answers.confirm(name) or (name in shown and name not in answers.by_field)
            for name in questions
        )
        unseen = undecided | {name for name in questions & prices if not changes[name].agreed}
        return ConfirmedChanges(doubted if confirmed else set(), denied, questions, notes, unseen)

    def request_again(
        self,
        connection: sa.Connection,
        crawl: sa.Row[tuple[object, ...]],
        before: SuspectCrawl | None,
        *,
        complete: bool,
    ) -> int:
        """Requests pages of a crawl again, once, if that decides on a doubt. What the judgement
        marks for this is taken back."""
        row: Any = crawl
        if row.filter_id is not None or row.asking or row.trigger == REPLAY:
            return 0
        try:
            site = Site.model_validate(row.definition)
        except ValidationError:
            return 0
        if site.quality.doubt != "confirm":
            return 0
        # What a suspect crawl has missed already is decided otherwise.
        counts = complete and (before is None or before.missed_id is None)
        if not _holds_values(connection, row.id) and not (
            counts and missing.misses_any(connection, row)
        ):
            return 0
        with connection.begin_nested() as savepoint:
            judgement = CrawlJudgement(connection, row, site, before, 0)
            judgement.doubt_changes()
            prices = judgement.of_type("price")
            single = second_readings.find_single(connection, row, prices)
            judgement.store_number(whole=complete)
            odd = counts and missing.is_surprising(connection, row, before)
            roll_back(connection, savepoint)
        again = missing.request_pages(connection, row) if odd else 0
        weighed = judgement.weighed
        if weighed.questions or single:
            unseen = isinstance(weighed, ConfirmedChanges) and bool(weighed.unseen)
            again += second_readings.request_again(
                connection, row, weighed.questions, single, cards=unseen or bool(single)
            )
        return again

    def explain_misses(self, connection: sa.Connection, crawl_id: int) -> bool:
        return missing.are_gone(connection, crawl_id)

    def confirming_pages(
        self, connection: sa.Connection, crawls: Sequence[int], pages: Sequence[int]
    ) -> set[int]:
        return second_readings.requested_pages(connection, crawls, pages)


HOOKS = ConfirmHooks()


def find_undecided(
    judgement: CrawlJudgement,
    changes: Mapping[str, Changes],
    doubted: set[str],
    new: Mapping[str, shapes.NewValues],
) -> set[str]:
    """Returns those of these fields on whose changes no one at the shop seems to have decided.
    `new` is what their changed values have in common."""
    values = judgement.connection, judgement.crawl.id
    prices, texts = judgement.of_type("price"), judgement.of_type("text")
    shared = [name for name in texts if not judgement.is_own(name)]
    # Other numbers may be prices.
    amounts = [*prices, *(name for name in judgement.of_type("decimal") if "rating" not in name)]
    rest = dict.fromkeys(amounts, Changes(judgement.compared))
    if doubted.intersection(amounts):
        rest |= read_unexplained(*values, judgement.compared, amounts, shared)

    def is_decided(name: str) -> bool:
        if name in amounts:
            usual = judgement.baseline_of(name).usual.changed
            return shapes.is_decided_price(name, rest[name], usual, judgement.tolerances)
        if name in judgement.of_type(*STOCKS):
            return bool(changes[name].changed <= shapes.SWITCHED_MAX * judgement.compared)
        if name in judgement.of_type("object", "objects"):
            # They may hold prices, which go with the product's own.
            return not doubted.isdisjoint(prices)
        if name not in judgement.site.product.all_fields or name not in new:
            return False
        if name not in texts or not judgement.is_own(name):
            return new[name].decided
        others = [changes[text].changed for text in texts if text != name and text in changes]
        return new[name].is_rewritten(alone=sum(others) <= ALONE_MAX * changes[name].changed)

    return {name for name in doubted if not is_decided(name)}


def read_unexplained(
    connection: sa.Connection,
    crawl_id: int,
    compared: int,
    prices: Collection[str],
    groups: Collection[str],
) -> dict[str, Changes]:
    """Returns the changes of prices that nothing explains. `groups` names fields whose values many
    products share."""
    values = {"id": crawl_id, "prices": list(prices), "groups": list(groups)}
    values |= {"one_factor": ONE_FACTOR, "small": shapes.SMALL}
    values |= {"least": shapes.GROUP_LEAST, "most": shapes.GROUP_MOST * compared}
    rows = connection.execute(UNEXPLAINED, values)
    return {row.field: Changes(compared, *row[1:]) for row in rows}


def _holds_values(connection: sa.Connection, crawl_id: int) -> bool:
    return bool(connection.execute(HOLDS, {"id": crawl_id}).scalar_one())


def read_new_values(
    connection: sa.Connection, crawl_id: int, fields: Collection[str]
) -> dict[str, shapes.NewValues]:
    """Returns what the changed values of these fields have in common."""
    rows = connection.execute(NEW_VALUES, {"id": crawl_id, "fields": list(fields)})
    return {row.field: shapes.NewValues(*row[1:]) for row in rows}
