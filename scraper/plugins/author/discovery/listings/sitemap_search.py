"""Products that a shop's sitemap lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

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


async def find_in_sitemap(reader: ListingPageReader, survey: Survey) -> bool:
    """Returns whether a sitemap lists products, and records it in the survey."""
    rules = await reader.polite.read_robots(survey.start)
    named = rules.sitemaps if isinstance(rules, RobotsRules) else []
    start = named[0] if named else urls.clean("/sitemap.xml", survey.start)
    listed = await _list_pages(start, reader) if start else []
    if not listed:
        return False
    likely = max(_group_by_folder(listed), key=len)
    for url in spread_sample(likely, PAGES_CHECKED):
        page = await reader.try_read(url)
        if page is None:
            return False
        if page.card_count > CARDS_MAX and not is_product_page(page):
            return False
    pattern = find_url_pattern(likely)
    survey.sitemap = {"url": start, **({"products": pattern} if pattern else {})}
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
    listed = list(dict.fromkeys(await _list_pages(named[0], reader)))
    listed_urls = set(survey.known_urls)
    if not listed or not listed_urls:
        survey.notes.append(f"{named[0]}: the sitemap of robots.txt names no page")
        return
    likely = max(_group_by_folder(listed), key=lambda group: len(listed_urls.intersection(group)))
    shared = listed_urls.intersection(likely)
    pattern = find_url_pattern(sorted(shared))
    products = [url for url in likely if pattern is None or re.search(pattern, url)]
    unseen = [url for url in products if url not in listed_urls]
    estimate = survey.products
    lists = f"about {estimate:,}" if estimate is not None else f"{len(listed_urls):,} so far"
    counts = f"the lists lead to {lists} products, and {named[0]} names {len(products):,}"
    if len(shared) * 2 < len(listed_urls):
        survey.notes.append(f"{named[0]} names {len(listed):,} pages, but not these products")
    elif not unseen or (estimate is not None and estimate >= len(products)):
        survey.notes.append(counts)
    elif await _are_products(unseen, reader):
        survey.sitemap = {"url": named[0], **({"products": pattern} if pattern else {})}
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


async def _list_pages(sitemap: str, reader: ListingPageReader) -> list[str]:
    """Returns the pages of a sitemap and of the sitemaps that it names, those of products first."""
    due, listed = [sitemap], list[str]()
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
            (due if link.kind is Kind.SITEMAP else listed).append(link.url)
        due.sort(key=lambda url: "product" not in url and "produ" not in url)
    return listed


def _group_by_folder(listed: Sequence[str]) -> list[list[str]]:
    """Groups the URLs by their folder, or by their first folder if most have a folder each."""
    for depth in (None, 1):
        groups: dict[tuple[str, ...], list[str]] = {}
        for url in listed:
            folders = tuple(urlsplit(url).path.split("/")[1:-1])
            groups.setdefault(folders[:depth], []).append(url)
        if len(groups) * 2 <= len(listed):
            break
    return list(groups.values())
