"""Where a shop lists its products: the page itself, a list of all, categories, a sitemap."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from scraper.domain import Kind
from scraper.errors import FetchError
from scraper.extract.listing import LinkFilter
from scraper.extract.sitemap import SitemapReader
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.listings.cards import LinkGroup, pattern_of
from scraper.plugins.author.discovery.listings.continuation import Continuation
from scraper.plugins.author.discovery.listings.listing_page import (
    REPEATED_SHARE,
    ListingPage,
    ListingReader,
    is_home,
    is_product,
    links_of,
)
from scraper.plugins.author.discovery.listings.paging import next_link, numbered_links
from scraper.plugins.author.discovery.sampling import spread
from scraper.plugins.author.discovery.survey import NoShopError, Survey
from scraper.politeness.robots import RobotsRules
from scraper.rules import urls
from scraper.rules.decoding import clean_text

CATEGORY_GROUPS = 4
CATEGORY_LEVELS = 3
CATALOGUES_MAX = 3
SITEMAPS_MAX = 4
# A group of links with prices and so high a score is no menu.
SURE_SCORE = 20
# What links to the list of all products are called, and the last part of their paths.
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
    """A group of links, and some of the pages behind it."""

    group: LinkGroup
    pages: list[ListingPage] = field(default_factory=list)


class ListingSearch:
    """Finds the list of a shop's products, and notes it in the survey."""

    def __init__(self, reader: ListingReader, survey: Survey) -> None:
        self._reader, self._survey = reader, survey
        self._site = reader.site
        self._continuation = Continuation(reader, survey)

    async def find(self, first: ListingPage) -> None:
        """Raises `NoShopError`."""
        await self._compare(first)
        group = first.products
        if group is not None and await self._continuation.find(first, group, single=True):
            return
        if (group is None or is_home(first.url)) and (
            await self._catalogue(first) or await self._categories(first) or await self._sitemap()
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
        self._take_single_page(first, group)

    def _take_single_page(self, page: ListingPage, group: LinkGroup) -> None:
        self._survey.take([page], group)
        self._survey.listing = {"products": links_of(page, group, self._site.owns)}
        self._survey.pages_text, self._survey.pages = "no further page", 1

    async def _compare(self, first: ListingPage) -> None:
        """Where a page has several lists, those that its next page shows as well are its frame."""
        lists = [group for group in first.groups if group.is_products]
        following = next_link(first.document)
        url = following[1] if following else numbered_links(first.document).get(2)
        if len(lists) < 2 or url is None:
            return
        second = await self._reader.read_if_there(url)
        if second is None:
            return
        of_second = [set(group.urls) for group in second.groups]
        repeated = self._reader.repeated
        for group in first.groups:
            least = REPEATED_SHARE * len(group.urls)
            if any(len(known.intersection(group.urls)) >= least for known in of_second):
                repeated.update(group.urls)
        if all(repeated.issuperset(group.urls) for group in lists):
            # It is not another page of the list.
            repeated.clear()

    async def _catalogue(self, home: ListingPage) -> bool:
        """One list of all products, behind a link that says so: "Shop", "Alle Produkte"."""
        known = set(home.products.urls) if home.products is not None else set()
        for url in self._links_to_all(home)[:CATALOGUES_MAX]:
            page = await self._reader.read_if_there(url)
            products = page.products if page is not None else None
            if page is None or products is None or is_product(page):
                continue
            if await self._continuation.find(page, products, single=True):
                self._survey.start = page.url
                return True
            if len(set(products.urls) - known) >= len(known):
                self._take_single_page(page, products)
                self._survey.start = page.url
                return True
        return False

    def _links_to_all(self, home: ListingPage) -> list[str]:
        """Addresses of links that call themselves the list of all products, the plainest first."""
        plainness: dict[str, int] = {}
        for link in home.document.dom.css("a[href]"):
            url = urls.clean(link.attributes.get("href") or "", home.document.base)
            if url is None or not self._site.owns(url) or url in (home.url, self._survey.start):
                continue
            last = urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]
            says = 2 * bool(_ALL.fullmatch(clean_text(whole_text(link))))
            says += bool(_ALL_PATH.fullmatch(last))
            if says:
                plainness[url] = max(plainness.get(url, 0), says)
        return sorted(plainness, key=lambda url: -plainness[url])

    async def _categories(self, home: ListingPage) -> bool:
        """Lists of products behind groups of links, such as a menu's, or behind the groups on the
        pages that those lead to."""
        levels: list[Any] = []
        seen = {home.url, self._survey.start}
        if home.products is not None and any(card.amounts for card in home.products.cards):
            seen.update(home.products.urls)
        parent = home
        for _ in range(CATEGORY_LEVELS):
            listing, below = await self._category_pages(parent, seen)
            chosen = listing or below
            if chosen is None:
                return False
            links = links_of(parent, chosen.group, self._site.owns)
            if links not in levels:
                levels.append(links)
            if listing is not None:
                await self._take_categories(listing, levels)
                return True
            seen.update(url for group in parent.groups for url in group.urls)
            parent = chosen.pages[0]
        return False

    async def _take_categories(self, categories: Categories, levels: list[Any]) -> None:
        """Notes how their lists go on, by one that does."""
        survey = self._survey
        pages = sorted(categories.pages, key=lambda page: next_link(page.document) is None)
        first = pages[0]
        products = first.products
        assert products is not None
        if not await self._continuation.find(first, products, single=False):
            survey.listing = {"products": links_of(first, products, self._site.owns)}
            survey.pages_text = "categories of one page each"
        survey.take(pages, products)
        assert survey.listing is not None
        survey.listing["listings"] = levels if len(levels) > 1 else levels[0]
        depth = f" on {len(levels)} levels" if len(levels) > 1 else ""
        survey.pages_text = f"{len(categories.group.cards)} categories{depth}; {survey.pages_text}"
        survey.pages = None

    async def _category_pages(
        self, parent: ListingPage, seen: Collection[str]
    ) -> tuple[Categories | None, Categories | None]:
        """The largest group of links whose pages list products, and a group whose pages list none
        but have links that nobody saw before."""
        best: Categories | None = None
        below: Categories | None = None
        others = [group for group in parent.groups if not _is_surely_products(group)]
        others.sort(key=lambda group: len(group.cards), reverse=True)
        for group in others[:CATEGORY_GROUPS]:
            listing, silent = Categories(group), Categories(group)
            for url in spread([url for url in group.urls if url not in seen], 3):
                page = await self._reader.read_if_there(url)
                if page is None:
                    continue
                if page.lists_products:
                    listing.pages.append(page)
                elif _leads_on(page, parent, seen):
                    silent.pages.append(page)
            larger = best is None or len(group.cards) > len(best.group.cards)
            if len(listing.pages) >= 2 and larger:
                best = listing
            if len(silent.pages) >= 2 and below is None:
                below = silent
        return best, below

    async def _sitemap(self) -> bool:
        """Products that a sitemap lists."""
        survey = self._survey
        rules = await self._reader.polite.robots(survey.start)
        named = rules.sitemaps if isinstance(rules, RobotsRules) else []
        start = named[0] if named else urls.clean("/sitemap.xml", survey.start)
        listed = await self._listed_in(start) if start else []
        if not listed:
            return False
        likely = max(_by_folder(listed), key=len)
        for url in spread(likely, 2):
            page = await self._reader.read_if_there(url)
            if page is None:
                return False
            if page.products is not None and not is_product(page) and len(page.products.cards) > 8:
                return False
        pattern = pattern_of(likely)
        survey.sitemap = {"url": start, **({"products": pattern} if pattern else {})}
        survey.known_urls = likely
        survey.pages_text = "the sitemap"
        return True

    async def _listed_in(self, sitemap: str) -> list[str]:
        """The pages of a sitemap, and of those that it names: first of all those of products."""
        due, listed = [sitemap], list[str]()
        reader = SitemapReader(None, LinkFilter(self._site))
        for _ in range(SITEMAPS_MAX):
            if not due:
                break
            url = due.pop(0)
            try:
                fetched = await self._reader.polite.read(url, Kind.SITEMAP)
            except FetchError:
                continue
            for link in reader.read(fetched, url).links:
                (due if link.kind is Kind.SITEMAP else listed).append(link.url)
            due.sort(key=lambda url: "product" not in url and "produ" not in url)
        return listed


async def listing_above(product: ListingPage, reader: ListingReader) -> ListingPage:
    """The listing that a product page belongs to; itself where there is none."""
    few = len(product.products.cards) if product.products is not None else 0
    for url in dict.fromkeys(_ways_up(product, reader)):
        page = await reader.read_if_there(url) if url != product.url else None
        if page is None or is_product(page):
            continue
        listed = len(page.products.cards) if page.products is not None else 0
        if listed > few or is_product(product):
            return page
    return product


def _ways_up(product: ListingPage, reader: ListingReader) -> Iterator[str]:
    """The last three of its breadcrumbs, the nearest first, and the shop's home."""
    crumbs: Sequence[LexborNode] = product.document.dom.css(
        "[class*=breadcrumb i] a[href], [aria-label*=breadcrumb i] a[href]"
    )
    near = [urls.clean(link.attributes.get("href") or "", product.document.base) for link in crumbs]
    yield from [url for url in reversed(near) if url and reader.site.owns(url)][:3]
    home = urls.clean("/", product.url)
    if home:
        yield home


def _is_surely_products(group: LinkGroup) -> bool:
    return group.is_products and group.score > SURE_SCORE and group.priced > 0


def _leads_on(page: ListingPage, parent: ListingPage, seen: Collection[str]) -> bool:
    """Whether it has links that neither its parent has nor anybody saw."""
    known = {url for group in parent.groups for url in group.urls}.union(seen)
    return any(len(set(group.urls) - known) >= 2 for group in page.groups)


def _by_folder(listed: Sequence[str]) -> list[list[str]]:
    """The URLs of each folder; of the first one alone where each has a folder of its own."""
    for depth in (None, 2):
        groups: dict[tuple[str, ...], list[str]] = {}
        for url in listed:
            folder = tuple(urlsplit(url).path.split("/")[1:-1][: depth and depth - 1])
            groups.setdefault(folder, []).append(url)
        if len(groups) * 2 <= len(listed):
            break
    return list(groups.values())
