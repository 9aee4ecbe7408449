"""What is read from a page: sources, fields, links, pagination, as pydantic models. Pure.

Models keep what was written (`7d`, a CSS string) so that a definition's JSON reads like its YAML;
selectors are compiled here only to be checked, and again, from the same cache, by
`scraper.extract`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from scraper.sites.grammar import scalars, selectors
from scraper.sites.grammar.auto_fields import AutoField
from scraper.sites.grammar.css import check_css_of_elements, parse_css

SOURCES = (
    *("css", "xpath", "jsonld", "microdata", "rdfa", "meta", "state", "auto", "response"),
    *("regex", "url"),
)
# These match elements or objects of JSON, in which fields are looked for.
SCOPES = ("css", "xpath", "jsonld", "microdata", "state", "response")
_TEXT_OF_XPATH = re.compile(r"(?:^|/)(?:@[\w:-]+|text\(\))\s*$")
# Formats in which pages say schema.org's words for machines; paths in them are alike.
STRUCTURED = ("jsonld", "microdata", "rdfa")
# Of these a source has one; `regex` may stand beside it.
_PLACES = tuple(key for key in SOURCES if key != "regex")
# The last two come of `table` and of `each`, and are not written.
FieldType = Literal[
    "text", "int", "decimal", "price", "bool", "date", "url", "list", "object", "objects"
]
TYPES_WRITTEN = get_args(FieldType)[:-2]
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
CssOfElements = Annotated[str, AfterValidator(partial(checked, check_css_of_elements))]
FieldName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,62}$")]
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
INNER_PATH = "; within `items` and `each`: in the JSON of each"
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
    """Where a text comes from. One of css, xpath, jsonld, microdata, rdfa, meta, state, auto,
    response, url; `regex` picks a part of it, or of the source."""

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
    rdfa: JsonLd | None = Field(
        None, description="path in the page's RDFa of schema.org, as for jsonld"
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
    path: JsonPath | None = Field(None, description=PATH + INNER_PATH)
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
        return f"path {self.path!r}" if self.path is not None else "nothing"

    def source_problems(self) -> list[tuple[str, str]]:
        """(key, sentence) for what cannot stand together."""
        given = [key for key in _PLACES if getattr(self, key) is not None]
        if self.response is not None and self.path is None:
            return [path_problem(self.response)]
        if self.path is not None and self.response is None:
            if given:
                return [path_problem(None)]
            # Whether it stands within `items` or `each` is for these, and the site, to check.
            given = ["path"]
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
        return "path", (
            "path is for `response` alone, or for what is read within `items` and `each` of JSON "
            "(mend: say which response, or write the whole path at `jsonld:` or `state:`)"
        )
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
    table: CssOfElements | None = Field(
        None,
        description="CSS of a table's rows, or of a list such as dl; with `key` and `value`: an "
        "object",
    )
    key: CssOfElements | None = Field(
        None, description="table: within each row, what names a value"
    )
    value: CssOfElements | None = Field(None, description="table: and the value beside it")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        problems = self.source_problems()
        if problems:
            raise wrong(*problems)
        return self

    @property
    def described(self) -> str:
        return super().described if self.table is None else f"table {self.table!r}"

    def source_problems(self) -> list[tuple[str, str]]:
        pair = [key for key in ("key", "value") if getattr(self, key) is not None]
        if self.table is None:
            beside = [(key, f"{key} is for `table` (mend: `table:` with the rows)") for key in pair]
            return beside or super().source_problems()
        others = [key for key in (*SOURCES, "path") if getattr(self, key) is not None]
        if others:
            mend = "keep one, or list both under `any:`"
            return [(others[0], f"table and {others[0]} together (mend: {mend})")]
        if len(pair) < 2:
            return [("table", (
                "does not say what stands in a row (mend: `key: th` and `value: td`; `dt` and `dd` "
                "for a dl)"
            ))]  # fmt: skip
        return []


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
    each: (
        dict[
            FieldName,
            Annotated[FieldSpec, BeforeValidator(as_css, json_schema_input_type="str | FieldSpec")],
        ]
        | None
    ) = Field(
        None,
        min_length=1,
        max_length=50,
        description="fields of each element, or object of JSON, that matches: a list of objects",
    )

    @model_validator(mode="before")
    @classmethod
    def _nested_type(cls, data: Any) -> Any:
        """What `table` and `each` give has a type that nobody writes."""
        if not isinstance(data, dict) or "type" in data:
            return data
        if "each" in data:
            return {**data, "type": "objects", "each": inner_fields(data["each"], data)}
        entries = data.get("any")
        tables = [data, *(entries if isinstance(entries, list | tuple) else ())]
        if any(isinstance(entry, dict) and "table" in entry for entry in tables):
            return {**data, "type": "object"}
        return data

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        problems = self._any_problems() if self.any else self.source_problems()
        problems += self._nested_problems() or self._option_problems()
        if problems:
            raise wrong(*problems)
        return self

    def source_problems(self) -> list[tuple[str, str]]:
        if self.each is not None and self.table is None:
            return scope_problems(self)
        return super().source_problems()

    def _nested_problems(self) -> list[tuple[str, str]]:
        """What does not go with `each`, with `table`, and with the types that they alone give."""
        if self.each is None and self.type not in ("object", "objects"):
            tables = [reading for reading in (self, *self.any) if reading.table is not None]
            gives = "table gives an object"
            return [("type", f"{gives}, no {self.type} (mend: remove `type`)")] if tables else []
        if self.each is not None:
            gives, named = "each gives a list of objects", "each"
            problems = _each_problems(self.each, self.readings)
        else:
            gives, named, problems = "table gives an object of texts", "table", []
            if any(reading.table is None for reading in self.readings):
                problems = [("any", "a table and another source (mend: keep one sort of them)")]
            if all(reading.table is None for reading in self.readings):
                return [("type", f"{self.type} comes of `table` or `each` (mend: remove `type`)")]
        if self.type != ("objects" if named == "each" else "object"):
            problems.append(("type", f"{gives}, no {self.type} (mend: remove `type`)"))
        options = ("many", "default", *_READ_OPTIONS)
        problems += [
            (key, f"{key} means nothing beside {named}: {gives} (mend: remove it)")
            for key in options
            if getattr(self, key) not in (None, False)
            or any(getattr(reading, key, None) is not None for reading in self.any)
        ]
        return problems

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


def holds_json(source: Source) -> bool:
    """Whether what it matches is JSON, and not elements."""
    if source.css is not None:
        return not parse_css(source.css).selects_elements
    if source.xpath is not None:
        return _TEXT_OF_XPATH.search(source.xpath) is not None
    return True


def inner_fields(written: Any, scope: Any) -> Any:
    """The fields within a scope: a text alone is a path where that holds JSON, else CSS or XPath as
    it is itself."""
    if not isinstance(written, dict) or not isinstance(scope, dict):
        return written
    return {name: inner_source(spec, scope) for name, spec in written.items()}


def inner_source(written: Any, scope: dict[str, Any]) -> Any:
    if not isinstance(written, str):
        return written
    entries = scope.get("any")
    first = entries[0] if isinstance(entries, list | tuple) and entries else scope
    first = as_css(first) if isinstance(first, str | dict) else {}
    try:
        within = Source.model_construct(css=first.get("css"), xpath=first.get("xpath"))
        if any(key in first for key in (*SCOPES, "path")) and holds_json(within):
            return {"path": written}
    except (ValueError, TypeError):
        # The scope's own mistake is said where it stands.
        return as_css(written)
    return {"xpath": written} if "xpath" in first else as_css(written)


def scope_problems(source: Source) -> list[tuple[str, str]]:
    """(key, sentence) for a source that is to match elements, or objects of JSON."""
    given = [key for key in _PLACES if getattr(source, key) is not None]
    wrong_keys = [key for key in (*given, "regex") if key not in SCOPES]
    wrong_keys = [key for key in wrong_keys if getattr(source, key) is not None]
    if wrong_keys:
        mend = f"one of {', '.join(SCOPES)}"
        return [
            (wrong_keys[0], f"{wrong_keys[0]} matches no elements and no objects (mend: {mend})")
        ]
    if not given and source.path is not None:
        return []
    if len(given) != 1:
        both = f"{' and '.join(given)} together" if given else "no source"
        return [(given[1] if given else "", f"{both} (mend: give one of {', '.join(SCOPES)})")]
    if source.response is not None and source.path is None:
        return [path_problem(source.response)]
    if source.path is not None and source.response is None:
        if given[0] not in ("css", "xpath"):
            return [("path", f"beside {given[0]} (mend: write the whole path there)")]
        if not holds_json(source):
            return [("path", (
                f"is for JSON, but {given[0]} selects elements (mend: `::text` or `::attr(…)` "
                "behind it where their text is JSON, or remove `path`)"
            ))]  # fmt: skip
    return []


def inner_problems(
    sources: Mapping[str, Source], scope: Source, *, where: str
) -> list[tuple[str, str]]:
    """(key, sentence) for what cannot be read within the elements or objects that `scope` matches.
    `sources` by their keys."""
    json = holds_json(scope)
    own = "path" if json else "css" if scope.css is not None else "xpath"
    problems = []
    for key, source in sources.items():
        given = [name for name in _PLACES if getattr(source, name) is not None]
        given += ["path"] if source.path is not None and source.response is None else []
        given += ["table"] if getattr(source, "table", None) is not None else []
        given += ["regex"] if not given and source.regex is not None else []
        for name in given:
            if name == own or (name == "table" and own == "css"):
                continue
            mend = f"`{own}:` within it, or move the field to `product.fields`"
            if where == "each":
                mend = f"`{own}:` within it"
            matched = "JSON" if json else f"elements by {own}"
            text = f"{name} cannot be read within what `{where}` matches, {matched} (mend: {mend})"
            problems.append((f"{key}.{name}", text))
        if source.xpath is not None and own == "xpath" and source.xpath.lstrip().startswith("/"):
            text = "begins at the page's root, not within the element (mend: `.` before it)"
            problems.append((f"{key}.xpath", text))
    return problems


def alternatives(key: str, source: Any) -> dict[str, Any]:
    """A source by its key, or those of its `any`."""
    if not source.any:
        return {key: source}
    return {f"{key}.any.{at}": part for at, part in enumerate(source.any)}


def _each_problems(
    each: Mapping[str, FieldSpec], readings: Sequence[Source]
) -> list[tuple[str, str]]:
    problems = []
    for reading in readings:
        problems += scope_problems(reading) if len(readings) > 1 else []
    if problems:
        return problems
    if len({holds_json(reading) for reading in readings}) > 1:
        return [("any", "elements and JSON (mend: keep one sort of them)")]
    sources: dict[str, Any] = {}
    for name, spec in each.items():
        sources |= alternatives(f"each.{name}", spec)
        if spec.type in ("object", "objects"):
            problems.append((f"each.{name}", "one level is enough (mend: a text, number or list)"))
    return problems or inner_problems(sources, readings[0], where="each")


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
    """Links of a page: the href of what CSS or XPath matches, or what a regex or a path in
    JSON finds."""

    css: Css | None = Field(
        None, description="elements (their own href, or that of the first a inside) or ::attr(…)"
    )
    xpath: XPath | None = Field(None, description="XPath 1.0, of elements or of attributes")
    jsonld: JsonLd | None = Field(
        None, description="path in the page's JSON-LD, as in `ItemList.itemListElement.url`"
    )
    state: JsonPath | None = Field(
        None, description="path in the JSON that the page's scripts start from"
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
            raise wrong(("", "no source (mend: give css, xpath, jsonld, state, response or regex)"))
        if self.attr is not None and self.css is None and self.xpath is None:
            raise wrong(("attr", "attr needs css or xpath (mend: remove it)"))
        return self


_LINK_SOURCES = ("css", "xpath", "jsonld", "state", "response", "regex")


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
    xpath: XPath | None = Field(None, description="the same, by XPath")
    jsonld: JsonLd | None = Field(None, description="the same, by a path in the page's JSON-LD")
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
