"""Chooses the source of each field by what the candidates give on many pages. Pure.

A source whose values change from page to page, and agree with another, independent source, gives
the field. One whose values never change belongs to the page's frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scraper.plugins.author.discovery.fields.candidates import find_candidates
from scraper.plugins.author.discovery.fields.expected_former import expect_former_prices
from scraper.plugins.author.discovery.fields.possible_values import (
    SHARED_FIELDS,
    drop_cents,
    is_category_again,
    is_possible,
)
from scraper.plugins.author.discovery.fields.readings import (
    CandidateReading,
    common_values,
    is_equal,
    read_candidate,
    read_cards,
)
from scraper.plugins.author.discovery.fields.samples import ProductSample, plain_text
from scraper.plugins.author.discovery.fields.scores import (
    distrust_meta_descriptions,
    find_consensus,
    is_named_place,
    score_reading,
)
from scraper.plugins.author.discovery.fields.shop_currency import find_currency
from scraper.plugins.author.discovery.fields.standard import TYPES
from scraper.plugins.author.discovery.fields.visible_candidates import LACKED_FIELDS
from scraper.sites.grammar.sources import STRUCTURED

# In an order in which the fields of `_COMPARED` come first.
FIELDS = tuple(TYPES)
# The fields that others are compared with.
_COMPARED = ("title", "price")
RIVALS_MAX = 2
GUESSES_SHOWN = 2
# Prices in elements of their own: reduced, on sale, on offer.
COMPLETING_MAX = 3
PRODUCT_ID = "productID"


@dataclass(slots=True)
class FieldChoice:
    """The chosen source of a field.

    `rivals` give the same from other places. `currency`: the one to name, for prices that do not
    say it. `guesses`: the best candidates where none was good enough.
    """

    name: str
    best: CandidateReading | None
    rivals: list[CandidateReading]
    currency: str | None = None
    guesses: tuple[str, ...] = ()

    @property
    def readings(self) -> list[CandidateReading]:
        return [self.best, *self.rivals] if self.best is not None else []

    @property
    def combined(self) -> CandidateReading | None:
        """The values that all the chosen sources give together."""
        if self.best is None:
            return None
        values = [
            next((value for value in page_values if value is not None), None)
            for page_values in zip(*(reading.values for reading in self.readings), strict=True)
        ]
        return replace(self.best, values=values)

    def definition(self) -> dict[str, Any]:
        """Returns the field as a definition writes it."""
        options = dict(TYPES[self.name])
        if self.currency is not None:
            options["currency"] = self.currency
        if self.best is not None and not self.best.count:
            options["floor"] = 0
        sources = [dict(reading.candidate.source) for reading in self.readings]
        assert sources, f"{self.name} has no source"
        if len(sources) == 1:
            return {**sources[0], **options}
        return {"any": sources, **options}


def choose_fields(samples: Sequence[ProductSample]) -> dict[str, FieldChoice]:
    """Returns a choice for each standard field."""
    chosen: dict[str, FieldChoice] = {}
    for name in FIELDS:
        chosen[name] = _choose_source(name, _read_candidates(name, samples), samples, chosen)
    if is_category_again(chosen["brand"].best, chosen["category"].combined, chosen["title"].best):
        chosen["brand"] = FieldChoice("brand", None, [])
    for name in ("price", "list_price"):
        chosen[name].currency = find_currency(chosen[name].readings, samples)
    _expect_former_prices(chosen, samples)
    return chosen


def _expect_former_prices(chosen: dict[str, FieldChoice], samples: Sequence[ProductSample]) -> None:
    """Chooses a source for former prices where nothing on the pages may be one."""
    prices, former = chosen["price"], chosen["list_price"]
    if prices.combined is not None and former.best is None and not former.guesses:
        expected = expect_former_prices(samples, prices.combined)
        if expected:
            best, *rivals = expected
            chosen["list_price"] = FieldChoice("list_price", best, rivals, prices.currency)


def _read_candidates(name: str, samples: Sequence[ProductSample]) -> list[CandidateReading]:
    candidates = find_candidates(name, samples)
    readings = (read_candidate(name, candidate, samples) for candidate in candidates)
    return [reading for reading in readings if reading is not None]


def _choose_source(
    name: str,
    readings: list[CandidateReading],
    samples: Sequence[ProductSample],
    chosen: dict[str, FieldChoice],
) -> FieldChoice:
    titles, prices = (chosen[field].combined if field in chosen else None for field in _COMPARED)
    readings = [
        reading for reading in readings if is_possible(name, reading, samples, titles, prices)
    ]
    readings = _drop_unfit(name, readings, samples, chosen)
    witnesses = [*readings, *read_cards(name, samples)]
    consensus = find_consensus(name, witnesses, len(samples))
    for reading in readings:
        score_reading(name, reading, witnesses, consensus)
    if name == "description":
        distrust_meta_descriptions(readings)
    readings.sort(key=lambda reading: reading.score, reverse=True)
    if not readings or readings[0].score <= 0:
        guesses = tuple(str(reading) for reading in readings[:GUESSES_SHOWN])
        return FieldChoice(name, None, [], guesses=guesses)
    choice = FieldChoice(name, readings[0], [])
    for reading in readings[1:]:
        origins = {"script"}.union(other.origin for other in choice.readings)
        if (
            len(choice.rivals) < RIVALS_MAX
            and reading.origin not in origins
            and _can_replace(name, reading, readings[0])
        ):
            choice.rivals.append(reading)
    if name == "price":
        plain = _read_plain_cards(samples)
        choice.rivals += _find_completing(name, choice.readings, readings, plain)
    if name == "availability":
        sold_out = read_cards(name, samples)
        choice.rivals += _find_completing(name, choice.readings, readings, sold_out)
    return choice


def _drop_unfit(
    name: str,
    readings: list[CandidateReading],
    samples: Sequence[ProductSample],
    chosen: dict[str, FieldChoice],
) -> list[CandidateReading]:
    """Returns the readings without those that others show to be something else."""
    if name == "price":
        readings = _drop_former(readings, samples)
    if name == "availability":
        readings = _drop_denied(readings, read_cards(name, samples))
    if name == "brand":
        readings = _drop_boxes(readings)
    available = chosen["availability"].combined if name == "stock" else None
    if available is not None:
        # What is sold out has no stock: a number behind the words is another one.
        readings = [
            reading
            for reading in readings
            if not any(
                number > 0 and state is False for number, state in common_values(reading, available)
            )
        ]
    if name in ("price", "list_price"):
        readings = drop_cents(name, readings, samples)
    if any(_is_article_number(reading) for reading in readings):
        # Where a shop has article numbers, the product's id is the shop's own.
        readings = [reading for reading in readings if PRODUCT_ID not in _paths_of(reading)]
    if any(reading.origin in ("json-ld", "state") for reading in readings):
        # Both are scripts, so that their text is not a source of its own.
        readings = [reading for reading in readings if reading.origin != "script"]
    return readings


def _paths_of(reading: CandidateReading) -> list[Any]:
    return [reading.candidate.source[key] for key in STRUCTURED if key in reading.candidate.source]


def _is_article_number(reading: CandidateReading) -> bool:
    return any(path in ("sku", "offers.sku") for path in _paths_of(reading))


def _drop_former(
    readings: list[CandidateReading], samples: Sequence[ProductSample]
) -> list[CandidateReading]:
    """Returns the readings without those that give a card's former price on some page, such as the
    first amount of each page; all of them if no other is left."""
    former = [
        {amount.value for amount in sample.card.amounts if amount.struck}.difference(
            sample.card.prices
        )
        if sample.card is not None
        else set()
        for sample in samples
    ]
    fitting = [
        reading
        for reading in readings
        if not any(value in struck for value, struck in zip(reading.values, former, strict=True))
    ]
    return fitting or readings


def _drop_denied(
    readings: list[CandidateReading], sold_out: Sequence[CandidateReading]
) -> list[CandidateReading]:
    """Returns the readings without those that contradict cards that say "sold out"; all of them if
    no other is left."""
    fitting = [
        reading
        for reading in readings
        if all(
            value == other for cards in sold_out for value, other in common_values(reading, cards)
        )
    ]
    return fitting or readings


def _read_plain_cards(samples: Sequence[ProductSample]) -> list[CandidateReading]:
    """Returns the prices of cards with one price, and at most a former one: which of three amounts
    is the price is uncertain."""
    plain = [
        sample.card is not None and len({amount.value for amount in sample.card.amounts}) <= 2
        for sample in samples
    ]
    return [
        replace(
            cards,
            values=[
                value if is_plain else None
                for value, is_plain in zip(cards.values, plain, strict=True)
            ],
        )
        for cards in read_cards("price", samples)
    ]


def _find_completing(
    name: str,
    chosen: Sequence[CandidateReading],
    readings: Sequence[CandidateReading],
    cards: Sequence[CandidateReading],
) -> list[CandidateReading]:
    """Returns readings that give what the cards say on pages where the chosen ones give nothing,
    such as those of reduced or sold-out products, and contradict neither elsewhere."""
    by_card = cards[0].values if cards else []
    added: list[CandidateReading] = []
    for _ in range(COMPLETING_MAX):
        given = [*chosen, *added]
        lacking = [
            at
            for at, card in enumerate(by_card)
            if card is not None and all(reading.values[at] is None for reading in given)
        ]
        fitting = [
            reading
            for reading in readings
            if any(reading.values[at] is not None for at in lacking)
            and all(
                is_equal(name, value, other)
                for witness in (*given, *cards)
                for value, other in common_values(reading, witness)
            )
        ]
        if not fitting:
            break
        added.append(max(fitting, key=lambda reading: _count_given(reading, lacking)))
    return added


def _count_given(reading: CandidateReading, pages: Sequence[int]) -> int:
    return sum(reading.values[at] is not None for at in pages)


def _drop_boxes(readings: list[CandidateReading]) -> list[CandidateReading]:
    """Returns the readings without those whose values hold those of a label, and more words: the
    texts of a box, such as "Manufacturer Info X Homepage"."""
    labels = [reading for reading in readings if reading.origin == "label"]
    return [
        reading
        for reading in readings
        if reading.origin != "page" or not any(_is_wider(reading, label) for label in labels)
    ]


def _is_wider(reading: CandidateReading, label: CandidateReading) -> bool:
    pairs = [
        (plain_text(value), plain_text(other)) for value, other in common_values(reading, label)
    ]
    return bool(pairs) and all(
        value != other and f" {other} " in f" {value} " for value, other in pairs
    )


def _can_replace(name: str, reading: CandidateReading, best: CandidateReading) -> bool:
    """Returns whether the reading always says what `best` does, and where only the reading gives a
    value, not the same one every time, as the page's frame would."""
    equal = [is_equal(name, value, other) for value, other in common_values(reading, best)]
    if not equal or not all(equal) or len(equal) < 0.5 * best.count:
        return False
    alone = [
        str(value)
        for value, other in zip(reading.values, best.values, strict=True)
        if value is not None and other is None
    ]
    if alone and name in {*LACKED_FIELDS, "sku"} and reading.origin == "page":
        # What a product lacks for machines, another element in its place does not have.
        return is_named_place(name, reading)
    return len(alone) < 2 or len(set(alone)) > 1 or name in SHARED_FIELDS
