"""Chooses the source of each field by what the candidates give on many pages. Pure.

A source whose values change from page to page, and agree with another, independent source, gives
the field. One whose values never change belongs to the page's frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scraper.plugins.author.discovery.fields.candidates import find_candidates
from scraper.plugins.author.discovery.fields.possible_values import (
    SHARED_FIELDS,
    drop_cents,
    is_possible,
)
from scraper.plugins.author.discovery.fields.readings import (
    CandidateReading,
    common_values,
    is_equal,
    read_candidate,
    read_cards,
)
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.fields.scores import (
    distrust_meta_descriptions,
    find_consensus,
    score_reading,
)
from scraper.plugins.author.discovery.fields.shop_currency import find_currency
from scraper.plugins.author.discovery.fields.standard import TYPES

# In an order in which the fields of `_COMPARED` come first.
FIELDS = tuple(TYPES)
# The fields that others are compared with.
_COMPARED = ("title", "price")
RIVALS_MAX = 2
GUESSES_SHOWN = 2


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

    def definition(self) -> dict[str, Any]:
        """Returns the field as a definition writes it."""
        options = dict(TYPES[self.name])
        if self.currency is not None:
            options["currency"] = self.currency
        sources = [dict(reading.candidate.source) for reading in self.readings]
        assert sources, f"{self.name} has no source"
        if len(sources) == 1:
            return {**sources[0], **options}
        return {"any": sources, **options}


def choose_fields(samples: Sequence[ProductSample]) -> dict[str, FieldChoice]:
    """Returns a choice for each standard field."""
    chosen: dict[str, FieldChoice] = {}
    for name in FIELDS:
        readings = [
            reading
            for candidate in find_candidates(name, samples)
            if (reading := read_candidate(name, candidate, samples)) is not None
        ]
        chosen[name] = _choose_source(name, readings, samples, chosen)
    for name in ("price", "list_price"):
        chosen[name].currency = find_currency(chosen[name].readings, samples)
    return chosen


def _choose_source(
    name: str,
    readings: list[CandidateReading],
    samples: Sequence[ProductSample],
    chosen: dict[str, FieldChoice],
) -> FieldChoice:
    titles, prices = (chosen[field].best if field in chosen else None for field in _COMPARED)
    readings = [
        reading for reading in readings if is_possible(name, reading, samples, titles, prices)
    ]
    if name in ("price", "list_price"):
        readings = drop_cents(name, readings, samples)
    if any(reading.origin in ("json-ld", "state") for reading in readings):
        # Both are scripts, so that their text is not a source of its own.
        readings = [reading for reading in readings if reading.origin != "script"]
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
    return choice


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
    return len(alone) < 2 or len(set(alone)) > 1 or name in SHARED_FIELDS
