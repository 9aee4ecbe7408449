"""What every part of a definition is made of: strict models, problems by their keys, and the texts
that stand for something else. Pure.

Models keep what was written (`7d`, a CSS string) so that a definition's JSON reads like its YAML;
selectors are compiled here only to be checked, and again, from the same cache, by
`scraper.extract`.
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
    """(key, sentence) of what cannot be, of several keys together."""

    def add(self, key: str, text: str) -> None:
        self.append((key, text))

    def raise_any(self) -> None:
        """The loader gives each its own line."""
        if self:
            summary = "; ".join(f"{key}: {text}" if key else text for key, text in self)
            context = {"summary": summary, "problems": list(self)}
            raise PydanticCustomError("together", "{summary}", context)


def refuse(key: str, text: str) -> Never:
    """Raises what is wrong with one key."""
    problems = Problems([(key, text)])
    problems.raise_any()
    raise AssertionError("unreachable")


def run_check(check: Callable[[str], object], text: str) -> str:
    """The text itself, once `check` has not raised."""
    check(text)
    return text


def number_to_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def expand_text(key: str) -> Callable[[Any], Any]:
    """Where a mapping is meant, a text alone is what it says by that key."""
    return lambda value: {key: value} if isinstance(value, str) else value


def expand_texts(key: str) -> Callable[[Any], Any]:
    """Likewise of a list of mappings, which one alone may stand for."""

    def listed(value: Any) -> Any:
        value = [value] if isinstance(value, str | dict) else value
        return [*map(expand_text(key), value)] if isinstance(value, list | tuple) else value

    return listed


expand_css = expand_text("css")


def as_list(value: Any) -> Any:
    """A text alone stands for a list of it."""
    return [value] if isinstance(value, str) else value


def as_list_or_none(value: Any) -> Any:
    """Likewise, and `none` for an empty one."""
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
MetaName = Annotated[str, Field(pattern=r"^[A-Za-z][\w:.-]{0,100}$")]
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
