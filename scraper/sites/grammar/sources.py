"""Where a text is read from on a page, and which sources can be combined. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from scraper.sites.grammar.auto_fields import AutoField
from scraper.sites.grammar.css import parse_css
from scraper.sites.grammar.model import (
    Captured,
    Css,
    JsonLd,
    JsonPath,
    MetaName,
    Model,
    Regex,
    XPath,
    expand_css,
)

SOURCES = (
    *("css", "xpath", "jsonld", "microdata", "rdfa", "meta", "state", "auto", "response"),
    *("regex", "url"),
)
# Sources that match elements or JSON objects, within which fields are read.
SCOPES = ("css", "xpath", "jsonld", "microdata", "state", "response")
_TEXT_OF_XPATH = re.compile(r"(?:^|/)(?:@[\w:-]+|text\(\))\s*$")
# The formats of structured data in schema.org's vocabulary; they use the same paths.
STRUCTURED = ("jsonld", "microdata", "rdfa")
# A source has exactly one of these keys; `regex` can be added to it.
_PLACES = tuple(key for key in SOURCES if key != "regex")
RESPONSE = (
    "a JSON response that the browser captured, by its name in `browser.responses`; needs `path`"
)
PATH = "path in that JSON, as in `product.offers[0].price`; a list without an index: each entry"
INNER_PATH = "; within `items` and `each`: in the JSON of each"


class Source(Model):
    """The source of a text. Needs one of css, xpath, jsonld, microdata, rdfa, meta, state, auto,
    response, url; `regex` picks a part of the text, or of the page's source."""

    css: Css | None = Field(
        None,
        description="CSS; `::text` and `::attr(name)` as in parsel; otherwise the element's whole "
        "text",
    )
    xpath: XPath | None = Field(None, description="XPath 1.0")
    jsonld: JsonLd | None = Field(
        None, description="path in the page's JSON-LD, as in `Product.offers.price`"
    )
    microdata: JsonLd | None = Field(None, description="path in the page's microdata, like jsonld")
    rdfa: JsonLd | None = Field(
        None, description="path in the page's RDFa of schema.org, like jsonld"
    )
    meta: MetaName | None = Field(
        None, description="the name or property of a <meta> tag, as in `og:title`: its content"
    )
    state: JsonPath | None = Field(
        None,
        description="path in the JSON that the page's scripts start with, as in "
        "`__NEXT_DATA__.props.pageProps.product.price`",
    )
    auto: AutoField | None = Field(
        None, description="the value of this field that the page's own sources agree on"
    )
    response: Captured | None = Field(None, description=RESPONSE)
    path: JsonPath | None = Field(None, description=PATH + INNER_PATH)
    regex: Regex | None = Field(
        None, description="group 1 (or the whole match) in the text; alone: in the page's source"
    )
    url: Regex | None = Field(None, description="a regular expression on the page's URL")

    @property
    def described(self) -> str:
        """The source as messages name it: `css 'h1::text'`."""
        if self.response is not None:
            return describe_response(self.response, self.path)
        for key in SOURCES:
            if getattr(self, key) is not None:
                return f"{key} {getattr(self, key)!r}"
        return f"path {self.path!r}" if self.path is not None else "nothing"

    def find_source_problems(self) -> list[tuple[str, str]]:
        """Returns (key, sentence) for keys that cannot be combined."""
        given = [key for key in _PLACES if getattr(self, key) is not None]
        if self.response is not None and self.path is None:
            return [make_path_problem(self.response)]
        if self.path is not None and self.response is None:
            if given:
                return [make_path_problem(None)]
            # `items`, `each` and the product page check whether `path` is allowed here.
            given = ["path"]
        if len(given) > 1:
            fix = "keep one, or list both under `any:`"
            return [(given[1], f"{given[0]} and {given[1]} together (fix: {fix})")]
        if not given and self.regex is None:
            return [("", f"no source (fix: give one of {', '.join(SOURCES)})")]
        if self.url is not None and self.regex is not None:
            return [("regex", "url is itself a regular expression (fix: keep `url:` alone)")]
        return []


def describe_response(response: str, path: str | None) -> str:
    return f"response {response!r} at {path!r}"


def make_path_problem(response: str | None) -> tuple[str, str]:
    if response is None:
        return "path", (
            "path is only for `response`, or for fields within `items` and `each` of JSON (fix: "
            "add "
            "`response:`, or write the whole path at `jsonld:` or `state:`)"
        )
    return "response", "needs a path in the response (fix: `path:`, as in `product.price`)"


def holds_json(source: Source) -> bool:
    """Returns whether the source gives JSON instead of elements."""
    if source.css is not None:
        return not parse_css(source.css).selects_elements
    if source.xpath is not None:
        return _TEXT_OF_XPATH.search(source.xpath) is not None
    return True


def expand_inner_fields(written: Any, scope: Any) -> Any:
    """Expands the plain texts among the fields within a scope: to paths if the scope gives JSON,
    else to CSS or XPath like the scope."""
    if not isinstance(written, dict) or not isinstance(scope, dict):
        return written
    return {name: expand_inner_source(spec, scope) for name, spec in written.items()}


def expand_inner_source(written: Any, scope: dict[str, Any]) -> Any:
    if not isinstance(written, str):
        return written
    entries = scope.get("any")
    first = entries[0] if isinstance(entries, list | tuple) and entries else scope
    first = expand_css(first) if isinstance(first, str | dict) else {}
    try:
        within = Source.model_construct(css=first.get("css"), xpath=first.get("xpath"))
        if any(key in first for key in (*SCOPES, "path")) and holds_json(within):
            return {"path": written}
    except (ValueError, TypeError):
        # The scope's own check reports its mistake.
        return expand_css(written)
    return {"xpath": written} if "xpath" in first else expand_css(written)


def find_scope_problems(source: Source) -> list[tuple[str, str]]:
    """Returns (key, sentence) for a source that must match elements or JSON objects."""
    given = [key for key in _PLACES if getattr(source, key) is not None]
    wrong_keys = [key for key in (*given, "regex") if key not in SCOPES]
    wrong_keys = [key for key in wrong_keys if getattr(source, key) is not None]
    if wrong_keys:
        fix = f"one of {', '.join(SCOPES)}"
        return [
            (wrong_keys[0], f"{wrong_keys[0]} matches neither elements nor objects (fix: {fix})")
        ]
    if not given and source.path is not None:
        return []
    if len(given) != 1:
        both = f"{' and '.join(given)} together" if given else "no source"
        return [(given[1] if given else "", f"{both} (fix: give one of {', '.join(SCOPES)})")]
    if source.response is not None and source.path is None:
        return [make_path_problem(source.response)]
    if source.path is not None and source.response is None:
        if given[0] not in ("css", "xpath"):
            return [("path", f"path and {given[0]} together (fix: write the whole path there)")]
        if not holds_json(source):
            return [("path", (
                f"is for JSON, but {given[0]} selects elements (fix: add `::text` or `::attr(…)` "
                "if "
                "their text is JSON, or remove `path`)"
            ))]  # fmt: skip
    return []


def find_inner_problems(
    sources: Mapping[str, Source], scope: Source, *, where: str
) -> list[tuple[str, str]]:
    """Returns (key, sentence) for sources that cannot be read within the matches of `scope`.
    `sources`: by their keys."""
    json = holds_json(scope)
    own = "xpath"
    if json:
        own = "path"
    elif scope.css is not None:
        own = "css"
    problems = []
    for key, source in sources.items():
        given = [name for name in _PLACES if getattr(source, name) is not None]
        if source.path is not None and source.response is None:
            given.append("path")
        if getattr(source, "table", None) is not None:
            given.append("table")
        if source.regex is not None and not given:
            given.append("regex")
        for name in given:
            if name == own or (name == "table" and own == "css"):
                continue
            elsewhere = "" if where == "each" else ", or move the field to `product.fields`"
            fix = f"`{own}:` within it{elsewhere}"
            matched = "JSON" if json else f"elements by {own}"
            text = f"{name} cannot be read here: `{where}` matches {matched} (fix: {fix})"
            problems.append((f"{key}.{name}", text))
        if source.xpath is not None and own == "xpath" and source.xpath.lstrip().startswith("/"):
            text = "starts at the page's root, not at the element (fix: put `.` before it)"
            problems.append((f"{key}.xpath", text))
    return problems


def list_alternatives(key: str, source: Any) -> dict[str, Any]:
    """Returns a source by its key, or the alternatives of its `any` by their keys."""
    if not source.any:
        return {key: source}
    return {f"{key}.any.{at}": part for at, part in enumerate(source.any)}
