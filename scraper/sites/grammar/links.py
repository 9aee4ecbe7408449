"""The links of listing pages, and pagination. Pure."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from scraper.sites.grammar.model import (
    Captured,
    Css,
    JsonLd,
    JsonPath,
    Model,
    Problems,
    Regex,
    XPath,
    expand_texts,
    refuse,
)
from scraper.sites.grammar.sources import (
    PATH,
    RESPONSE,
    Source,
    describe_response,
    make_path_problem,
)


class LinkSource(Model):
    """Links of a page: the href of elements that CSS or XPath matches, or the matches of a regex or
    of a path in JSON."""

    css: Css | None = Field(
        None, description="elements (their href, or that of the first `a` inside) or ::attr(…)"
    )
    xpath: XPath | None = Field(None, description="XPath 1.0, for elements or attributes")
    jsonld: JsonLd | None = Field(
        None, description="path in the page's JSON-LD, as in `ItemList.itemListElement.url`"
    )
    state: JsonPath | None = Field(
        None, description="path in the JSON that the page's scripts start with"
    )
    response: Captured | None = Field(None, description=RESPONSE)
    path: JsonPath | None = Field(None, description=PATH)
    regex: Regex | None = Field(
        None, description="in the page's source: group 1 (or the whole match) of every match"
    )
    attr: str | None = Field(
        None, min_length=1, max_length=100, description="the attribute to read instead of href"
    )
    match: Regex | None = Field(
        None, description="a regular expression; keeps only the absolute URLs that match"
    )

    @property
    def described(self) -> str:
        key = next(key for key in _LINK_SOURCES if getattr(self, key) is not None)
        source = (
            f"{key} {getattr(self, key)!r}"
            if self.response is None
            else describe_response(self.response, self.path)
        )
        return source + (f" (match {self.match!r})" if self.match else "")

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        given = [key for key in _LINK_SOURCES if getattr(self, key) is not None]
        if (self.response is None) != (self.path is None):
            refuse(*make_path_problem(self.response))
        if not given:
            refuse("", "no source (fix: give css, xpath, jsonld, state, response or regex)")
        if len(given) > 1:
            fix = "keep one; give a list for several"
            refuse(given[1], f"{' and '.join(given)} together (fix: {fix})")
        if self.attr is not None and self.css is None and self.xpath is None:
            refuse("attr", "attr needs css or xpath (fix: remove it)")
        return self


_LINK_SOURCES = ("css", "xpath", "jsonld", "state", "response", "regex")


Links = Annotated[
    tuple[LinkSource, ...],
    BeforeValidator(
        expand_texts("css"), json_schema_input_type=str | LinkSource | list[str | LinkSource]
    ),
]


class Pages(Model):
    """Numbered listing pages: up to a count on the page, up to a `last` number, or until a page has
    no products."""

    css: Css | None = Field(
        None, description="the element that shows the number of pages (or products)"
    )
    xpath: XPath | None = Field(None, description="the same by XPath")
    jsonld: JsonLd | None = Field(None, description="the same by a path in the page's JSON-LD")
    regex: Regex | None = Field(
        None, description="the number in that text, as in `of (\\d+)`; default: its last number"
    )
    url: str | None = Field(
        None, description="the pages' URL with {page}, absolute or relative to the current page"
    )
    param: str | None = Field(
        None,
        pattern=r"^[\w.\[\]~-]+$",
        max_length=100,
        description="instead of `url`: the query parameter to set",
    )
    first: int = Field(1, ge=0, le=1_000_000, description="the first page's number")
    last: int | None = Field(
        None, ge=0, le=10_000_000, description="the last page's number, if it is known"
    )
    step: int = Field(
        1, ge=1, le=100_000, description="difference between page numbers: 24 for ?start=24, 48 …"
    )
    per_page: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="products on a page, if the number on the page counts products",
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
    def _check_consistency(self) -> Self:
        problems = Problems()
        if (self.url is None) == (self.param is None):
            problems.add(
                "", 'needs one of url and param (fix: `url: "page-{page}.html"` or `param: page`)'
            )
        if self.url is not None and self.url.count("{page}") != 1:
            problems.add(
                "url",
                f"{self.url!r} needs {{page}} once (fix: put it where the number goes: "
                "`?page={page}`)",
            )
        if sum(key is not None for key in (self.css, self.xpath, self.jsonld)) > 1:
            problems.add("", "several sources (fix: keep one of css, xpath, jsonld)")
        if self.counted and self.last is not None:
            problems.add(
                "last",
                "the number of pages is read from the page already (fix: remove `last` or the "
                "selector)",
            )
        if self.last is not None and self.last < self.first:
            problems.add(
                "last",
                f"{self.last} is before the first page, {self.first} (fix: `last` is the last "
                "page's number)",
            )
        if self.per_page is not None and not self.counted:
            problems.add(
                "per_page",
                "per_page has no number to divide (fix: add css and regex that read it, or "
                "remove it)",
            )
        problems.raise_any()
        return self
