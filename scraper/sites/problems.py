"""Turns pydantic's errors into messages with the key as it was written, its line, the mistake and a
fix. Pure."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from scraper import registry
from scraper.sites import blocked_keys, core_keys, definition, quality_keys, revisit_keys
from scraper.sites.grammar import fields, items, links, page_specs, routes, sources
from scraper.sites.grammar.auto_fields import AutoField

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """A line of a file."""

    file: pathlib.Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


Problem = tuple[Place, str]

_FIXES = {
    "name": "small letters, digits, - and _, as in `my-shop`",
    "queue": "small letters, digits, - and _, as in `residential`; use `region:` for where its "
    "workers run",
    "tags": "a word of letters, digits, - and _, as in `garden`",
    "region": "a short name such as `eu`, or `any`",
    "trailing_slash": "`keep` or `strip`",
    "function": "`package.module:function`",
    "currency": "three capital letters of ISO 4217, as in `EUR`",
    "decimal": '"," or "."',
    "type": f"one of {', '.join(fields.TYPES_WRITTEN)}",
    "param": "the query parameter's bare name, as in `page`",
}
# The names of field types in other languages.
_TYPES = {
    "number": "decimal", "float": "decimal", "double": "decimal", "numeric": "decimal",
    "integer": "int", "boolean": "bool", "string": "text", "str": "text", "money": "price",
    "currency": "price", "datetime": "date", "array": "list", "link": "url", "href": "url",
}  # fmt: skip
# Names that other crawlers and people use for a key.
_SAME_AS = {
    "selector": "css", "pagination": "pages", "next_page": "next", "url": "start",
    "start_url": "start",
    "start_urls": "start", "urls": "start", "cron": "schedule", "every": "schedule",
    "interval": "schedule", "tz": "timezone",
    "priority_number": "priority",
    "items": "products", "categories": "listings", "allowed_domains": "hosts", "domains": "hosts",
    "split_by": "split",
    "delay": "rate", "re": "regex", "attribute": "attr", "optional": "required", "multiple": "many",
    "kind": "type",
    "obey_robots": "robots", "useragent": "user_agent", "json_ld": "jsonld", "fallback": "any",
    "alternatives": "any",
    "class": "pool", "proxies": "proxy", "session": "sticky", "prio": "priority",
    "pattern": "match", "path": "match",
    "route": "routes", "routing": "routes", "capability": "queue", "country": "region",
}  # fmt: skip


_ANY = '`{any: [".price-new", ".price"]}`: the first with a value wins'
_NOTHING = 'give it a value; # after a space starts a comment unless it is quoted: "#price"'


def explain_problems(
    error: ValidationError, data: Any, places: Mapping[Path, Place], file: pathlib.Path
) -> list[Problem]:
    """Returns (place, `key: message (fix: …)`) for each problem in the definition of `file`,
    without repeats."""
    explained: dict[Problem, None] = {}
    for fault in error.errors(include_url=False):
        for path, message in _expand_fault(fault):
            written = _find_written_path(path, data)
            parts = (written[:end] for end in range(len(written), 0, -1))
            place = next((places[part] for part in parts if part in places), Place(file, 1))
            if place.file != file and not fault["loc"]:
                # The default is valid, but not together with other keys of this site.
                message = f"for {file.name}: {message}"
            dotted = ".".join(map(str, written))
            explained[place, f"{dotted}: {message}" if dotted else message] = None
    if isinstance(data, dict) and not data.get("start") and not data.get("sitemap"):
        # Checks of several keys run only if each of them is valid.
        explained[Place(file, 1), definition.NOWHERE] = None
    return list(explained)


def _expand_fault(fault: Any) -> Iterator[tuple[Path, str]]:
    path: Path = fault["loc"]
    if fault["type"] != "together":
        yield path, _explain_fault(fault, path)
        return
    for key, text in fault["ctx"]["problems"]:
        yield (*path, *(key.split(".") if key else ())), text


def _find_written_path(path: Path, data: Any) -> Path:
    """Returns the longest part of `path` that the file contains: pydantic also names the keys that
    shorthands expand to."""
    written: list[str | int] = []
    for step in path:
        inside = (
            step in data
            if isinstance(data, dict)
            else isinstance(data, list) and step in range(len(data))
        )
        if inside:
            data = data[step]
        elif isinstance(step, int) or step in ("[key]", "urls"):
            # A single link instead of a list, or the shorthand of `sitemap`.
            continue
        else:
            break
        written.append(step)
    return tuple(written)


def _explain_fault(fault: Any, path: Path) -> str:
    key = next(
        (str(step) for step in reversed(path) if isinstance(step, str) and step != "[key]"), ""
    )
    context = fault.get("ctx") or {}
    match fault["type"]:
        case "extra_forbidden":
            return _explain_unknown_key(path)
        case "missing":
            return f"`{path[-1]}` is missing (fix: {_fix_missing_key(str(path[-1]))})"
        case "value_error":
            return str(context.get("error", fault["msg"]))
        case "string_pattern_mismatch":
            if path[-1] == "[key]":
                return (
                    "not a field name (fix: small letters, digits and _, starting with a letter, "
                    "as "
                    "in `list_price`)"
                )
            return f"has the wrong form (fix: {_FIXES.get(key, context.get('pattern', ''))})"
        case "literal_error":
            meant = _TYPES.get(str(fault["input"]).lower()) if key == "type" else None
            fix = f"`{meant}`" if meant else _FIXES.get(key, "choose one of these")
            return f"must be {context.get('expected')} (fix: {fix})"
        case "bool_parsing" | "bool_type":
            return "must be true or false (fix: write `true` or `false`)"
        case "int_parsing" | "int_type" | "int_from_float":
            return "must be a whole number (fix: without quotes, separators and units)"
        case "string_type" if isinstance(fault["input"], list | tuple) and key in sources.SOURCES:
            return f"must be one text (fix: put alternatives under `any:`, as in {_ANY})"
        case "string_type":
            return 'must be a text (fix: quote it, as in `"…"`)'
        case "model_type" | "dict_type" | "model_attributes_type":
            return _explain_missing_mapping(fault["input"], path)
        case "tuple_type" | "list_type":
            return "must be a text or a list (fix: `- ` before each entry)"
        case _:
            text = f"{fault['msg'][:1].lower()}{fault['msg'][1:]}"
            return f"{text} (fix: see docs/how-to/definitions.md)"


def _explain_missing_mapping(value: Any, path: Path) -> str:
    if value is None:
        return f"is empty (fix: {_NOTHING})"
    if isinstance(value, list | tuple) and path[-2:-1] == ("fields",):
        return f"must be one source, not a list (fix: {_ANY})"
    if isinstance(value, str) and path == ("listing",):
        return f"must be a mapping of keys (fix: `listing: {{products: {value!r}}}`)"
    return "must be a mapping of keys (fix: put its keys below it, indented by two spaces)"


def _fix_missing_key(key: str) -> str:
    if key == "product":
        return "say what to read from product pages: `product: {fields: {title: h1::text}}`"
    if key == "urls":
        return "`urls:` with the sitemap's address"
    return f"add `{key}:`"


def _explain_unknown_key(path: Path) -> str:
    key = str(path[-1])
    keys = _list_keys_at(path[:-1])
    inactive = registry.inactive_plugin_of_key(key) if len(path) == 1 else None
    if inactive is not None:
        return inactive.explain_need()
    before, colon, behind = key.partition(":")
    if colon and before in keys:
        return f"unknown key (fix: a space after the colon: `{before}: {behind}`)"
    if path[:-1] == ("product",) and key in get_args(AutoField):
        return f"unknown key here (fix: put fields under `fields:`, as `fields: {{{key}: …}}`)"
    alias = _SAME_AS.get(key.lower())
    elsewhere = f"listing.{alias}" if alias in page_specs.Listing.model_fields else None
    elsewhere = elsewhere or next(
        (f"{place}.{key}" for place, model in _PLACES.items() if key in model.model_fields), None
    )
    near = difflib.get_close_matches(key.lower().replace("-", "_"), keys, 1, 0.6)
    if alias in keys:
        near = [alias]
    elif elsewhere is not None:
        near = []
    if near:
        return f"unknown key (fix: did you mean `{near[0]}`?)"
    if elsewhere is not None:
        return (
            f"unknown key here (fix: did you mean `{elsewhere.lstrip('.')}`? check the indentation)"
        )
    return f"unknown key (fix: one of {', '.join(keys)})"


_PLACES: dict[str, type[BaseModel]] = {
    "": definition.Site, "listing": page_specs.Listing, "listing.pages": links.Pages,
    "product": page_specs.ProductPage, "product.items": items.Items,
    "sitemap": page_specs.Sitemap, "limits": core_keys.Limits, "quality": quality_keys.Quality,
    "routes": routes.RouteRule, "blocked": blocked_keys.Blocked,
    "revisit": revisit_keys.RevisitBounds,
    **definition.plugin_places(),
}  # fmt: skip


def _list_keys_at(path: Path) -> list[str]:
    names = [step for step in path if isinstance(step, str)]
    match names:
        case ["listing", "products" | "listings" | "next"]:
            model: type[BaseModel] = links.LinkSource
        case ["product", "fields", _] | ["product", "fields", _, "each", _]:
            model = fields.FieldSpec
        case ["product", "items", "fields", _] | ["product", "items", "fields", _, "each", _]:
            model = fields.FieldSpec
        case ["product", *_, "fields", _, "any"] | ["product", *_, "each", _, "any"]:
            model = fields.FieldSource
        case ["product", "id"] | ["product", "items", "id"]:
            model = fields.IdSource
        case ["product", "id", "any"] | ["product", "items", "id", "any"]:
            model = sources.Source
        case _:
            model = _PLACES.get(".".join(names), definition.Site)
    return list(model.model_fields)
