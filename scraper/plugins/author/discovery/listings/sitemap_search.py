"""Products that a shop's sitemap lists."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from scraper.domain import Kind
from scraper.errors import FetchError
from scraper.extract.listing import LinkFilter
from scraper.extract.sitemap import SitemapReader
from scraper.plugins.author.discovery.listings.link_selectors import find_url_pattern
from scraper.plugins.author.discovery.listings.listing_page import (
    ListingPageReader,
    is_product_page,
)
from scraper.plugins.author.discovery.sampling import spread_sample
from scraper.plugins.author.discovery.survey import Survey
from scraper.politeness.robots import RobotsRules
from scraper.rules import urls

SITEMAPS_MAX = 4
PAGES_CHECKED = 2
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
