"""A survey as a definition with comments, for people to read and edit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from scraper.domain import Kind
from scraper.errors import quote_command
from scraper.plugins.author.discovery.fields.expected_former import NONE_NOW
from scraper.plugins.author.discovery.fields.induction import FieldChoice

if TYPE_CHECKING:
    from scraper.plugins.author.discovery.platform import OpenInterface
    from scraper.plugins.author.discovery.survey import Survey

# Texts that need no quotes, and words that YAML reads as another type.
_BARE = re.compile(r"[A-Za-z.][\w./() -]*[\w.)]|[A-Za-z]").fullmatch
_MEANS_MORE = frozenset({"none", "y", "n"})
_LISTED_AND_SOLD = frozenset({Kind.LISTING, Kind.PRODUCT})
EXAMPLE_CHARS = 60


class HeadKeys(NamedTuple):
    """The keys that the options of `scraper new` give. `rate`: None to keep that of
    defaults.yaml."""

    rate: str | None
    schedule: str | None = None
    queue: str | None = None
    tags: Sequence[str] = ()

    @property
    def written(self) -> dict[str, Any]:
        """Returns the keys that have a value."""
        given = {**self._asdict(), "tags": list(self.tags)}
        return {key: value for key, value in given.items() if value not in (None, [])}


def definition_text(survey: Survey, name: str, head: HeadKeys, *, private: bool) -> str:
    """Returns the YAML of a definition."""
    lines = [
        *_write_head(survey, name, head, private=private),
        *_write_listing(survey),
        "",
        "product:",
        *_write_product(survey),
    ]
    return "\n".join(lines) + "\n"


def _write_head(survey: Survey, name: str, head: HeadKeys, *, private: bool) -> Iterator[str]:
    """Yields the lines about the whole site."""
    yield "# yaml-language-server: $schema=schema.json"
    yield (
        f"# Written by `{quote_command('scraper new', survey.start)}` from "
        f"{len(survey.listing_pages)} listing and {len(survey.samples)} product pages. Check it, "
        f"then run: {quote_command('scraper try', name)}"
    )
    yield f"name: {name}"
    if survey.sitemap is not None:
        why = "" if survey.follows_sitemap else "      # a second count of the products"
        yield f"sitemap: {write_inline(survey.sitemap)}{why}"
    if survey.sitemap is None or survey.listing is not None:
        starts = [survey.start, *survey.more_starts]
        yield f"start: {write_inline(starts if survey.more_starts else survey.start)}"
    for key in ("tags", "schedule"):
        if key in head.written:
            yield f"{key}: {write_inline(head.written[key])}"
    if head.rate is not None:
        yield f"rate: {head.rate}                 # requests to one host, by all workers together"
    if survey.interface is not None:
        yield from _write_platform(survey, survey.interface)
    if survey.unproved:
        yield f"# Unproved: {_one_line(survey.unproved)}"
    if private:
        yield "allow_private: true           # only because this address is not public"
    if needs_browser_everywhere(survey):
        yield "queue: browser                # scripts fill its pages"
    elif head.queue:
        yield f"queue: {write_inline(head.queue)}"
    if survey.rendering:
        yield f"browser: {write_inline(survey.rendering)}"
    if survey.strip_params:
        params = write_inline(survey.strip_params)
        yield f"strip_params: {params}        # they change nothing"
    if survey.one_address:
        yield "one_address: true             # lists link to a product by several addresses"


def _write_platform(survey: Survey, interface: OpenInterface) -> Iterator[str]:
    yield (
        f"platform: {interface.name}         # its interface gave {len(interface.products)} "
        "variants on one page; the rest of this file is read if it closes"
    )
    if added := survey.describe_page_fields():
        yield f"# {added}"


def _write_listing(survey: Survey) -> Iterator[str]:
    if survey.listing is None:
        return
    yield from ("", "listing:")
    if Kind.LISTING in survey.shown and not needs_browser_everywhere(survey):
        yield "  queue: browser              # scripts fill it"
    yield f"  # {survey.links} links on the first page."
    yield from _write_entries(survey.listing, "  ", {"pages": survey.pages_text})


def needs_browser_everywhere(survey: Survey) -> bool:
    """Returns whether a browser has to render lists and products."""
    return survey.shown >= _LISTED_AND_SOLD


def _write_product(survey: Survey) -> Iterator[str]:
    """Yields the lines below `product:`."""
    if Kind.PRODUCT in survey.shown and not needs_browser_everywhere(survey):
        yield "  queue: browser              # scripts fill it"
    if survey.id is not None:
        yield f"  id: {write_inline(survey.id)}"
    else:
        yield "  # No product number was found: the URL identifies a product."
    if survey.product_params:
        params = write_inline(survey.product_params)
        yield f"  strip_params: {params}        # they only name the page of the link"
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
        yield from _write_entries(scope, "    ", {})
        yield "    fields:"
        yield from _write_entries(own, "      ", {})
    yield "  fields:" if survey.fields else "  fields: auto"
    for name, choice in survey.fields.items():
        yield from _write_field(name, choice, pages)


def _write_entries(
    values: Mapping[str, Any], indent: str, comments: Mapping[str, str]
) -> list[str]:
    lines = []
    for key, value in values.items():
        if comments.get(key):
            lines.append(f"{indent}# {_one_line(comments[key])}")
        lines.append(f"{indent}{key}: {write_inline(value)}")
    return lines


def _write_field(name: str, choice: FieldChoice, pages: int) -> list[str]:
    best = choice.best
    if best is None:
        nearest = [f"    #   {name}: {_one_line(guess)}" for guess in choice.guesses]
        return [f"    # {name}: nothing on the pages was certain enough", *nearest]
    agrees = ", ".join(sorted(best.agrees))
    example = next((value for value in best.values if value is not None), NONE_NOW)
    comment = f"    # {best.count} of {pages} pages; {_one_line(str(example))[:EXAMPLE_CHARS]}"
    if agrees:
        comment += f"; agrees with: {agrees}"
    options = choice.definition()
    # What a product cannot be without: one that is sold out may show no price.
    if name == "title" and best.count == pages:
        options["required"] = True
    if "any" in options:
        lines = [comment, f"    {name}:"]
        lines += [
            f"      {key}: {write_inline(value)}" for key, value in options.items() if key != "any"
        ]
        lines.append("      any:")
        lines += [f"        - {write_inline(source)}" for source in options["any"]]
        return lines
    return [comment, f"    {name}: {write_inline(options)}"]


def write_inline(value: Any) -> str:
    """Returns a value as YAML on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case Mapping():
            pairs = ", ".join(
                f"{write_inline(key)}: {write_inline(inner)}" for key, inner in value.items()
            )
            return f"{{{pairs}}}"
        case list() | tuple():
            return f"[{', '.join(map(write_inline, value))}]"
        case str():
            return _quote_text(value)
        case _:
            return str(value)


def _quote_text(text: str) -> str:
    if _BARE(text) and yaml.safe_load(text) == text and text.casefold() not in _MEANS_MORE:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escape_char, text)) + '"'


def _escape_char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _one_line(text: str) -> str:
    """Returns a text from a page as one printable line."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200]
