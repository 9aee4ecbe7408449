"""When and how a product page is fetched again: `revisit:` and `conditional:` in a definition.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from scraper.rules.revisit import Bounds
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import Duration, Model, number_to_text, refuse

# An interval is halved or grows by half, so it would stay 0 forever.
ADAPTIVE_LEAST_S = 60.0
BELIEVED = "30d"


class RevisitBounds(Model):
    """How old a product's data may be: the same for all pages, or adapted to how often each page
    changes."""

    min: Duration = Field(description="for a page that changes often: 6h")
    max: Duration = Field(description="for a page that never changes: 14d")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        least_s, most_s = scalars.parse_duration(self.min), scalars.parse_duration(self.max)
        if least_s > most_s:
            refuse("min", f"{self.min} is longer than max, {self.max} (fix: the other way round)")
        if least_s != most_s and least_s < ADAPTIVE_LEAST_S:
            refuse(
                "min",
                "an adaptive interval must be a minute or more (fix: `min: 1h`, or `revisit: 0`)",
            )
        return self

    @cached_property
    def bounds(self) -> Bounds:
        return Bounds(scalars.parse_duration(self.min), scalars.parse_duration(self.max))

    def __str__(self) -> str:
        return f"{self.min} to {self.max}" if self.bounds.adaptive else self.min


def _expand_bounds(value: Any) -> Any:
    """Expands `7d` to the interval from 7d to 7d."""
    if isinstance(value, Mapping | RevisitBounds):
        return value
    text = number_to_text(value)
    if not isinstance(text, str):
        raise ValueError(
            "must be a length of time or a mapping (fix: `7d`, or `{min: 6h, max: 14d}`)"
        )
    # Raises a message about the text as it was written.
    scalars.parse_duration(text)
    return {"min": text, "max": text}


def _expand_duration(value: Any) -> Any:
    if isinstance(value, bool):
        return BELIEVED if value else "0"
    text = number_to_text(value)
    try:
        scalars.parse_duration(text)
    except (ValueError, AttributeError):
        raise ValueError(
            f"{str(value)[:60]!r} is neither true, false nor a length of time (fix: `true`, "
            f"`false`, or for how long 304 is believed, as in `{BELIEVED}`)"
        ) from None
    return text


Revisit = Annotated[
    RevisitBounds,
    BeforeValidator(_expand_bounds, json_schema_input_type=str | int | float | RevisitBounds),
]
Conditional = Annotated[
    Duration, BeforeValidator(_expand_duration, json_schema_input_type=bool | str | int | float)
]
