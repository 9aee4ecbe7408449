"""The fields of a product in a definition, and its id. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from scraper.sites.grammar.model import (
    CssOfElements,
    FieldName,
    MapKey,
    Problems,
    Regex,
    Scalar,
    Share,
    expand_css,
)
from scraper.sites.grammar.sources import (
    SOURCES,
    Source,
    expand_inner_fields,
    find_inner_problems,
    find_scope_problems,
    holds_json,
    list_alternatives,
)

# `table` and `each` imply the last two types, which a definition never writes.
FieldType = Literal[
    "text", "int", "decimal", "price", "bool", "date", "url", "list", "object", "objects"
]
TYPES_WRITTEN = get_args(FieldType)[:-2]
# A longer text means that the selector matched the whole page.
MAX_LENGTH = 100_000


class FieldSource(Source):
    """A source, and how its text is read. Under `any:` an alternative, which inherits the field's
    options, but for the decimal mark of JSON: that is a dot."""

    map: dict[MapKey, Scalar] | None = Field(
        None, description="text -> value, applied before the type; other texts have no value"
    )
    currency: str | None = Field(
        None, pattern="^[A-Z]{3}$", description="ISO 4217; used if the price shows none"
    )
    decimal: Literal[",", "."] | None = Field(
        None, description="the decimal separator; default: guessed"
    )
    format: str | None = Field(None, description="a date's strptime format; default: guessed")
    dayfirst: bool | None = Field(None, description="read 3/4/2025 as 3 April")
    when: Regex | None = Field(
        None, description="bool: true if the text matches, false if it does not or is missing"
    )
    split: str | None = Field(None, min_length=1, description="list: the separator of the values")
    join: str | None = Field(
        None, max_length=20, description="joins all matches into one text, with this between them"
    )
    table: CssOfElements | None = Field(
        None,
        description="CSS of a table's rows, or of a list such as dl; with `key` and `value`, gives "
        "an object",
    )
    key: CssOfElements | None = Field(
        None, description="table: CSS of the name of a value, within each row"
    )
    value: CssOfElements | None = Field(None, description="table: CSS of the value after the name")

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        Problems(self.find_source_problems()).raise_any()
        return self

    @property
    def described(self) -> str:
        return super().described if self.table is None else f"table {self.table!r}"

    @property
    def has_json_numbers(self) -> bool:
        """True if the source is JSON that the page has for machines, so its decimal mark is a
        dot."""
        inner = self.path is not None and self.response is None
        return self.jsonld is not None or self.state is not None or inner

    def find_source_problems(self) -> list[tuple[str, str]]:
        pair = [key for key in ("key", "value") if getattr(self, key) is not None]
        if self.table is None:
            alone = [(key, f"{key} is for `table` (fix: add `table:`)") for key in pair]
            return alone or super().find_source_problems()
        others = [key for key in (*SOURCES, "path") if getattr(self, key) is not None]
        if others:
            fix = "keep one, or list both under `any:`"
            return [(others[0], f"table and {others[0]} together (fix: {fix})")]
        if len(pair) < 2:
            fix = "`key: th` and `value: td`; `dt` and `dd` for a dl"
            return [("table", f"needs `key` and `value` (fix: {fix})")]
        return []


class FieldSpec(FieldSource):
    """One field of a product."""

    any: tuple[
        Annotated[
            FieldSource, BeforeValidator(expand_css, json_schema_input_type=str | FieldSource)
        ],
        ...,
    ] = Field((), description="alternatives; the first with a value wins")
    type: FieldType = Field("text", description="the type of the value")
    required: bool = Field(False, description="a page without this field is not stored")
    many: bool = Field(False, description="a list of all matches, at most 1,000")
    default: Scalar | None = Field(None, description="the value if nothing matched")
    floor: Share | None = Field(
        None,
        description="a crawl with a lower fill rate is suspect, whatever the usual rate; 0: never",
    )
    max_length: int = Field(
        MAX_LENGTH,
        ge=1,
        le=1_000_000,
        description="the maximum number of characters; longer text is cut",
    )
    each: (
        dict[
            FieldName,
            Annotated[
                FieldSpec, BeforeValidator(expand_css, json_schema_input_type="str | FieldSpec")
            ],
        ]
        | None
    ) = Field(
        None,
        min_length=1,
        max_length=50,
        description="fields of each matching element or JSON object; gives a list of objects",
    )

    @model_validator(mode="before")
    @classmethod
    def _infer_nested_type(cls, data: Any) -> Any:
        """Sets the type that `table` and `each` imply."""
        if not isinstance(data, dict) or "type" in data:
            return data
        if "each" in data:
            return {**data, "type": "objects", "each": expand_inner_fields(data["each"], data)}
        entries = data.get("any")
        tables = [data, *(entries if isinstance(entries, list | tuple) else ())]
        if any(isinstance(entry, dict) and "table" in entry for entry in tables):
            return {**data, "type": "object"}
        return data

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        problems = Problems(_find_any_problems(self) if self.any else self.find_source_problems())
        problems += self._find_nested_problems() or self._find_option_problems()
        problems.raise_any()
        return self

    def find_source_problems(self) -> list[tuple[str, str]]:
        if self.each is not None and self.table is None:
            return find_scope_problems(self)
        return super().find_source_problems()

    def _find_nested_problems(self) -> list[tuple[str, str]]:
        """Returns the options that do not fit `each`, `table` and the types that they imply."""
        if self.each is None and self.type not in ("object", "objects"):
            tables = [reading for reading in (self, *self.any) if reading.table is not None]
            gives = "table gives an object"
            return [("type", f"{gives}, not {self.type} (fix: remove `type`)")] if tables else []
        if self.each is not None:
            gives, named = "each gives a list of objects", "each"
            problems = _find_each_problems(self.each, self.readings)
        else:
            gives = "table gives an object of texts"
            named = "table"
            problems = []
            if any(reading.table is None for reading in self.readings):
                problems = [("any", "a table and another source (fix: use only one kind)")]
            if all(reading.table is None for reading in self.readings):
                return [("type", f"only `table` or `each` gives {self.type} (fix: remove `type`)")]
        if self.type != ("objects" if named == "each" else "object"):
            problems.append(("type", f"{gives}, not {self.type} (fix: remove `type`)"))
        options = ("many", "default", *_READ_OPTIONS)
        problems += [
            (key, f"{key} has no effect with {named}: {gives} (fix: remove it)")
            for key in options
            if getattr(self, key) not in (None, False)
            or any(getattr(reading, key, None) is not None for reading in self.any)
        ]
        return problems

    @property
    def readings(self) -> tuple[FieldSource, ...]:
        """The alternatives in order, with the options that they inherit from the field. Without
        `any`, the field itself."""
        if not self.any:
            return (self,)
        shared = {key: getattr(self, key) for key in _READ_OPTIONS}
        return tuple(
            alternative.model_copy(
                update={
                    k: v
                    for k, v in shared.items()
                    if getattr(alternative, k) is None
                    and not (k == "decimal" and alternative.has_json_numbers)
                }
            )
            for alternative in self.any
        )

    @property
    def has_auto(self) -> bool:
        """True if a source is `auto`, which also gives a confidence."""
        return any(reading.auto is not None for reading in self.readings)

    def _find_option_problems(self) -> Problems:
        problems = Problems()
        for key, types in _OPTION_OF.items():
            if self._has_option(key) and self.type not in types:
                problems.add(
                    key,
                    f"{key} has no effect for type {self.type} (fix: `type: {types[0]}`, or "
                    "remove it)",
                )
        if self._has_option("join") and (self.many or self.type == "list"):
            problems.add(
                "join",
                "join makes one text of all matches, but the field is a list (fix: remove one of "
                "them)",
            )
        if self.required and self.default is not None:
            problems.add(
                "default", "a required field cannot have a default (fix: remove one of the two)"
            )
        if self.default is not None and not self._is_default_valid():
            problems.add(
                "default",
                f"{self.default!r} is not of type {self.type} (fix: a value of that type)",
            )
        return problems

    def _has_option(self, option: str) -> bool:
        """Returns whether the field or one of its alternatives has the option."""
        return any(getattr(reading, option, None) is not None for reading in (self, *self.any))

    def _is_default_valid(self) -> bool:
        value = self.default
        match self.type:
            case "bool":
                return isinstance(value, bool)
            case "int":
                return isinstance(value, int) and not isinstance(value, bool)
            case "decimal" | "price":
                return not isinstance(value, bool) and _is_number(str(value))
            case "list":
                return False
            case _:
                return isinstance(value, str) and not self.many


_READ_OPTIONS = ("map", "currency", "decimal", "format", "dayfirst", "when", "split", "join")
_OPTION_OF: dict[str, tuple[FieldType, ...]] = {
    "currency": ("price",), "decimal": ("decimal", "price", "int"), "format": ("date",),
    "dayfirst": ("date",),
    "when": ("bool",), "split": ("list",),
}  # fmt: skip


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,30}(\.\d{1,8})?", text) is not None and Decimal(text).is_finite()


def _find_any_problems(source: Source) -> list[tuple[str, str]]:
    given = [key for key in SOURCES if getattr(source, key) is not None]
    return [(key, f"{key} next to `any:` (fix: move it into the list)") for key in given]


def _find_each_problems(
    each: Mapping[str, FieldSpec], readings: Sequence[Source]
) -> list[tuple[str, str]]:
    problems = []
    for reading in readings:
        problems += find_scope_problems(reading) if len(readings) > 1 else []
    if problems:
        return problems
    if len({holds_json(reading) for reading in readings}) > 1:
        return [("any", "elements and JSON (fix: use only one kind)")]
    sources: dict[str, Any] = {}
    for name, spec in each.items():
        sources |= list_alternatives(f"each.{name}", spec)
        if spec.type in ("object", "objects"):
            problems.append(
                (f"each.{name}", "`each` cannot be nested (fix: a text, number or list)")
            )
    return problems or find_inner_problems(sources, readings[0], where="each")


class IdSource(Source):
    """The source of a product's own id."""

    any: tuple[
        Annotated[Source, BeforeValidator(expand_css, json_schema_input_type=str | Source)], ...
    ] = Field((), description="alternatives; the first with a value wins")

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        problems = Problems(_find_any_problems(self) if self.any else self.find_source_problems())
        for source in self.any:
            problems += [("any", text) for _, text in source.find_source_problems()]
        problems.raise_any()
        return self
