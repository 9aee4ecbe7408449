"""What is read from a page: sources, fields, links, pagination, as pydantic models. Pure.

Models keep what was written (`7d`, a CSS string) so that a definition's JSON reads like its YAML;
selectors are compiled here only to be checked, and again, from the same cache, by
`scraper.extract`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from scraper.sites.grammar import scalars, selectors
from scraper.sites.grammar.auto_fields import AutoField
from scraper.sites.grammar.css import parse_css

SOURCES = (
    *("css", "xpath", "jsonld", "microdata", "meta", "state", "auto", "response", "regex", "url"),
)
# Of these a source has one; `regex` may stand beside it.
_PLACES = tuple(key for key in SOURCES if key != "regex")
FieldType = Literal["text", "int", "decimal", "price", "bool", "date", "url", "list"]
# A text of more characters is a selector that took the whole page.
MAX_LENGTH = 100_000


class Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, str_max_length=10_000, hide_input_in_errors=True
    )


def wrong(*problems: tuple[str, str]) -> PydanticCustomError:
    """Problems of several keys together, each as (key, sentence). The loader gives each its own
    line."""
    return PydanticCustomError(
        "together",
        "{summary}",
        {
            "summary": "; ".join(f"{key}: {text}" if key else text for key, text in problems),
            "problems": list(problems),
        },
    )


def checked(check: Callable[[str], object], text: str) -> str:
    """The text itself, once `check` has not raised."""
    check(text)
    return text


def to_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def as_css(value: Any) -> Any:
    return {"css": value} if isinstance(value, str) else value


Function = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=300)]
Css = Annotated[str, AfterValidator(partial(checked, parse_css))]
XPath = Annotated[str, AfterValidator(partial(checked, selectors.compile_xpath))]
Regex = Annotated[
    str, BeforeValidator(to_text), AfterValidator(partial(checked, selectors.compile_regex))
]
JsonLd = Annotated[str, AfterValidator(partial(checked, selectors.parse_jsonld))]
JsonPath = Annotated[str, AfterValidator(partial(checked, selectors.parse_json))]
MetaName = Annotated[str, Field(pattern=r"^[A-Za-z][\w:.-]{0,100}$")]
Captured = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
RESPONSE = "a JSON answer that a browser captured, by its name in `browser.responses`; with `path`"
PATH = "path in that JSON, as in `product.offers[0].price`; of a list without an index, each"
MapKey = Annotated[
    str, BeforeValidator(lambda key: str(key).lower() if isinstance(key, bool) else to_text(key))
]
Scalar = bool | int | float | str


Share = Annotated[
    str,
    BeforeValidator(to_text, json_schema_input_type=str | float),
    AfterValidator(partial(checked, scalars.share)),
]


class Source(Model):
    """Where a text comes from. One of css, xpath, jsonld, microdata, meta, state, auto, response,
    url;
    `regex` picks a part of it, or of the source."""

    css: Css | None = Field(
        None,
        description="CSS; `::text` and `::attr(name)` as in parsel; else the element's whole text",
    )
    xpath: XPath | None = Field(None, description="XPath 1.0")
    jsonld: JsonLd | None = Field(
        None, description="path in the page's JSON-LD, as in `Product.offers.price`"
    )
    microdata: JsonLd | None = Field(
        None, description="path in the page's microdata, as for jsonld"
    )
    meta: MetaName | None = Field(
        None, description="the name or property of a <meta> tag, as in `og:title`: its content"
    )
    state: JsonPath | None = Field(
        None,
        description="path in the JSON that the page's scripts start from, as in "
        "`__NEXT_DATA__.props.pageProps.product.price`",
    )
    auto: AutoField | None = Field(
        None, description="what the page's own sources agree on for this field"
    )
    response: Captured | None = Field(None, description=RESPONSE)
    path: JsonPath | None = Field(None, description=PATH)
    regex: Regex | None = Field(
        None, description="group 1 (or the whole match) of the text; alone: of the page's source"
    )
    url: Regex | None = Field(None, description="a regular expression on the page's URL")

    @property
    def described(self) -> str:
        """For problems: `css 'h1::text'`."""
        if self.response is not None:
            return described_response(self.response, self.path)
        for key in SOURCES:
            if getattr(self, key) is not None:
                return f"{key} {getattr(self, key)!r}"
        return "nothing"

    def source_problems(self) -> list[tuple[str, str]]:
        """(key, sentence) for what cannot stand together."""
        given = [key for key in _PLACES if getattr(self, key) is not None]
        if (self.response is None) != (self.path is None):
            return [path_problem(self.response)]
        if len(given) > 1:
            return [
                (
                    given[1],
                    f"{given[0]} and {given[1]} together (mend: keep one, or list both under "
                    f"`any:`)",
                )
            ]
        if not given and self.regex is None:
            return [("", f"no source (mend: give one of {', '.join(SOURCES)})")]
        if self.url is not None and self.regex is not None:
            return [("regex", "url is itself a regular expression (mend: keep `url:` alone)")]
        return []


def described_response(response: str, path: str | None) -> str:
    return f"response {response!r} at {path!r}"


def path_problem(response: str | None) -> tuple[str, str]:
    if response is None:
        return "path", "path is for `response` alone (mend: say which response, or remove it)"
    return "response", "does not say where in it (mend: `path:`, as in `product.price`)"


class FieldSource(Source):
    """A source and how its text is read. An alternative under `any:`; what it leaves out is taken
    from the field."""

    map: dict[MapKey, Scalar] | None = Field(
        None, description="text -> value, before the type; other texts: no value"
    )
    currency: str | None = Field(
        None, pattern="^[A-Z]{3}$", description="ISO 4217; where a price shows none"
    )
    decimal: Literal[",", "."] | None = Field(
        None, description="the decimal separator; default: guessed"
    )
    format: str | None = Field(None, description="a date's strptime format; default: guessed")
    dayfirst: bool | None = Field(None, description="read 3/4/2025 as 3 April")
    when: Regex | None = Field(
        None, description="bool: true if the text matches, false if not or if there is no text"
    )
    split: str | None = Field(None, min_length=1, description="list: what separates the values")
    join: str | None = Field(
        None, max_length=20, description="what stands between all matches, which are one text then"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        problems = self.source_problems()
        if problems:
            raise wrong(*problems)
        return self


class FieldSpec(FieldSource):
    """One field of a product."""

    any: tuple[
        Annotated[FieldSource, BeforeValidator(as_css, json_schema_input_type=str | FieldSource)],
        ...,
    ] = Field((), description="alternatives, first value wins")
    type: FieldType = Field("text", description="what the text becomes")
    required: bool = Field(False, description="without it the page is not stored")
    many: bool = Field(False, description="a list of all matches, 1,000 at the most")
    default: Scalar | None = Field(None, description="where nothing matched")
    floor: Share | None = Field(
        None,
        description="the fill rate below which a crawl is suspect, whatever is usual; 0: never",
    )
    max_length: int = Field(
        MAX_LENGTH, ge=1, le=1_000_000, description="characters; longer text is cut"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        problems = self._any_problems() if self.any else self.source_problems()
        problems += self._option_problems()
        if problems:
            raise wrong(*problems)
        return self

    @property
    def readings(self) -> tuple[FieldSource, ...]:
        """The alternatives in order, each with the field's own options where it has none; one where
        there is no `any`."""
        if not self.any:
            return (self,)
        shared = {key: getattr(self, key) for key in _READ_OPTIONS}
        return tuple(
            alternative.model_copy(
                update={k: v for k, v in shared.items() if getattr(alternative, k) is None}
            )
            for alternative in self.any
        )

    @property
    def auto_read(self) -> bool:
        """Whether one of its sources is `auto`, which tells how sure it is."""
        return any(reading.auto is not None for reading in self.readings)

    def _any_problems(self) -> list[tuple[str, str]]:
        given = [key for key in SOURCES if getattr(self, key) is not None]
        return [(key, f"{key} beside `any:` (mend: move it into the list)") for key in given]

    def _option_problems(self) -> list[tuple[str, str]]:
        problems = []
        for key, types in _OPTION_OF.items():
            used = getattr(self, key) is not None or any(
                getattr(reading, key) is not None for reading in self.any
            )
            if used and self.type not in types:
                problems.append(
                    (
                        key,
                        f"{key} means nothing for type {self.type} (mend: `type: {types[0]}`, "
                        f"or remove it)",
                    )
                )
        joined = self.join is not None or any(reading.join is not None for reading in self.any)
        if joined and (self.many or self.type == "list"):
            problems.append(
                ("join", "join makes one text of all matches, a list keeps each (mend: keep one)")
            )
        if self.required and self.default is not None:
            problems.append(
                ("default", "a required field cannot have a default (mend: remove one of the two)")
            )
        if self.default is not None and not self._default_fits():
            problems.append(
                ("default", f"{self.default!r} is no {self.type} (mend: a value of that type)")
            )
        return problems

    def _default_fits(self) -> bool:
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


class IdSource(Source):
    """Where a product's own id comes from."""

    any: tuple[
        Annotated[Source, BeforeValidator(as_css, json_schema_input_type=str | Source)], ...
    ] = Field((), description="alternatives, first value wins")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if not self.any:
            problems = self.source_problems()
        else:
            problems = [
                (key, f"{key} beside `any:` (mend: move it into the list)")
                for key in SOURCES
                if getattr(self, key)
            ]
            for source in self.any:
                problems += [("any", text) for _, text in source.source_problems()]
        if problems:
            raise wrong(*problems)
        return self


class LinkSource(Model):
    """Links of a page: the href of what CSS or XPath matches, or what a regex or a JSON-LD path
    finds."""

    css: Css | None = Field(
        None, description="elements (their own href, or that of the first a inside) or ::attr(…)"
    )
    xpath: XPath | None = Field(None, description="XPath 1.0, of elements or of attributes")
    jsonld: JsonLd | None = Field(
        None, description="path in the page's JSON-LD, as in `ItemList.itemListElement.url`"
    )
    response: Captured | None = Field(None, description=RESPONSE)
    path: JsonPath | None = Field(None, description=PATH)
    regex: Regex | None = Field(
        None, description="on the page's source: group 1 (or the whole match) of every match"
    )
    attr: str | None = Field(
        None, min_length=1, max_length=100, description="another attribute than href"
    )
    match: Regex | None = Field(None, description="keeps only absolute URLs in which it is found")

    @property
    def described(self) -> str:
        key = next(key for key in _LINK_SOURCES if getattr(self, key) is not None)
        source = (
            f"{key} {getattr(self, key)!r}"
            if self.response is None
            else described_response(self.response, self.path)
        )
        return source + (f" (match {self.match!r})" if self.match else "")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in _LINK_SOURCES if getattr(self, key) is not None]
        if (self.response is None) != (self.path is None):
            raise wrong(path_problem(self.response))
        if len(given) != 1:
            if given:
                raise wrong(
                    (
                        given[1],
                        f"{' and '.join(given)} together (mend: keep one; give a list for several)",
                    )
                )
            raise wrong(("", "no source (mend: give css, xpath, jsonld, response or regex)"))
        if self.attr is not None and self.css is None and self.xpath is None:
            raise wrong(("attr", "attr needs css or xpath (mend: remove it)"))
        return self


_LINK_SOURCES = ("css", "xpath", "jsonld", "response", "regex")


def _as_links(value: Any) -> Any:
    if isinstance(value, str | dict):
        value = [value]
    return [as_css(link) for link in value] if isinstance(value, list | tuple) else value


Links = Annotated[
    tuple[LinkSource, ...],
    BeforeValidator(_as_links, json_schema_input_type=str | LinkSource | list[str | LinkSource]),
]


class Pages(Model):
    """Numbered listing pages: by a count read from the page, up to a `last` number, or until a page
    has no products."""

    css: Css | None = Field(None, description="where the number of pages (or products) is shown")
    xpath: XPath | None = None
    jsonld: JsonLd | None = None
    regex: Regex | None = Field(
        None, description="the number within that text, as in `of (\\d+)`; default: its last number"
    )
    url: str | None = Field(
        None, description="the pages' URL with {page}, absolute or relative to the current page"
    )
    param: str | None = Field(
        None, pattern=r"^[\w.\[\]~-]{1,100}$", description="or: the query parameter to set"
    )
    first: int = Field(1, ge=0, le=1_000_000, description="the first page's number")
    last: int | None = Field(
        None, ge=0, le=10_000_000, description="the last page's number, where it is known"
    )
    step: int = Field(
        1,
        ge=1,
        le=100_000,
        description="from one page's number to the next: 24 for ?start=24, 48 …",
    )
    per_page: int | None = Field(
        None, ge=1, le=100_000, description="set: the number read counts products, so many a page"
    )

    @property
    def counted(self) -> bool:
        return any(getattr(self, key) is not None for key in ("css", "xpath", "jsonld", "regex"))

    @property
    def source(self) -> Source:
        return Source(
            css=self.css, xpath=self.xpath, jsonld=self.jsonld, regex=self.regex, url=None
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems: list[tuple[str, str]] = []
        if (self.url is None) == (self.param is None):
            problems.append(
                (
                    "",
                    'needs one of url and param (mend: `url: "page-{page}.html"` or `param: page`)',
                )
            )
        if self.url is not None and self.url.count("{page}") != 1:
            problems.append(
                (
                    "url",
                    f"{self.url!r} needs {{page}} once (mend: put it where the number goes: "
                    f"`?page={{page}}`)",
                )
            )
        if sum(key is not None for key in (self.css, self.xpath, self.jsonld)) > 1:
            problems.append(("", "several sources (mend: keep one of css, xpath, jsonld)"))
        if self.counted and self.last is not None:
            problems.append(
                (
                    "last",
                    "the number of pages is read from the page already (mend: remove `last` "
                    "or the selector)",
                )
            )
        if self.last is not None and self.last < self.first:
            problems.append(
                (
                    "last",
                    f"{self.last} is before the first page, {self.first} (mend: `last` is the "
                    f"last page's number)",
                )
            )
        if self.per_page is not None and not self.counted:
            problems.append(
                (
                    "per_page",
                    "there is no number to divide (mend: add css and regex that read it, or "
                    "remove it)",
                )
            )
        if problems:
            raise wrong(*problems)
        return self
