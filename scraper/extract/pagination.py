"""Numbered listing pages: which other pages a page leads to. Pure.

With a count ("page 1 of 48") or a known `last` number, the first page leads to all others and the
others lead nowhere: 1,000 pages give 1,000 links, not 1,000,000. Without either, each page with
products leads to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote_plus, urljoin

from scraper.extract import values
from scraper.extract.document import Document
from scraper.extract.sources import SELECTOR_ERRORS, compile_source
from scraper.extract.values import Mistyped
from scraper.sites.grammar.links import Pages

_LAST_NUMBERS = re.compile(r"\d[\d.,'\u2019 ]*(?=\D*$)")
_THOUSANDS = re.compile(r"\d{1,3}(?: \d{3})+").fullmatch
_PLACE = "{page}"


class Paginator:
    def __init__(self, pages: Pages, listings_max: int) -> None:
        self._pages = pages
        self._most = listings_max
        self._count = compile_source(pages.source) if pages.counted else None

    def find_pages(
        self, document: Document, depth: int, products: bool, problems: list[str]
    ) -> Iterable[str]:
        """Returns the URLs of the listing pages that this page leads to, not yet cleaned."""
        first, step = self._pages.first, self._pages.step
        asked = self._page_number(document.page_url)
        given = self._page_number(document.url)
        page_number = given if given is not None else asked
        if self._count is None and self._pages.last is None:
            if not products:
                return []
            following = (first if page_number is None else page_number) + step
            return (
                [self._make_url(document.url, following)]
                if (following - first) // step < self._most
                else []
            )
        if depth > 0 and any(number is not None and number > first for number in (asked, given)):
            return []
        last = (
            self._pages.last if self._count is None else self._read_last_number(document, problems)
        )
        if last is None:
            return []
        end = min(last, first + step * (self._most - 1))
        current = first if page_number is None else page_number
        return [
            self._make_url(document.url, number)
            for number in range(first, end + 1, step)
            if number != current
        ]

    def has_next(self, document: Document) -> bool:
        """Returns whether another page follows, according to the count on the page."""
        if self._count is None:
            return False
        number = self._page_number(document.url)
        last = self._read_last_number(document, [])
        return last is not None and (self._pages.first if number is None else number) < last

    def ends_when_empty(self, document: Document) -> bool:
        """Returns whether a list without a count ends with this page if that has no products."""
        number = self._page_number(document.page_url)
        counted = self._count is not None or self._pages.last is not None
        return not counted and number is not None and number > self._pages.first

    def _read_last_number(self, document: Document, problems: list[str]) -> int | None:
        """Returns the last page's number from the count on the page. Returns None without a count:
        the page is the only one."""
        assert self._count is not None
        try:
            texts = self._count(document, False)
            if not texts:
                return None
            text = texts[0]
            if self._pages.regex is None:
                text = _find_last_number(text)
            count = values.to_int(text.strip(" .,'"))
        except Mistyped as error:
            problems.append(f"listing.pages: {error}")
            return None
        except SELECTOR_ERRORS:
            problems.append("listing.pages: its selector took too long or too much on this page")
            return None
        if self._pages.per_page is not None:
            count = -(-count // self._pages.per_page)
        return self._pages.first + self._pages.step * (count - 1)

    def _make_url(self, current: str, number: int) -> str:
        if self._pages.param is not None:
            return set_param(current, self._pages.param, number)
        try:
            return urljoin(current, (self._pages.url or "").replace(_PLACE, str(number)))
        except ValueError:
            return ""

    def _page_number(self, url: str) -> int | None:
        """Returns the page number in `url`, or None if the URL does not match the pattern."""
        template = self._pages.url
        name = self._pages.param
        if template is not None:
            query = template.partition("?")[2]
            name = (
                next((key for key, _, value in _split_query(query) if value == _PLACE), None)
                if _PLACE in query
                else None
            )
            if name is None:
                return _match_number(_compile_url_pattern(template), url)
        for key, _, value in _split_query(url.partition("#")[0].partition("?")[2]):
            if (
                unquote_plus(key) == name
                and value.isascii()
                and value.isdigit()
                and len(value) < 10
            ):
                return int(value)
        return None


def _find_last_number(text: str) -> str:
    """Returns the last number in the text. Spaces separate thousands, unless the numbers count up
    as in a pager: "1 234" is a number, "1 2 3" and "99 100" end in one."""
    match = _LAST_NUMBERS.search(text)
    if match is None:
        return text
    run = match[0].rstrip(" .,'\u2019")
    words = run.split(" ")
    # Numbers of pages have no zeros in front.
    if _THOUSANDS(run) and words[1] != str(int(words[0]) + 1):
        return run
    return words[-1]


def _split_query(query: str) -> list[tuple[str, str, str]]:
    return [pair.partition("=") for pair in query.split("&") if pair]


def set_param(url: str, name: str, number: int) -> str:
    """Returns the URL with the parameter set, in its old position, and the others unchanged."""
    head, _, query = url.partition("?")
    written = quote(name, safe="[]")
    pairs = [pair for pair in query.split("&") if pair]
    keys = [unquote_plus(pair.partition("=")[0]) for pair in pairs]
    if name in keys:
        pairs[keys.index(name)] = f"{written}={number}"
    else:
        pairs.append(f"{written}={number}")
    return f"{head}?{'&'.join(pairs)}"


def _compile_url_pattern(template: str) -> re.Pattern[str]:
    """Compiles a template: a relative one matches the end of a URL, an absolute one a whole URL."""
    absolute = re.match("https?://", template) is not None
    tail = template if absolute else "/" + re.sub(r"^(?:\.{0,2}/)+", "", template)
    before, _, after = tail.partition(_PLACE)
    return re.compile(
        f"{'^' if absolute else ''}{re.escape(before)}(\\d{{1,9}}){re.escape(after)}$"
    )


def _match_number(pattern: re.Pattern[str], url: str) -> int | None:
    match = pattern.search(url) or pattern.search(url.partition("?")[0])
    return int(match[1]) if match is not None else None
