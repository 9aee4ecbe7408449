"""Which source of a field is right, by what it gives on many pages: what changes from page to page
and agrees with another, independent source is the field; what never changes is the frame. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic import ValidationError

from scraper.extract.heuristics.amounts import find_amounts
from scraper.extract.heuristics.buying import has_dead_button
from scraper.extract.heuristics.codes import is_gtin
from scraper.extract.heuristics.state_fields import WHOLE_CURRENCIES, find_currencies
from scraper.extract.sources import compile_source
from scraper.plugins.author.discovery.fields.candidates import (
    WORD_OF,
    Candidate,
    ProductSample,
    candidates,
    file_of,
    plain_text,
)
from scraper.plugins.author.discovery.fields.standard import TYPES
from scraper.plugins.author.discovery.trial import field_reader
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.sources import Source

# These may be the same on all pages of a shop; nothing else may.
_SHARED = frozenset({"availability", "brand", "category", "list_price", "rating", "stock"})
# In this order: the price is what former ones are compared with, and titles what others are not.
FIELDS = tuple(TYPES)
# How much an origin is worth beside others: what is written for machines lasts longest.
_LASTS = {
    "json-ld": 0.0,
    "microdata": 0.05,
    "rdfa": 0.07,
    "meta": 0.1,
    "state": 0.12,
    "label": 0.15,
    "page": 0.2,
    "script": 0.3,
}
RIVALS_MAX = 2
# Languages of countries that write "kr" for a currency of their own.
_CROWNS = {"da": "DKK", "nb": "NOK", "nn": "NOK", "no": "NOK", "sv": "SEK", "is": "ISK"}
_CURRENCIES = [
    compile_source(Source.model_validate(source))
    for source in (
        {"jsonld": "offers.priceCurrency"},
        {"microdata": "offers.priceCurrency"},
        {"rdfa": "offers.priceCurrency"},
        {"meta": "product:price:currency"},
        {"meta": "og:price:currency"},
    )
]


@dataclass(slots=True)
class Reading:
    """A candidate and what it gives on each page."""

    candidate: Candidate
    values: list[Any]
    currencies: list[str | None]
    score: float = 0.0
    agrees: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        return sum(value is not None for value in self.values)


def _both(reading: Reading, other: Reading) -> Iterator[tuple[Any, Any]]:
    """Their values on the pages on which both say something."""
    for value, known in zip(reading.values, other.values, strict=True):
        if value is not None and known is not None:
            yield value, known


@dataclass(slots=True)
class FieldChoice:
    """`rivals` say the same from other places. `currency`: what prices are in where they do not say
    so themselves. `guesses`: what came nearest, where nothing was good enough."""

    name: str
    best: Reading | None
    rivals: list[Reading]
    currency: str | None = None
    guesses: tuple[str, ...] = ()

    def definition(self) -> dict[str, Any]:
        """The field as a definition writes it."""
        assert self.best is not None
        options = dict(TYPES[self.name])
        if self.currency is not None:
            options["currency"] = self.currency
        sources = [dict(reading.candidate.source) for reading in (self.best, *self.rivals)]
        if len(sources) == 1:
            return {**sources[0], **options}
        return {"any": sources, **options}


def choose(samples: Sequence[ProductSample]) -> dict[str, FieldChoice]:
    """The sources of all fields that can be told."""
    chosen: dict[str, FieldChoice] = {}
    for name in FIELDS:
        readings = [
            reading
            for candidate in candidates(name, samples)
            if (reading := _read(name, candidate, samples)) is not None
        ]
        chosen[name] = _choose(name, readings, samples, chosen)
    for name in ("price", "list_price"):
        chosen[name].currency = _currency(chosen[name], samples)
    return chosen


def _currency(choice: FieldChoice, samples: Sequence[ProductSample]) -> str | None:
    """What prices are in, where they do not all say so, or with a sign that several countries
    have."""
    if choice.best is None:
        return None
    shown = {
        code
        for reading in (choice.best, *choice.rivals)
        for code, value in zip(reading.currencies, reading.values, strict=True)
        if value is not None
    }
    coded = {code for sample in samples for code in _codes(sample)}
    if not coded and shown == {None}:
        coded = set(_signs(choice.best, samples))
    if not coded and shown <= {None, "SEK", "DKK"}:
        language = samples[0].document.dom.css_first("html[lang]")
        spoken = (language.attributes.get("lang") or "")[:2] if language is not None else ""
        coded = {_CROWNS[spoken]} if spoken in _CROWNS else set()
    return next(iter(coded)) if len(coded) == 1 and shown != coded else None


def _signs(reading: Reading, samples: Sequence[ProductSample]) -> Iterator[str]:
    """The currencies of the same amounts where a sign stands beside them."""
    for sample, value in zip(samples, reading.values, strict=True):
        body = sample.document.dom.body
        for amount in find_amounts(body, sample.others) if body is not None else ():
            if amount.value == value and amount.currency is not None:
                yield amount.currency


def _codes(sample: ProductSample) -> Iterator[str]:
    yield from find_currencies(sample.document.state)
    for source in _CURRENCIES:
        for text in source(sample.document, False):
            if re.fullmatch(r"[A-Za-z]{3}", text):
                yield text.upper()


def _read(name: str, candidate: Candidate, samples: Sequence[ProductSample]) -> Reading | None:
    """What the candidate gives, by the reader that crawls use; None where that is nothing."""
    try:
        spec = FieldSpec.model_validate({**TYPES[name], **candidate.source})
    except ValidationError:
        return None
    reader = field_reader(name, spec)
    values: list[Any] = []
    currencies: list[str | None] = []
    for sample in samples:
        data, _ = reader(sample.document)
        values.append(data.get(name))
        currencies.append(data.get(f"{name}_currency"))
    reading = Reading(candidate, values, currencies)
    return reading if reading.count else None


def _choose(
    name: str,
    readings: list[Reading],
    samples: Sequence[ProductSample],
    chosen: dict[str, FieldChoice],
) -> FieldChoice:
    readings = [reading for reading in readings if _is_possible(name, reading, samples, chosen)]
    if name in ("price", "list_price"):
        readings = _without_cents(name, readings, samples)
    if any(reading.candidate.origin in ("json-ld", "state") for reading in readings):
        # Both are scripts as well: what is found in its text is no other source.
        readings = [reading for reading in readings if reading.candidate.origin != "script"]
    witnesses = [*readings, *_witnesses(name, samples)]
    consensus = _consensus(name, witnesses, len(samples))
    for reading in readings:
        _judge(name, reading, witnesses, consensus, samples)
    if name == "description":
        _believe_the_page(readings)
    readings.sort(key=lambda reading: reading.score, reverse=True)
    if not readings or readings[0].score <= 0:
        guesses = tuple(_described(reading) for reading in readings[:2])
        return FieldChoice(name, None, [], guesses=guesses)
    best = readings[0]
    rivals: list[Reading] = []
    for reading in readings[1:]:
        origins = {other.candidate.origin for other in (best, *rivals)}
        if (
            len(rivals) < RIVALS_MAX
            and reading.candidate.origin not in origins
            and reading.candidate.origin != "script"
            and _stands_in(name, reading, best)
        ):
            rivals.append(reading)
    return FieldChoice(name, best, rivals)


def _is_possible(
    name: str,
    reading: Reading,
    samples: Sequence[ProductSample],
    chosen: dict[str, FieldChoice],
) -> bool:
    """Whether the values may be this field's at all."""
    values = [value for value in reading.values if value is not None]
    distinct = len(set(map(str, values)))
    if name not in _SHARED and len(samples) > 2 and distinct == 1 and len(values) > 1:
        return False
    repeated = distinct == 1 < len(values)
    places = {"category": ("page", "meta", "label"), "brand": ("page", "meta")}
    if repeated and reading.candidate.origin in places.get(name, ()):
        return False
    match name:
        case "title":
            return all(1 < len(value) <= 300 for value in values)
        case "price":
            return all(value > 0 for value in values)
        case "list_price":
            price = chosen["price"].best
            return price is not None and all(
                former > current for former, current in _both(reading, price)
            )
        case "gtin":
            return all(is_gtin(value) for value in values)
        case "sku" | "mpn":
            # A product has a number of its own.
            return all(len(value) <= 60 for value in values) and distinct * 10 >= len(values) * 9
        case "brand" | "category":
            return all(1 < len(value) <= 80 for value in values) and not _is_title(
                values, reading, chosen
            )
        case "availability" if "when" in reading.candidate.source:
            # A button that is always there, or that only cannot be pressed, says nothing.
            return not repeated and not any(
                has_dead_button(sample.document.dom) for sample in samples
            )
        case "stock":
            # The days of a delivery are a number as well.
            return not repeated
        case "rating":
            return all(0 <= value <= 5 for value in values)
        case "description":
            return sum(len(value) > 40 for value in values) * 2 >= len(values)
        case _:
            return True


def _without_cents(
    name: str, readings: list[Reading], samples: Sequence[ProductSample]
) -> list[Reading]:
    """Scripts may count in cents. Whole numbers of theirs are believed where somebody else says the
    same, or the currency has nothing smaller."""
    others = [
        reading for reading in readings if reading.candidate.origin not in ("state", "script")
    ]
    if not any(sample.card is not None and sample.card.in_state for sample in samples):
        others += _witnesses(name, samples)
    whole = {code for sample in samples for code in _codes(sample)} & WHOLE_CURRENCIES

    def is_sure(reading: Reading) -> bool:
        values = reading.values
        return (
            reading.candidate.origin != "state"
            or bool(whole)
            or any(value is not None and value % 1 for value in values)
            or any(value == other for witness in others for value, other in _both(reading, witness))
        )

    return [reading for reading in readings if is_sure(reading)]


def _is_title(values: list[str], reading: Reading, chosen: dict[str, FieldChoice]) -> bool:
    best = chosen["title"].best
    if best is None:
        return False
    same = sum(
        value is not None and plain_text(title or "").startswith(plain_text(value))
        for value, title in zip(reading.values, best.values, strict=True)
    )
    return same * 2 > len(values)


def _witnesses(name: str, samples: Sequence[ProductSample]) -> list[Reading]:
    """What the listing's cards say."""
    values: list[Any] = []
    for sample in samples:
        card = sample.card
        value: Any = None
        if card is not None:
            match name:
                case "title":
                    value = card.title or None
                case "price":
                    value = min(card.prices) if card.prices else None
                case "image":
                    value = card.image
                case "list_price":
                    struck = [amount.value for amount in card.amounts if amount.struck]
                    value = max(struck) if struck and card.prices else None
        values.append(value)
    if not any(value is not None for value in values):
        return []
    return [Reading(Candidate("listing card", {}, 0), values, [None] * len(values))]


def _consensus(name: str, witnesses: Sequence[Reading], pages: int) -> list[tuple[Any, int]]:
    """For each page the value that most origins give, and how many do."""
    agreed: list[tuple[Any, int]] = []
    for at in range(pages):
        origins: dict[Any, set[str]] = {}
        shown: dict[Any, Any] = {}
        for reading in witnesses:
            value = reading.values[at]
            if value is not None:
                key = _key(name, value)
                origins.setdefault(key, set()).add(reading.candidate.origin)
                shown.setdefault(key, value)
        if not origins:
            agreed.append((None, 0))
            continue
        key = max(origins, key=lambda known: len(origins[known]))
        agreed.append((key, len(origins[key])))
    return agreed


class Support(NamedTuple):
    """On how many of its pages another source says what a reading does (`agreeing`), and on how
    many several say something else. `origins`: who agrees on half of its pages."""

    agreeing: int
    differing: int
    origins: frozenset[str]


def _support(
    name: str, reading: Reading, witnesses: Sequence[Reading], consensus: Sequence[tuple[Any, int]]
) -> Support:
    agreements: Counter[str] = Counter()
    agreeing = differing = 0
    others = [
        witness for witness in witnesses if witness.candidate.origin != reading.candidate.origin
    ]
    for at, value in enumerate(reading.values):
        if value is None:
            continue
        origins = {
            other.candidate.origin
            for other in others
            if other.values[at] is not None and _same(name, value, other.values[at])
        }
        agreements.update(origins)
        agreeing += bool(origins)
        key, number = consensus[at]
        differing += number >= 2 and not origins and _key(name, value) != key
    most = frozenset(origin for origin, times in agreements.items() if times * 2 >= reading.count)
    return Support(agreeing, differing, most)


def _judge(
    name: str,
    reading: Reading,
    witnesses: Sequence[Reading],
    consensus: Sequence[tuple[Any, int]],
    samples: Sequence[ProductSample],
) -> None:
    """Sets how good it is, and who agrees with it."""
    support = _support(name, reading, witnesses, consensus)
    origin = reading.candidate.origin
    called = _is_called(name, reading)
    # Few products may be reduced; what says that it is a former price is one on a few pages, too.
    few = name == "list_price" and (origin not in ("page", "label", "script") or called)
    pages = reading.count if few else len(samples)
    distinct = len({_key(name, value) for value in reading.values if value is not None})
    score = reading.count + 0.6 * support.agreeing - 2.0 * support.differing
    score -= pages * _cost_of_place(reading)
    score += 0.1 * distinct
    if origin == "page" and called:
        # What says by its name what it holds is not moved elsewhere.
        score += pages * 0.08
    if name == "title":
        score -= 0.5 * reading.count * _adds_to_titles(reading, witnesses)
    if name == "description":
        # What is cut off, or takes half of the page with it, is not the description.
        score -= 0.3 * _cut_off(reading, witnesses)
        if origin == "page" and not support.agreeing:
            score -= 0.4 * reading.count
    alone = not support.agreeing
    if origin in ("page", "script") and alone and name in ("title", "image", "rating"):
        score -= 0.2 * reading.count
    if origin == "script" and alone:
        score = -1.0
    if reading.count * 2 < pages and name in ("title", "price", "sku", "image", "availability"):
        score -= pages * 0.5
    reading.score, reading.agrees = score, support.origins


def _is_called(name: str, reading: Reading) -> bool:
    """Whether a class or an id in its selector says what the field is."""
    word = WORD_OF.get(name)
    css = str(reading.candidate.source.get("css", ""))
    return word is not None and any(map(word.search, (css, re.sub(r"[.#]", " ", css))))


def _cost_of_place(reading: Reading) -> float:
    """What it costs on a page that the source may not last."""
    candidate = reading.candidate
    by_css = 0.1 if candidate.origin == "microdata" and "css" in candidate.source else 0.0
    return _LASTS.get(candidate.origin, 0.2) + by_css + 0.02 * candidate.rank


def _cut_off(reading: Reading, witnesses: Sequence[Reading]) -> int:
    """The number of pages on which another source has a much longer text."""
    number = 0
    for at, value in enumerate(reading.values):
        if value:
            texts = [other.values[at] for other in witnesses if other.values[at]]
            longest = max(map(len, texts), default=0)
            number += len(value) < 0.8 * longest and len(value) < 400
    return number


def _adds_to_titles(reading: Reading, witnesses: Sequence[Reading]) -> bool:
    """Whether it says what two others say, and then more on every page: the shop, the brand."""
    shorter: set[str] = set()
    for other in witnesses:
        pairs = [(plain_text(value), plain_text(known)) for value, known in _both(reading, other)]
        if len(pairs) > 2 and all(
            value != known and value.startswith(known) for value, known in pairs
        ):
            shorter.add(other.candidate.origin)
    return len(shorter) > 0


def _believe_the_page(readings: Sequence[Reading]) -> None:
    """A meta tag is an advertisement of the page: where a text of the page agrees with it on
    several pages and differs on others, the text is the description."""
    shown = [reading for reading in readings if reading.candidate.origin in ("page", "label")]
    for meta in (reading for reading in readings if reading.candidate.origin == "meta"):
        worst = 0
        for reading in shown:
            both = [_same("description", value, other) for value, other in _both(meta, reading)]
            if both and 3 * sum(both) >= len(both):
                worst = max(worst, both.count(False))
        meta.score -= 2.0 * worst


def _stands_in(name: str, reading: Reading, best: Reading) -> bool:
    """Whether it says what `best` does wherever both say something, and is no frame where `best` is
    silent."""
    both = [_equal(name, value, other) for value, other in _both(reading, best)]
    if not both or not all(both) or len(both) < 0.5 * best.count:
        return False
    alone = [
        str(value)
        for value, other in zip(reading.values, best.values, strict=True)
        if value is not None and other is None
    ]
    return len(alone) < 2 or len(set(alone)) > 1 or name in _SHARED


def _equal(name: str, value: Any, other: Any) -> bool:
    return bool(_key(name, value) == _key(name, other))


def _same(name: str, value: Any, other: Any) -> bool:
    """Whether two sources mean the same, though one may cut it short."""
    if name in ("title", "description"):
        one, two = sorted((_key(name, value), _key(name, other)), key=len)
        return bool(one) and (
            two.startswith(one) or (name == "description" and one[:60] == two[:60])
        )
    if name == "stock":
        return bool(value == other)
    return _equal(name, value, other)


def _key(name: str, value: Any) -> Any:
    match name:
        case "title" | "description" | "brand" | "category":
            return plain_text(str(value)).removesuffix(" ...").strip()
        case "image":
            return file_of(str(value))
        case "price" | "list_price":
            return Decimal(value).normalize()
        case _:
            return str(value)


def _described(reading: Reading) -> str:
    source = ", ".join(f"{key}: {value!r}" for key, value in reading.candidate.source.items())
    return f"{{{source}}}  # {reading.count} of {len(reading.values)}"
