"""Products that a shop's sitemap lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from scraper.domain import Kind
from scraper.errors import FetchError
from scraper.extract.listing import LinkFilter
from scraper.extract.sitemap import SitemapReader
from scraper.plugins.author.discovery.listings.link_selectors import find_url_pattern
from scraper.plugins.author.discovery.listings.listing_page import (
    ListingPageReader,
    has_one_price,
    is_product_page,
)
from scraper.plugins.author.discovery.sampling import spread_sample
from scraper.plugins.author.discovery.survey import Survey
from scraper.politeness.robots import RobotsRules
from scraper.rules import urls

SITEMAPS_MAX = 4
PAGES_CHECKED = 2
UNSEEN_CHECKED = 4
# A page with more product cards is a listing.
CARDS_MAX = 8
# A folder with this share of the pages that files of products name has all products.
FOLDER_SHARE = 0.9
_MARKED = re.compile(r"[-_/]([A-Za-z]{1,4})[-_]\d+(?:/|\.html?)?$")


@dataclass
class SitemapFiles:
    """The pages that a sitemap and the sitemaps that it names list, by these files' URLs."""

    start: str
    pages: dict[str, list[str]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def listed(self) -> list[str]:
        return [page for pages in self.pages.values() for page in pages]

    @property
    def of_products(self) -> list[str]:
        """The pages in files of products, if the sitemap has such files."""
        return [
            page for file, pages in self.pages.items() if self._has_products(file) for page in pages
        ]

    @property
    def product_files(self) -> dict[str, Any]:
        """These files, as a definition names them."""
        files = [file for file in (*self.pages, *self.unread) if self._has_products(file)]
        return {"url": files[0]} if len(files) == 1 else {"urls": files}

    def _has_products(self, file: str) -> bool:
        return file != self.start and names_products(file)


def names_products(sitemap: str) -> bool:
    return "produ" in sitemap.rpartition("/")[2].casefold()


async def find_in_sitemap(reader: ListingPageReader, survey: Survey) -> bool:
    """Returns whether a sitemap lists products, and records it in the survey."""
    rules = await reader.polite.read_robots(survey.start)
    named = rules.sitemaps if isinstance(rules, RobotsRules) else []
    start = named[0] if named else urls.clean("/sitemap.xml", survey.start)
    if start is None:
        return False
    files = await _read_files(start, reader)
    if not files.listed:
        return False
    likely, source = max(_group_by_folder(files.listed), key=len), {"url": start}
    own = files.of_products
    if len(likely) < FOLDER_SHARE * len(own):
        likely, source = own, files.product_files
    for url in spread_sample(likely, PAGES_CHECKED):
        page = await reader.try_read(url)
        if page is None:
            return False
        if page.card_count > CARDS_MAX and not is_product_page(page):
            return False
    pattern = None if likely is own else find_url_pattern(likely)
    survey.sitemap = {**source, **_write_pattern(pattern)}
    survey.known_urls = likely
    survey.pages_text = "the sitemap"
    return True


async def add_named_sitemap(reader: ListingPageReader, survey: Survey) -> None:
    """Compares the lists with the sitemap that robots.txt names, and adds the sitemap to the
    definition if it names products that the lists may not lead to."""
    rules = await reader.polite.read_robots(survey.start)
    named = rules.sitemaps if isinstance(rules, RobotsRules) else []
    if survey.sitemap is not None or survey.listing is None or not named:
        return
    files = await _read_files(named[0], reader)
    listed, own = list(dict.fromkeys(files.listed)), list(dict.fromkeys(files.of_products))
    listed_urls = set(survey.known_urls)
    if not listed or not listed_urls:
        survey.notes.append(f"{named[0]}: the sitemap of robots.txt names no page")
        return
    likely, shared = _find_most_shared(_group_by_folder(listed), listed_urls)
    pattern, source = find_url_pattern(shared), {"url": named[0]}
    if own and len(shared) < FOLDER_SHARE * len(shared_own := _find_shared(own, listed_urls)):
        likely, shared, pattern, source = own, shared_own, None, files.product_files
    elif len(shared) * 2 < len(_bare_urls(listed_urls, likely[0])):
        # Products may be in the folders of their categories.
        for read_end in (_read_ending, _read_mark):
            by_end = _find_most_shared(_group_by(read_end, listed), listed_urls)
            if (end := read_end(by_end[0][0])) and len(by_end[1]) > len(shared):
                (likely, shared), pattern = by_end, end
    products = [url for url in likely if pattern is None or re.search(pattern, url)]
    unseen = [url for url in products if url not in shared]
    estimate = survey.products
    lists = f"about {estimate:,}" if estimate is not None else f"at least {len(listed_urls):,}"
    counts = f"the lists lead to {lists} products, and {named[0]} names {len(products):,}"
    if len(shared) * 2 < len(_bare_urls(listed_urls, likely[0])):
        survey.notes.append(f"{named[0]} names {len(listed):,} pages, but not these products")
    elif not unseen or (estimate is not None and estimate >= len(products)):
        survey.notes.append(counts)
        if pattern is not None or likely is own:
            survey.sitemap = {**source, **_write_pattern(pattern), "follow": False}
    elif await _are_products(unseen, reader):
        survey.sitemap = {**source, **_write_pattern(pattern)}
        survey.known_urls += unseen
        survey.notes.append(f"{counts}: both are read")
    else:
        survey.notes.append(f"{counts} pages like them, but some are not products: it is not read")


async def _are_products(listed: Sequence[str], reader: ListingPageReader) -> bool:
    """Returns whether a sample of the pages are products by their markup, or at least not lists."""
    for url in spread_sample(listed, UNSEEN_CHECKED):
        page = await reader.try_read(url)
        if page is None or not (is_product_page(page) or has_one_price(page)):
            return False
    return True


def _write_pattern(pattern: str | None) -> dict[str, str]:
    return {"products": pattern} if pattern else {}


async def _read_files(sitemap: str, reader: ListingPageReader) -> SitemapFiles:
    """Reads a sitemap and sitemaps that it names, those of products first."""
    files, due = SitemapFiles(sitemap), [sitemap]
    parser = SitemapReader(None, LinkFilter(reader.site))
    for _ in range(SITEMAPS_MAX):
        if not due:
            break
        url = due.pop(0)
        try:
            fetched = await reader.polite.read(url, Kind.SITEMAP)
        except FetchError:
            continue
        for link in parser.read(fetched, url).links:
            if link.kind is Kind.SITEMAP:
                due.append(link.url)
            else:
                files.pages.setdefault(url, []).append(link.url)
        due.sort(key=lambda url: not names_products(url))
    files.unread = due
    return files


def _find_most_shared(
    groups: Iterable[Sequence[str]], listed_urls: Collection[str]
) -> tuple[Sequence[str], list[str]]:
    """Returns the group with the most URLs that the lists name too, and these."""
    return max(
        ((group, _find_shared(group, listed_urls)) for group in groups),
        key=lambda pair: len(pair[1]),
    )


def _group_by(read_end: Callable[[str], str], listed: Sequence[str]) -> list[list[str]]:
    """Groups the URLs by how they end."""
    groups: dict[str, list[str]] = {}
    for url in listed:
        groups.setdefault(read_end(url), []).append(url)
    return list(groups.values())


def _read_ending(url: str) -> str:
    """Returns a pattern of the ending of the URL's file, such as ".html"; "" for a folder or
    parameters."""
    parts = urlsplit(url)
    file = parts.path.rpartition("/")[2]
    ending = "" if parts.query or "." not in file else "." + file.rpartition(".")[2]
    return re.escape(ending) + "$" if ending else ""


def _read_mark(url: str) -> str:
    """Returns a pattern of the letters before the number that ends the URL, such as the ones of
    `/red-pot-p-105`; "" if there are none."""
    match = _MARKED.search(url)
    return rf"[-_/]{match[1]}[-_]\d+(?:/|\.html?)?$" if match else ""


def _find_shared(group: Sequence[str], listed_urls: Collection[str]) -> list[str]:
    """Returns the group's URLs that the lists name too, perhaps with further parameters."""
    bare = _bare_urls(listed_urls, group[0])
    return [url for url in group if url in bare]


def _bare_urls(listed_urls: Iterable[str], like: str) -> set[str]:
    """Returns the URLs without the parameters that `like` does not have."""
    kept = _read_names(like)
    return {
        urls.clean(url, rules=urls.UrlRules(strip=tuple(_read_names(url) - kept))) or url
        for url in listed_urls
    }


def _read_names(url: str) -> frozenset[str]:
    """Returns the names of the URL's parameters."""
    return frozenset(name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True))


def _group_by_folder(listed: Sequence[str]) -> list[list[str]]:
    """Groups the URLs by their folder, or by their first folder if most have a folder each. URLs
    with parameters are grouped by their file and the parameters' names, too."""
    for depth in (None, 1):
        groups: dict[tuple[object, ...], list[str]] = {}
        for url in listed:
            *folders, file = urlsplit(url).path.split("/")[1:]
            names = _read_names(url)
            key = (*folders[:depth], (file, names) if names else None)
            groups.setdefault(key, []).append(url)
        if len(groups) * 2 <= len(listed):
            break
    return list(groups.values())
