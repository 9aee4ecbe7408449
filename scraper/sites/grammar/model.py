"""The building blocks of a definition: strict models, problems by key, and texts that expand to
mappings. Pure.

Models keep what was written (`7d`, a CSS string), so that a definition's JSON reads like its YAML.
They compile selectors only to check them; `scraper.extract` gets the compiled ones from the same
cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Never

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from scraper.sites.grammar import scalars, selectors
from scraper.sites.grammar.css import check_css_of_elements, parse_css


class Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, str_max_length=10_000, hide_input_in_errors=True
    )


class Problems(list[tuple[str, str]]):
    """The problems of a model that concern several keys: (key, sentence)."""

    def add(self, key: str, text: str) -> None:
        self.append((key, text))

    def raise_any(self) -> None:
        """Raises all problems as one error; the loader gives each its own line."""
        if self:
            summary = "; ".join(f"{key}: {text}" if key else text for key, text in self)
            context = {"summary": summary, "problems": list(self)}
            raise PydanticCustomError("together", "{summary}", context)


def refuse(key: str, text: str) -> Never:
    """Raises a single problem."""
    Problems([(key, text)]).raise_any()
    raise AssertionError("unreachable")


def run_check(check: Callable[[str], object], text: str) -> str:
    """Returns the text if `check` accepts it."""
    check(text)
    return text


def number_to_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def expand_text(key: str) -> Callable[[Any], Any]:
    """Returns a validator that expands a text to a mapping with that key."""
    return lambda value: {key: value} if isinstance(value, str) else value


def expand_texts(key: str) -> Callable[[Any], Any]:
    """Returns a validator that expands a text, a mapping, or a list of both to a list of
    mappings."""

    def expand(value: Any) -> Any:
        value = [value] if isinstance(value, str | dict) else value
        return [*map(expand_text(key), value)] if isinstance(value, list | tuple) else value

    return expand


expand_css = expand_text("css")


def as_list(value: Any) -> Any:
    """Expands a text to a list with this text."""
    return [value] if isinstance(value, str) else value


def as_list_or_none(value: Any) -> Any:
    """Expands a text to a list, and `none` to an empty list."""
    listed = as_list(value)
    return [] if listed == ["none"] else listed


STRINGS = BeforeValidator(as_list, json_schema_input_type=str | list[str])
Text = Annotated[str, BeforeValidator(number_to_text, json_schema_input_type=str | int | float)]
Duration = Annotated[Text, AfterValidator(partial(run_check, scalars.parse_duration))]
Function = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=300)]
Css = Annotated[str, AfterValidator(partial(run_check, parse_css))]
CssOfElements = Annotated[str, AfterValidator(partial(run_check, check_css_of_elements))]
FieldName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,62}$")]
XPath = Annotated[str, AfterValidator(partial(run_check, selectors.compile_xpath))]
Regex = Annotated[
    str,
    BeforeValidator(number_to_text),
    AfterValidator(partial(run_check, selectors.compile_regex)),
]
JsonLd = Annotated[str, AfterValidator(partial(run_check, selectors.parse_jsonld))]
JsonPath = Annotated[str, AfterValidator(partial(run_check, selectors.parse_json))]
# Lengths are options of their own: a pattern that counts `\w` takes 50 ms to compile.
MetaName = Annotated[str, Field(pattern=r"^[A-Za-z][\w:.-]*$", max_length=101)]
Captured = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
MapKey = Annotated[
    str,
    BeforeValidator(lambda key: str(key).lower() if isinstance(key, bool) else number_to_text(key)),
]
Scalar = bool | int | float | str
Share = Annotated[
    str,
    BeforeValidator(number_to_text, json_schema_input_type=str | float),
    AfterValidator(partial(run_check, scalars.parse_share)),
]
