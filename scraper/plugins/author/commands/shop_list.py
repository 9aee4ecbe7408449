"""`scraper new -f`: the shops of a list, each surveyed in a process apart, so none holds up the
others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TextIO

import click

from scraper.cli.common.shared import print_json
from scraper.cli.common.tables import one_line, print_table
from scraper.domain import as_json
from scraper.errors import ConfigError, ScraperError
from scraper.plugins.author.commands.one_shop import (
    clear_line,
    draw_line,
    name_site,
    parse_address,
    write_shop,
)
from scraper.plugins.author.commands.survey_report import survey_as_json
from scraper.plugins.author.discovery.writing import HeadKeys
from scraper.plugins.author.supervision import call_apart
from scraper.settings import Settings
from scraper.sites.grammar.scalars import SITE_NAME

# An address that a person types: with a scheme, or a name with a dot.
_ADDRESS = re.compile(r"https?://\S+|[^\s/:]+\.[^\s/:]+\S*|localhost\S*", re.IGNORECASE).fullmatch
_NAME = re.compile(SITE_NAME).fullmatch


class ListedShop(NamedTuple):
    """A line of the list. `problem`: why the line names no shop, or ""."""

    line: int
    address: str
    site: str
    problem: str = ""


def write_shops(
    file: TextIO, head: HeadKeys, settings: Settings, *, record: bool, as_json: bool
) -> None:
    """Writes the definitions of all shops in a list. Raises `ScraperError` at the end if a line
    gave none, or one that is not yet good."""
    source = getattr(file, "name", "-")
    listed = list(parse_list(file))
    if not listed:
        raise ConfigError(f"{source}: no address (fix: write one a line)")
    rows: list[dict[str, Any]] = []
    try:
        for number, shop in enumerate(listed, 1):
            place = f"{number} of {len(listed)}"
            rows.append(_find_shop(shop, head, settings, place, record=record))
            _report_shop(rows[-1], source, place, as_json=as_json)
    finally:
        if not as_json:
            print_table(("site", "file", "products read", "missing"), list(map(_make_row, rows)))
    failed = sum(bool(row["problem"]) for row in rows)
    if failed:
        raise ScraperError(
            f"{failed} of {len(rows)} lines of {source} gave no definition, or one to change "
            "(fix: see the messages above)"
        )


def parse_list(lines: Iterator[str] | TextIO) -> Iterator[ListedShop]:
    """Yields the shops of a list: an address a line, and the site's name behind it if it needs one.
    `#` begins a comment.

    >>> [shop.site for shop in parse_list(iter(["# a list", "books.example", "b.example two"]))]
    ['books', 'two']
    """
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if not words:
            continue
        shop = _parse_words(number, words)
        if not shop.problem and shop.address in seen:
            problem = f"the same address as in line {seen[shop.address]} (fix: remove one)"
            shop = shop._replace(problem=problem)
        seen.setdefault(shop.address, number)
        yield shop


def _parse_words(line: int, words: Sequence[str]) -> ListedShop:
    address = parse_address(words[0]) if _ADDRESS(words[0]) and words[0].isprintable() else None
    if address is None:
        problem = f"{words[0]!r} is not an address (fix: as in https://shop.example/all)"
        return ListedShop(line, words[0], "", problem)
    name = words[1] if len(words) > 1 else name_site(address)
    if len(words) > 2 or not _NAME(name):
        behind = " ".join(words[1:])
        problem = (
            f"{behind!r} is not a site's name (fix: one of small letters, digits, - and _, or "
            "nothing behind the address)"
        )
        return ListedShop(line, address, "", problem)
    return ListedShop(line, address, name)


def _find_shop(
    shop: ListedShop, head: HeadKeys, settings: Settings, place: str, *, record: bool
) -> dict[str, Any]:
    """Returns what the survey found, or the problem."""
    entry = {"line": shop.line, "address": shop.address, "site": shop.site or None, "file": None}
    if shop.problem:
        return {**entry, "problem": shop.problem}
    try:
        text = call_apart(partial(_survey_shop, shop, head, settings, place, record=record))
        return {**entry, **json.loads(text, parse_float=Decimal)}
    except ScraperError as error:
        return {**entry, "problem": str(error)}
    finally:
        clear_line()


def _survey_shop(
    shop: ListedShop, head: HeadKeys, settings: Settings, place: str, *, record: bool
) -> str:
    def announce(number: int, url: str) -> None:
        draw_line(f"{place}: request {number}: {one_line(url)}")

    try:
        written = write_shop(shop.address, shop.site, head, settings, announce, record=record)
    except ScraperError as error:
        return as_json({"problem": str(error)}).decode()
    return as_json({**survey_as_json(written), "problem": written.problem or None}).decode()


def _report_shop(row: dict[str, Any], source: str, place: str, *, as_json: bool) -> None:
    if as_json:
        print_json(row)
    elif row["file"]:
        click.echo(f"{place}: {row['file']} written", err=True)
    if row["problem"]:
        shown = one_line(row["problem"])
        click.echo(f"{source}:{row['line']}: {one_line(row['address'])}: {shown}", err=True)


def _make_row(row: dict[str, Any]) -> tuple[str, str, str, str]:
    if row["file"] is None:
        return row["site"] or one_line(row["address"]), "-", "-", f"all: see line {row['line']}"
    stored = sum(sample["stored"] for sample in row["samples"])
    return row["site"], row["file"], f"{stored} of {row['pages']}", ", ".join(row["missing"])
