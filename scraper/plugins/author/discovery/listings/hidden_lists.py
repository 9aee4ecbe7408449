"""Lists that no menu names. The first page may show products of such a list, whose breadcrumbs name
it."""

from __future__ import annotations

from collections.abc import Sequence

from scraper.errors import FetchError
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.addresses import split_address
from scraper.plugins.author.discovery.fields.visible_elements import find_breadcrumbs
from scraper.plugins.author.discovery.listings.link_selectors import match_urls
from scraper.plugins.author.discovery.listings.listing_page import (
    ListingPage,
    ListingPageReader,
    is_home_url,
)
from scraper.plugins.author.discovery.product_pages import ProductPages
from scraper.plugins.author.discovery.rare_cards import KNOWN_COMPARED, is_formed_like
from scraper.plugins.author.discovery.sampling import spread_sample
from scraper.plugins.author.discovery.survey import Survey
from scraper.rules.decoding import clean_text

# Product pages of the first page that are read, and lists in breadcrumbs of these.
STRANGERS_READ = 6
LISTS_READ = 4


class HiddenLists:
    """Finds such lists, and records them as further pages to start from."""

    def __init__(self, reader: ListingPageReader, survey: Survey, pages: ProductPages) -> None:
        self._reader, self._survey, self._pages = reader, survey, pages

    async def find(self, first: ListingPage) -> None:
        """Does nothing for a shop whose lists are not a menu's, or whose sitemap is crawled."""
        survey = self._survey
        levels = (survey.listing or {}).get("listings")
        if levels is None or survey.follows_sitemap or survey.interface is not None:
            return
        read = [first, *survey.listing_pages]
        followed = {page.url for page in read} | {survey.start}
        for level in levels if isinstance(levels, list) else [levels]:
            css = level if isinstance(level, str) else level.get("css")
            if css is not None:
                followed.update(
                    url for page in read for url in match_urls(css, page.document, self._owns_url)
                )
        named: dict[str, str] = {}
        for url in spread_sample(self._list_strangers(first), STRANGERS_READ):
            if not self._reader.has_read_enough:
                crumbs = await self._read_breadcrumbs(url)
                if crumbs and followed.isdisjoint(crumbs):
                    named.setdefault(*next(iter(crumbs.items())))
        for url, text in list(named.items())[:LISTS_READ]:
            page = await self._reader.try_read(url)
            if page is not None and page.lists_products:
                survey.more_starts[page.url] = text
        if survey.more_starts:
            names = ", ".join(map(repr, survey.more_starts.values()))
            survey.notes.append(
                f"no menu names {names}: they are start pages too, since products of the first "
                "page are in them; a menu that leaves out these may leave out others"
            )

    def _owns_url(self, url: str) -> bool:
        return self._reader.site.owns(url)

    def _list_strangers(self, first: ListingPage) -> Sequence[str]:
        """Returns the first page's products that are on no list that was read."""
        listed_urls = set(self._survey.known_urls)
        formed = [split_address(url) for url in self._survey.known_urls[:KNOWN_COMPARED]]
        cards = [card for group in first.groups if group.is_products for card in group.cards]
        return [
            url
            for url in dict.fromkeys(card.url for card in cards if card.amounts)
            if url not in listed_urls and is_formed_like(split_address(url), formed)
        ]

    async def _read_breadcrumbs(self, url: str) -> dict[str, str]:
        """Returns the texts of the links in a product's breadcrumbs by their URLs, the topmost list
        first."""
        try:
            _, sample = await self._pages.read_sample(url, None, shown=False)
        except FetchError:
            return {}
        crumbs: dict[str, str] = {}
        for _, links in find_breadcrumbs(sample):
            for link in links:
                target = sample.document.clean_link(link.attributes.get("href") or "")
                if target is not None and self._owns_url(target) and not is_home_url(target):
                    crumbs.setdefault(target, clean_text(whole_text(link)))
        return crumbs
