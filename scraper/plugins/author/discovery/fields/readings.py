"""A candidate's values on the sample pages, and how values of one field compare. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from scraper.plugins.author.discovery.fields.samples import ProductSample, image_name, plain_text
from scraper.plugins.author.discovery.fields.standard import TYPES, Candidate
from scraper.plugins.author.discovery.trial import field_reader
from scraper.sites.grammar.fields import FieldSpec

# Two descriptions with the same beginning are the same text, whatever follows.
SAME_DESCRIPTION_CHARS = 60
_LACKED_FIELDS = frozenset({"sku", "gtin", "mpn", "brand"})
# What shops write where a product has no value, and a regex for all other texts.
_NOTHING = r"(?:n/?a|n\.a\.|no|none|null|[-–—]+)"
_STANDS_IN = re.compile(_NOTHING, re.I).fullmatch
_GIVEN_REGEX = rf"(?i)^(?!{_NOTHING}$)(.+)"


@dataclass(slots=True)
class CandidateReading:
    """A candidate and what it gives on each page. `agrees`: the origins that say the same."""

    candidate: Candidate
    values: list[Any]
    currencies: list[str | None]
    score: float = 0.0
    agrees: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """The number of pages on which it gives a value."""
        return sum(value is not None for value in self.values)

    @property
    def origin(self) -> str:
        return self.candidate.origin

    def __str__(self) -> str:
        source = ", ".join(f"{key}: {value!r}" for key, value in self.candidate.source.items())
        return f"{{{source}}}  # {self.count} of {len(self.values)}"


def read_candidate(
    name: str, candidate: Candidate, samples: Sequence[ProductSample]
) -> CandidateReading | None:
    """Reads the candidate as a crawl would. Returns None if it gives nothing on any page, or
    a value of another product's card."""
    try:
        spec = FieldSpec.model_validate({**TYPES[name], **candidate.source})
    except ValidationError:
        return None
    css = candidate.source.get("css")
    if css is not None and any(sample.leads_to_others(css) for sample in samples):
        return None
    reader = field_reader(name, spec)
    values: list[Any] = []
    currencies: list[str | None] = []
    for sample in samples:
        data, _ = reader(sample.document)
        values.append(data.get(name))
        currencies.append(data.get(f"{name}_currency"))
    if (
        name in _LACKED_FIELDS
        and "regex" not in candidate.source
        and any(_STANDS_IN(value) for value in values if value is not None)
    ):
        source = {**candidate.source, "regex": _GIVEN_REGEX}
        return read_candidate(name, candidate._replace(source=source), samples)
    reading = CandidateReading(candidate, values, currencies)
    return reading if reading.count else None


def read_cards(name: str, samples: Sequence[ProductSample]) -> list[CandidateReading]:
    """Returns what the listing's cards say, as one reading or none."""
    values = [_read_card(name, sample) for sample in samples]
    if all(value is None for value in values):
        return []
    card = Candidate("listing card", {}, 0)
    return [CandidateReading(card, values, [None] * len(values))]


def _read_card(name: str, sample: ProductSample) -> Any:
    card = sample.card
    if card is None:
        return None
    match name:
        case "title":
            return card.title or None
        case "price":
            return min(card.prices, default=None)
        case "image":
            return card.image
        case "list_price":
            struck = [amount.value for amount in card.amounts if amount.struck]
            return max(struck) if struck and card.prices else None
        case "availability":
            # What a card says of a product in stock may be its button alone.
            return False if card.is_sold_out else None
    return None


def common_values(reading: CandidateReading, other: CandidateReading) -> Iterator[tuple[Any, Any]]:
    """Yields the pairs of values on the pages on which both give one."""
    for value, rival in zip(reading.values, other.values, strict=True):
        if value is not None and rival is not None:
            yield value, rival


def plain_pairs(reading: CandidateReading, other: CandidateReading) -> list[tuple[str, str]]:
    """Returns the pairs of texts on the pages on which both give one, as letters and digits."""
    return [
        (plain_text(value), plain_text(rival)) for value, rival in common_values(reading, other)
    ]


def comparable_value(name: str, value: Any) -> Any:
    """Returns a form of the value that is equal for values that mean the same."""
    match name:
        case "title" | "description" | "brand" | "category":
            return plain_text(str(value)).removesuffix(" ...").strip()
        case "image":
            return image_name(str(value))
        case "price" | "list_price" | "rating":
            return Decimal(str(value)).normalize()
        case _:
            return str(value)


def is_equal(name: str, value: Any, other: Any) -> bool:
    return bool(comparable_value(name, value) == comparable_value(name, other))


def is_same(name: str, value: Any, other: Any) -> bool:
    """Returns whether two values mean the same, though one of two texts may be cut short."""
    if name in ("title", "description"):
        shorter, longer = sorted(
            (comparable_value(name, value), comparable_value(name, other)), key=len
        )
        begin = shorter[:SAME_DESCRIPTION_CHARS]
        return bool(shorter) and (
            longer.startswith(shorter)
            or (name == "description" and begin == longer[:SAME_DESCRIPTION_CHARS])
        )
    if name == "stock":
        return bool(value == other)
    return is_equal(name, value, other)
