"""A survey as a definition with comments, for people to read and change. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scraper.domain import Kind
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.survey import Survey

# These are written without quotes; what YAML would read as something else is not.
_BARE = re.compile(r"[A-Za-z.][\w./() -]*[\w.)]|[A-Za-z]").fullmatch
_MEANS_MORE = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"})
_LISTED_AND_SOLD = frozenset({Kind.LISTING, Kind.PRODUCT})
EXAMPLE_CHARS = 60


def definition_text(survey: Survey, name: str, rate: str, *, private: bool) -> str:
    """The YAML of a definition."""
    lines = [
        "# yaml-language-server: $schema=schema.json",
        f"# Written by `scraper new {survey.start}` from {len(survey.listing_pages)} listing and "
        f"{len(survey.samples)} product pages. Look it over, then: scraper try {name}",
        f"name: {name}",
    ]
    if survey.sitemap is not None:
        lines.append(f"sitemap: {inline(survey.sitemap)}")
    else:
        lines.append(f"start: {inline(survey.start)}")
    lines.append(
        f"rate: {rate}                     # requests to one host, by all workers together"
    )
    if survey.interface is not None:
        lines.append(
            f"platform: {survey.interface.name}         # its interface gave "
            f"{len(survey.interface.products)} variants on one page; the rest is for when it closes"
        )
    if survey.unproved:
        lines.append(f"# Unproved: {_comment(survey.unproved)}")
    if private:
        lines.append(
            "allow_private: true           # only because this address is not a public one"
        )
    everywhere = survey.shown >= _LISTED_AND_SOLD
    if everywhere:
        lines.append("queue: browser                # scripts fill its pages")
    if survey.rendering:
        lines.append(f"browser: {inline(survey.rendering)}")
    if survey.strip_params:
        lines.append(
            f"strip_params: {inline(survey.strip_params)}        # they only say where a link stood"
        )
    if survey.listing is not None:
        lines += ["", "listing:"]
        if Kind.LISTING in survey.shown and not everywhere:
            lines.append("  queue: browser              # scripts fill it")
        lines.append(f"  # {survey.links} links on the first page.")
        lines += _entries(survey.listing, "  ", {"pages": survey.pages_text})
    lines += ["", "product:"]
    if Kind.PRODUCT in survey.shown and not everywhere:
        lines.append("  queue: browser              # scripts fill it")
    return "\n".join([*lines, *_product(survey)]) + "\n"


def _product(survey: Survey) -> Iterator[str]:
    """The lines of `product:`, but for its queue."""
    if survey.id is not None:
        yield f"  id: {inline(survey.id)}"
    else:
        yield "  # No number of its own was found: a product is known by its URL."
    pages = len(survey.samples)
    if survey.items is not None:
        variants = survey.items
        own = variants.items["fields"]
        scope = {key: value for key, value in variants.items.items() if key != "fields"}
        yield "  items:"
        yield (
            f"    # {variants.pages} of {pages} pages have {variants.sizes}, each with a number "
            "and a price of its own"
        )
        yield from _entries(scope, "    ", {})
        yield "    fields:"
        yield from _entries(own, "      ", {})
    yield "  fields:" if survey.fields else "  fields: auto"
    for name, choice in survey.fields.items():
        yield from _field(name, choice, pages)


def _entries(values: Mapping[str, Any], indent: str, comments: Mapping[str, str]) -> list[str]:
    lines = []
    for key, value in values.items():
        if comments.get(key):
            lines.append(f"{indent}# {_comment(comments[key])}")
        lines.append(f"{indent}{key}: {inline(value)}")
    return lines


def _field(name: str, choice: FieldChoice, pages: int) -> list[str]:
    best = choice.best
    if best is None:
        nearest = [f"    #   {name}: {_comment(guess)}" for guess in choice.guesses]
        return [f"    # {name}: nothing on the pages was certain enough", *nearest]
    agrees = ", ".join(sorted(best.agrees))
    example = next((value for value in best.values if value is not None), None)
    comment = f"    # {best.count} of {pages} pages; {_comment(str(example))[:EXAMPLE_CHARS]}"
    if agrees:
        comment += f"; agrees with: {agrees}"
    options = choice.definition()
    if name in ("title", "price") and best.count == pages:
        options["required"] = True
    if "any" in options:
        lines = [comment, f"    {name}:"]
        lines += [f"      {key}: {inline(value)}" for key, value in options.items() if key != "any"]
        lines.append("      any:")
        lines += [f"        - {inline(source)}" for source in options["any"]]
        return lines
    return [comment, f"    {name}: {inline(options)}"]


def inline(value: Any) -> str:
    """A value within a line of YAML."""
    match value:
        case bool():
            return "true" if value else "false"
        case Mapping():
            pairs = ", ".join(f"{inline(key)}: {inline(inner)}" for key, inner in value.items())
            return f"{{{pairs}}}"
        case list() | tuple():
            return f"[{', '.join(map(inline, value))}]"
        case str():
            return _quoted(value)
        case _:
            return str(value)


def _quoted(text: str) -> str:
    if _BARE(text) and text.casefold() not in _MEANS_MORE:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _comment(text: str) -> str:
    """A stranger's text on one line."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200]
