"""Where a shop lists its products: the page itself, a list of all, categories, a sitemap."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.listings.cards import LinkGroup
from scraper.plugins.author.discovery.listings.continuation import Continuation
from scraper.plugins.author.discovery.listings.link_selectors import match_urls
from scraper.plugins.author.discovery.listings.list_shapes import (
    find_list_pattern,
    find_unfollowed_lists,
)
from scraper.plugins.author.discovery.listings.listing_page import (
    REPEATED_SHARE,
    ListingPage,
    ListingPageReader,
    is_home_url,
    is_product_page,
    write_links,
)
from scraper.plugins.author.discovery.listings.next_links import find_next_link
from scraper.plugins.author.discovery.listings.page_numbers import find_numbered_links
from scraper.plugins.author.discovery.listings.sitemap_search import find_in_sitemap
from scraper.plugins.author.discovery.sampling import spread_sample
from scraper.plugins.author.discovery.survey import NoShopError, Survey
from scraper.rules import urls
from scraper.rules.decoding import clean_text

CATEGORY_GROUPS = 4
CATEGORY_LEVELS = 3
CATEGORIES_TRIED = 3
# Pages behind a group of links that must agree.
CATEGORIES_MIN = 2
CATALOGUES_MAX = 3
LISTS_NAMED = 5
# A group of links with prices and a higher score is not a menu.
MENU_SCORE_MAX = 20
# Names of links to the list of all products, and the last part of their paths.
_ALL = re.compile(
    r"(?:shop|store|catalogu?e?|products?|all products|shop all|view all|all|all items|browse"
    r"|alle produkte|produkte|sortiment|zum shop|alle artikel|boutique|tous les produits"
    r"|nos produits"
    r"|produits|catálogo|productos|todos los productos|tienda|tutti i prodotti|prodotti|catalogo"
    r"|negozio"
    r"|alle producten|producten|winkel|assortiment|alla produkter|produkter|alle varer|butik|sklep"
    r"|wszystkie produkty|produkty|všechny produkty|obchod|каталог|все товары)",
    re.I,
)
_ALL_PATH = re.compile(
    r"(?:shop|store|catalogu?e?|products?|all|all-products|shop-all|produkte|sortiment|boutique"
    r"|produits|productos|tienda|prodotti|catalogo|producten|winkel|produkter|sklep|produkty|obchod)"
    r"(?:\.\w+)?",
    re.I,
)


@dataclass(slots=True)
class Categories:
    """A group of links, and some of the pages that they lead to."""

    group: LinkGroup
    pages: list[ListingPage] = field(default_factory=list)


class ListingSearch:
    """Finds the list of a shop's products, and records it in the survey."""

    def __init__(self, reader: ListingPageReader, survey: Survey) -> None:
        self._reader, self._survey = reader, survey
        self._site = reader.site
        self._continuation = Continuation(reader, survey)

    async def find(self, first: ListingPage) -> None:
        """Raises `NoShopError`."""
        await self._find_repeated_links(first)
        group = first.products
        if group is not None and await self._continuation.find(first, group, single=True):
            return
        if (group is None or is_home_url(first.url)) and (
            await self._find_catalogue(first)
            or await self._find_categories(first)
            or await find_in_sitemap(self._reader, self._survey)
        ):
            return
        if group is None:
            scripts = len(first.document.dom.css("script"))
            links = len(first.document.dom.css("a[href]"))
            raise NoShopError(
                f"{first.url}: no list of products was found: {links} links, {scripts} scripts, "
                "and no repeated cards with prices or pictures (fix: give the address of a "
                "category page)"
            )
        self._record_single_page(first, group)

    def _record_single_page(self, page: ListingPage, group: LinkGroup) -> None:
        self._survey.record_listing_pages([page], group)
        self._survey.listing = {"products": write_links(page, group, self._site.owns)}
        self._survey.pages_text, self._survey.pages = "no further page", 1

    async def _find_repeated_links(self, first: ListingPage) -> None:
        """Compares the page's lists with its next page's: lists on both pages are its frame."""
        lists = [group for group in first.groups if group.is_products]
        following = find_next_link(first.document)
        url = following[1] if following else find_numbered_links(first.document).get(2)
        if len(lists) < 2 or url is None:
            return
        second = await self._reader.try_read(url)
        if second is None:
            return
        second_groups = [set(group.urls) for group in second.groups]
        repeated = self._reader.repeated
        for group in first.groups:
            least = REPEATED_SHARE * len(group.urls)
            if any(len(links.intersection(group.urls)) >= least for links in second_groups):
                repeated.update(group.urls)
        if all(repeated.issuperset(group.urls) for group in lists):
            # The link leads to another list, not to the next page of this one.
            repeated.clear()

    async def _find_catalogue(self, home: ListingPage) -> bool:
        """Follows links named as the list of all products, such as "Shop" or "Alle Produkte"."""
        shown = set(home.products.urls) if home.products is not None else set()
        for url in self._list_catalogue_links(home)[:CATALOGUES_MAX]:
            page = await self._reader.try_read(url)
            products = page.products if page is not None else None
            if page is None or products is None or is_product_page(page):
                continue
            if await self._continuation.find(page, products, single=True):
                self._survey.start = page.url
                return True
            if len(set(products.urls) - shown) >= len(shown):
                self._record_single_page(page, products)
                self._survey.start = page.url
                return True
        return False

    def _list_catalogue_links(self, home: ListingPage) -> list[str]:
        """Returns URLs of links named as the list of all products, the plainest first."""
        plainness: dict[str, int] = {}
        for link in home.document.dom.css("a[href]"):
            url = urls.clean(link.attributes.get("href") or "", home.document.base)
            if url is None or not self._site.owns(url) or url in (home.url, self._survey.start):
                continue
            last_part = urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]
            weight = 2 * bool(_ALL.fullmatch(clean_text(whole_text(link))))
            weight += bool(_ALL_PATH.fullmatch(last_part))
            if weight:
                plainness[url] = max(plainness.get(url, 0), weight)
        return sorted(plainness, key=lambda url: -plainness[url])

    async def _find_categories(self, home: ListingPage) -> bool:
        """Follows groups of links, such as a menu's, to lists of products, or to pages whose own
        groups lead to such lists."""
        levels: list[Any] = []
        seen = {home.url, self._survey.start}
        if home.products is not None and any(card.amounts for card in home.products.cards):
            seen.update(home.products.urls)
        parent = home
        for _ in range(CATEGORY_LEVELS):
            listing, below = await self._read_categories(parent, seen)
            chosen = listing or below
            if chosen is None:
                return False
            links = write_links(parent, chosen.group, self._site.owns)
            if links not in levels:
                levels.append(links)
            if listing is not None:
                await self._record_categories(listing, levels, [home, parent])
                return True
            seen.update(url for group in parent.groups for url in group.urls)
            parent = chosen.pages[0]
        return False

    async def _record_categories(
        self, categories: Categories, levels: list[Any], parents: Sequence[ListingPage]
    ) -> None:
        """Records how the lists continue, by one that does, and lists that no selector names."""
        survey = self._survey
        pages = sorted(categories.pages, key=lambda page: find_next_link(page.document) is None)
        first = pages[0]
        products = first.products
        assert products is not None
        if not await self._continuation.find(first, products, single=False):
            survey.listing = {"products": write_links(first, products, self._site.owns)}
            survey.pages_text = "categories of one page each"
        survey.record_listing_pages(pages, products)
        assert survey.listing is not None
        await self._find_more_lists(categories, levels, parents)
        survey.listing["listings"] = levels if len(levels) > 1 else levels[0]
        depth = f" on {len(levels)} levels" if len(levels) > 1 else ""
        survey.pages_text = f"{len(categories.group.cards)} categories{depth}; {survey.pages_text}"
        survey.pages = None

    async def _find_more_lists(
        self, categories: Categories, levels: list[Any], parents: Sequence[ListingPage]
    ) -> None:
        """Adds links that have the shape of the lists' URLs to the levels, such as sub-categories
        in drop-downs, if one of them lists products."""
        lists = categories.group.urls
        pages = list({page.url: page for page in (*parents, *categories.pages)}.values())
        products = [url for page in pages if page.products for url in page.products.urls]
        pattern = find_list_pattern(lists, set(products + self._survey.known_urls) - set(lists))
        if pattern is None:
            return
        followed = {*lists, *(page.url for page in pages)}
        for css in (level if isinstance(level, str) else level["css"] for level in levels):
            followed.update(*(match_urls(css, page.document, self._site.owns) for page in pages))
        more = find_unfollowed_lists(pages, pattern, followed, self._site)
        for url in spread_sample(more, CATEGORIES_TRIED):
            page = await self._reader.try_read(url)
            if page is not None and page.lists_products:
                levels.append({"css": "a[href]", "match": pattern})
                names = ", ".join(repr(text) for text in list(more.values())[:LISTS_NAMED])
                self._survey.notes.append(
                    f"{len(more)} further lists have the same form of address, and are followed: "
                    f"{names}"
                )
                return

    async def _read_categories(
        self, parent: ListingPage, seen: Collection[str]
    ) -> tuple[Categories | None, Categories | None]:
        """Returns the largest group of links whose pages list products, and a group whose pages
        list none but have unseen links."""
        best: Categories | None = None
        below: Categories | None = None
        groups = [group for group in parent.groups if not _is_surely_products(group)]
        groups.sort(key=lambda group: len(group.cards), reverse=True)
        for group in groups[:CATEGORY_GROUPS]:
            listing, leading = Categories(group), Categories(group)
            unseen = [url for url in group.urls if url not in seen]
            for url in spread_sample(unseen, CATEGORIES_TRIED):
                page = await self._reader.try_read(url)
                if page is None:
                    continue
                if page.lists_products:
                    listing.pages.append(page)
                elif _leads_on(page, parent, seen):
                    leading.pages.append(page)
            is_larger = best is None or len(group.cards) > len(best.group.cards)
            if len(listing.pages) >= CATEGORIES_MIN and is_larger:
                best = listing
            if len(leading.pages) >= CATEGORIES_MIN and below is None:
                below = leading
        return best, below


def _is_surely_products(group: LinkGroup) -> bool:
    return group.is_products and group.score > MENU_SCORE_MAX and group.priced_share > 0


def _leads_on(page: ListingPage, parent: ListingPage, seen: Collection[str]) -> bool:
    """Returns whether the page has a group with links that are new: neither its parent's nor
    seen."""
    old = {url for group in parent.groups for url in group.urls}.union(seen)
    return any(len(set(group.urls) - old) >= 2 for group in page.groups)
