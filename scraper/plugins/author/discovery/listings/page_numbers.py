"""Numbered pages of a list: the pattern of their URLs, the links to them, and how many there are.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from pydantic import ValidationError
from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import short_text, walk_visible
from scraper.extract.pagination import Paginator, set_param
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.css_paths import ancestors, find_paths, matches_first
from scraper.plugins.author.discovery.listings.next_links import read_link
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.links import Pages

# "Page 1 of 50", "Seite 1 von 50", "1 / 50", but no date such as "12/24/2026".
_OF = re.compile(
    r"(?<![\d/])(?:\d+)\s*(of|von|sur|de|di|van|av|af|z|ze|из|/)\s*(\d{1,6})(?![\d.,%€$£/])", re.I
)
_PAGE_PARAM = re.compile(r"p|pg|page|paged|seite|pagina|página|sida|side|strana").fullmatch
_PAGE_IN_PATH = re.compile(r"(?:page|seite|pagina|sida|side|strana|p)[-_/=]?(2)(?=$|[/.?])").search
COUNT_TEXT_CHARS_MAX = 120
_SPAN = re.compile(
    r"(?<!\d)1\s*(?:-|–|—|to|bis|à|a|al|tot|til|do)\s*(\d{1,5})"
    r"\s*\(?\s*(?:of|von|sur|de|di|van|av|af|z|ze|из|/)\s*(\d{1,6})(?![\d.,%€$£])",
    re.I,
)
_TOTAL = re.compile(
    r"\(?(?:[^\W\d]+ ){0,2}(\d{1,6}) (?:products?|items?|articles?|results?|produkte?|artikel"
    r"|ergebnisse|treffer|produits?|résultats?|productos?|artículos?|prodotti|articoli|risultati"
    r"|producten|artikelen|produkter|varor|produktów|produktů|товаров)(?: [^\W\d]+)?\)?[.:]?",
    re.I,
)
COUNTS = range(2, 100_000)
PAGE_DIGITS_MAX = 5
# A text that counts pages comes before the numbers of the pager, whose last one may not be the last
# page. Among texts, lasting selectors come first, then short texts.
CHARS_PER_RANK = 20
PAGER_COST = 1000


@dataclass(frozen=True, slots=True)
class Numbering:
    """How the pages' URLs are numbered. Either `param` or `template` says where the number is."""

    first: int
    step: int
    param: str | None = None
    template: str | None = None

    def write_url(self, start: str, number: int) -> str:
        if self.template is not None:
            return self.template.replace("{page}", str(number))
        assert self.param is not None
        return set_param(start, self.param, number)

    def nth_url(self, start: str, page: int) -> str:
        """Returns the URL of the list's `page`, from 1."""
        return self.write_url(start, self.first + self.step * (page - 1))

    def read_page(self, url: str, start: str) -> int:
        """Returns which page, from 1, of the list at `start` a URL leads to; 0 if to none. The URL
        may have more parameters than the list's."""
        if self.param is not None:
            params = dict(_parse_query(url))
            number = params.pop(self.param, "")
            own = [pair for pair in _parse_query(start) if pair[0] != self.param]
            if urlsplit(url).path != urlsplit(start).path or not params.items() >= {*own}:
                return 0
        else:
            before, _, after = (self.template or "").partition("{page}")
            match = re.match(rf"{re.escape(before)}(\d+){re.escape(after)}(?=$|[?&#])", url)
            number = match[1] if match is not None else ""
        return (int(number) - self.first) // self.step + 1 if number.isdecimal() else 0

    def options(self) -> dict[str, Any]:
        """Returns the numbering as `listing.pages` of a definition."""
        options: dict[str, Any] = {}
        if self.param is not None:
            options["param"] = self.param
        else:
            parts = urlsplit(self.template or "")
            options["url"] = parts.path + (f"?{parts.query}" if parts.query else "")
        if self.first != 1:
            options["first"] = self.first
        if self.step != 1:
            options["step"] = self.step
        return options


@dataclass(frozen=True, slots=True)
class PageCount:
    """A statement of how many pages there are: `options` as `listing.pages` of a definition, and
    the text that it is read from. A low `rank` lasts."""

    pages: int
    options: dict[str, Any]
    text: str
    rank: int = 0


def counts_more(document: Document, cards: int) -> bool:
    """Returns whether a list says that it has more products than it shows: "1-20 of 71", or
    "71 products"."""
    for _, text in _find_texts_with_numbers(document):
        span, total = _SPAN.search(text), _TOTAL.fullmatch(text)
        if span is not None and int(span[1]) == cards < int(span[2]):
            return True
        if total is not None and cards < int(total[1]):
            return True
    return False


def _find_texts_with_numbers(document: Document) -> Iterator[tuple[LexborNode, str]]:
    """Yields the elements with a short text that has a digit, and the text."""
    for element in walk_visible(document.dom.root):  # type: ignore[arg-type]
        # The whole text of each element would take time by the depth of the page squared.
        if any(map(str.isdigit, short_text(element, 2 * COUNT_TEXT_CHARS_MAX))):
            text = clean_text(whole_text(element))
            if len(text) <= COUNT_TEXT_CHARS_MAX:
                yield element, text


def find_numbered_links(document: Document) -> dict[int, str]:
    """Returns the URLs of links that are only a page's number, by that number; at least two, or the
    second page's."""
    pages: dict[int, str] = {}
    for link in document.dom.css("a[href]"):
        text = clean_text(whole_text(link))
        url = read_link(link, document)
        if text.isdigit() and len(text) <= PAGE_DIGITS_MAX and url is not None and text in url:
            pages.setdefault(int(text), url)
    return pages if len(pages) >= 2 or 2 in pages else {}


def find_sent_params(document: Document) -> list[str]:
    """Returns the parameters by which buttons of a GET form ask for the second page."""
    sending = "form button[name][value='2'], form input[type=submit i][name][value='2']"
    names = [
        button.attributes["name"] or ""
        for button in document.dom.css(sending)
        if (button.attributes.get("type") or "submit").lower() == "submit" and _is_get_form(button)
    ]
    return [name for name in dict.fromkeys(names) if _PAGE_PARAM(name)]


def _is_get_form(button: LexborNode) -> bool:
    form: LexborNode | None = button
    while form is not None and form.tag != "form":
        form = form.parent
    return form is not None and (form.attributes.get("method") or "get").lower() == "get"


def find_pager_links(document: Document) -> str | None:
    """Returns CSS of all the links to numbered pages."""
    pager = _find_pager(document)
    if pager is None:
        return None
    for path in find_paths(pager):
        if ":nth-child" not in path.css and matches_first(path.css, pager, document.dom):
            return f"{path.css} a"
    return None


def infer_numbering(second: str, third: str | None, first: str | None = None) -> Numbering | None:
    """Returns how pages are numbered, by the URLs of the second and the third page, or of the first
    and the second. The second alone is enough if it has a 2 where shops count pages."""
    if third is not None:
        return _keep_writable(_compare_urls(second, third))
    numbering = _compare_urls(first, second) if first is not None else None
    if numbering is not None:
        return _keep_writable(replace(numbering, first=numbering.first + numbering.step))
    for key, value in _parse_query(second):
        if value == "2" and _PAGE_PARAM(key):
            return Numbering(1, 1, param=key)
    match = _PAGE_IN_PATH(second)
    if match is None:
        return None
    return Numbering(1, 1, template=second[: match.start(1)] + "{page}" + second[match.end(1) :])


def skips_pages(url: str, numbered: Mapping[int, str], start: str) -> bool:
    """Returns whether a link leads further than the page that the pager's link "2" leads to: to the
    last page, or behind those that the pager shows."""
    if 2 not in numbered:
        return False
    numbering = infer_numbering(numbered[2], numbered.get(3), start)
    return numbering is not None and numbering.read_page(url, start) > 2


def _keep_writable(numbering: Numbering | None) -> Numbering | None:
    """Returns a numbering that a definition may have."""
    if numbering is None:
        return None
    try:
        Pages.model_validate(numbering.options())
    except ValidationError:
        return None
    return numbering


def _compare_urls(second: str, third: str) -> Numbering | None:
    """Returns the numbering of two URLs that differ in one number."""
    numbers = [list(re.finditer(r"\d+", url)) for url in (second, third)]
    if len(numbers[0]) != len(numbers[1]) or re.sub(r"\d+", "#", second) != re.sub(
        r"\d+", "#", third
    ):
        return None
    differing = [pair for pair in zip(*numbers, strict=True) if pair[0][0] != pair[1][0]]
    if len(differing) != 1:
        return None
    match, next_match = differing[0]
    number, step = int(match[0]), int(next_match[0]) - int(match[0])
    first = number - step
    if step < 1 or first < -step:
        return None
    for key, value in _parse_query(second):
        if value == match[0] and second[: match.start()].endswith(f"{key}="):
            return Numbering(first, step, param=key)
    template = second[: match.start()] + "{page}" + second[match.end() :]
    return Numbering(first, step, template=template)


def _parse_query(url: str) -> list[tuple[str, str]]:
    pairs = (pair.partition("=") for pair in urlsplit(url).query.split("&") if pair)
    return [(unquote_plus(key), unquote_plus(value)) for key, _, value in pairs]


def find_page_counts(document: Document, numbering: Numbering) -> list[PageCount]:
    """Returns where the page may say how many pages there are, the likeliest first."""
    candidates: list[tuple[int, PageCount]] = []
    for element, text in _find_texts_with_numbers(document):
        # "1-12 of 82" counts products, although a shop may show its last page at `?p=82`.
        match = _OF.search(text) if _SPAN.search(text) is None else None
        if match is not None and int(match[2]) in COUNTS:
            regex = rf"\d+\s*{re.escape(match[1])}\s*(\d+)"
            count = _locate_count(document, element, int(match[2]), regex, text)
            if count is not None:
                candidates.append((count.rank * CHARS_PER_RANK + len(text), count))
    pager = _find_pager(document)
    if pager is not None and numbering.step == 1:
        text = clean_text(whole_text(pager))
        numbers = re.findall(r"\d+", text)
        if numbers and numbering.first == 1 and int(numbers[-1]) in COUNTS:
            count = _locate_count(document, pager, int(numbers[-1]), r"(\d+)\D*$", text)
            if count is not None:
                candidates.append((PAGER_COST, count))
    return [count for _, count in sorted(candidates, key=lambda candidate: candidate[0])]


def _find_pager(document: Document) -> LexborNode | None:
    """Returns the smallest element that holds all the links to numbered pages."""
    # A list may have a pager above it, and the same one below it.
    links: dict[str, LexborNode] = {}
    for link in document.dom.css("a[href]"):
        text = clean_text(whole_text(link))
        if text.isdigit() and read_link(link, document):
            links.setdefault(text, link)
    if not links:
        return None
    for ancestor in ancestors(next(iter(links.values())), 8):
        inside = {link.mem_id for link in ancestor.css("a[href]")}
        if all(link.mem_id in inside for link in links.values()):
            return ancestor
    return None


def _locate_count(
    document: Document, element: LexborNode, pages: int, regex: str, text: str
) -> PageCount | None:
    """Returns the count with CSS of its element, and the simplest regex that reads it."""
    plain = regex.replace(r"\d+\s*", "", 1).replace(r"\s*", " ")
    regex = plain if re.search(plain, text) else regex
    for path in find_paths(element):
        if matches_first(path.css, element, document.dom):
            return PageCount(pages, {"css": path.css, "regex": regex}, text, path.rank)
    return None


def leads_to_all(document: Document, count: PageCount, numbering: Numbering) -> bool:
    """Returns whether a crawl would find every page by what this one, the first, says."""
    pages = Pages.model_validate({**count.options, **numbering.options()})
    problems: list[str] = []
    listed = set(Paginator(pages, count.pages + 1).find_pages(document, 0, True, problems))
    numbers = (numbering.first + numbering.step * at for at in range(1, count.pages))
    expected = {numbering.write_url(document.url, number) for number in numbers}
    return expected <= listed and not problems
