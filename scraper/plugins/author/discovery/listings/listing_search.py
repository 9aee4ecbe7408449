"""Where a shop lists its products: the page itself, a list of all, categories, a sitemap."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from scraper.extract.document import Document
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.addresses import split_address
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
from scraper.rules.decoding import clean_text

CATEGORY_GROUPS = 4
CATEGORY_LEVELS = 3
CATEGORIES_TRIED = 3
OTHERS_TRIED = 4
# Lists that are read, in addition to the first ones, in search of one that has a second page.
LONGER_TRIED = 5
# Pages behind a group of links that must agree.
CATEGORIES_MIN = 2
CATALOGUES_MAX = 3
# Lists of at least this number of products may be pages of longer ones.
CUT_OFF_MIN = 8
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
    """A group of links, and some of the pages that they lead to. `above`: pages that lead to
    `pages`, and list no products themselves. `others`: smaller groups that lead to lists too."""

    group: LinkGroup
    pages: list[ListingPage] = field(default_factory=list)
    above: list[ListingPage] = field(default_factory=list)
    others: list[LinkGroup] = field(default_factory=list)


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
            url = home.document.clean_link(link.attributes.get("href") or "")
            if url is None or not self._site.owns(url) or url in (home.url, self._survey.start):
                continue
            last_part = urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]
            text = clean_text(whole_text(link)).strip(" .…»›→>")
            weight = 2 * bool(_ALL.fullmatch(text))
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
            avoided = [(page.document, _find_unlisting(page)) for page in chosen.pages]
            links = write_links(parent, chosen.group, self._site.owns, avoided)
            if links not in levels:
                levels.append(links)
            if listing is not None:
                others = [
                    write_links(parent, group, self._site.owns, avoided) for group in listing.others
                ]
                levels += [other for other in others if other not in levels]
                await self._record_categories(listing, levels, [home, parent, *listing.above])
                return True
            seen.update(url for group in parent.groups for url in group.urls)
            parent = chosen.pages[0]
        return False

    async def _record_categories(
        self, categories: Categories, levels: list[Any], parents: Sequence[ListingPage]
    ) -> None:
        """Records how the lists continue, by one that does, and lists that no selector names."""
        survey, first = self._survey, categories.pages[0]
        assert first.products is not None
        if not await self._find_continued(categories):
            survey.listing = {"products": write_links(first, first.products, self._site.owns)}
            survey.pages_text = "categories of one page each"
        survey.record_listing_pages(categories.pages, first.products)
        assert survey.listing is not None
        lists = await self._find_more_lists(categories, levels, parents)
        documents = [page.document for page in (*parents, *categories.pages, *categories.above)]
        if self._matches_lists(survey.listing["products"], documents, lists):
            avoided = [(document, lists) for document in documents]
            links = write_links(first, first.products, self._site.owns, avoided)
            survey.listing["products"] = links
        survey.listing["listings"] = levels if len(levels) > 1 else levels[0]
        depth = f" on {len(levels)} levels" if len(levels) > 1 else ""
        survey.pages_text = f"{len(categories.group.cards)} categories{depth}; {survey.pages_text}"
        survey.pages = None

    def _matches_lists(
        self, links: Any, documents: Sequence[Document], lists: Collection[str]
    ) -> bool:
        """Returns whether the products' links lead to lists too, such as cards of
        sub-categories."""
        if "state" in links:
            return False
        css, match = (links, "") if isinstance(links, str) else (links["css"], links["match"])
        matched = (match_urls(css, document, self._site.owns) for document in documents)
        return any(re.search(match, url) for urls in matched for url in urls.intersection(lists))

    async def _find_continued(self, categories: Categories) -> bool:
        """Records how the lists continue, by the first one that does. If no list that was read
        leads on, some more of them are read."""
        leading = [page for page in categories.pages if _leads_further(page)]
        if not leading:
            read = {page.url for page in categories.pages}
            unread = [url for url in categories.group.urls if url not in read]
            more = await self._read_sample(unread, LONGER_TRIED)
            # Their products are samples too.
            categories.pages += [page for page in more if page.lists_products]
            leading = [page for page in categories.pages if _leads_further(page)]
        # Lists of different categories that are equally long may be cut off.
        lengths = Counter(page.card_count for page in categories.pages)
        longest = max(lengths)
        is_cut = longest >= CUT_OFF_MIN and lengths[longest] >= CATEGORIES_MIN
        by_length = sorted(categories.pages, key=lambda page: -page.card_count)
        for page in leading or by_length[:1]:
            assert page.products is not None
            if await self._continuation.find(page, page.products, single=False, probing=is_cut):
                return True
        return False

    async def _find_more_lists(
        self, categories: Categories, levels: list[Any], parents: Sequence[ListingPage]
    ) -> set[str]:
        """Adds links that have the shape of the lists' URLs to the levels, such as sub-categories
        in drop-downs, if one of them lists products. Returns the lists that pages name."""
        lists = categories.group.urls
        pages = list({page.url: page for page in (*parents, *categories.pages)}.values())
        products = [url for page in pages if page.products for url in page.products.urls]
        listing = {page.url for page in categories.pages}.intersection(lists)
        others = set(products + self._survey.known_urls) - set(lists)
        pattern = find_list_pattern(lists, listing, others)
        if pattern is None:
            return set(lists)
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
                break
        return {*lists, *more}

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
            pages = await self._read_sample(unseen)
            self._find_frame(parent, pages)
            for page in pages:
                if page.lists_products:
                    listing.pages.append(page)
                else:
                    listing.above.append(page)
                    if _leads_on(page, parent, seen):
                        leading.pages.append(page)
            if 0 < len(listing.pages) < CATEGORIES_MIN:
                # Parents of categories may list nothing.
                read = {page.url for page in pages}
                more = await self._read_sample(
                    [url for url in unseen if url not in read], LONGER_TRIED
                )
                listing.pages += [page for page in more if page.lists_products]
            if len(listing.pages) < CATEGORIES_MIN:
                await self._read_lists_below(listing, {*seen, *group.urls})
            is_larger = best is None or len(group.cards) > len(best.group.cards)
            if len(listing.pages) >= CATEGORIES_MIN and is_larger:
                best = listing
            if len(leading.pages) >= CATEGORIES_MIN and below is None:
                below = leading
        if best is not None:
            framed = [group for group in groups[:CATEGORY_GROUPS] if group.is_framed]
            others = [group for group in framed if group is not best.group]
            best.others = [group for group in others if await self._leads_to_lists(group, best)]
        return best, below

    async def _leads_to_lists(self, group: LinkGroup, known: Categories) -> bool:
        """Returns whether one of the group's first links leads to a list that is not known."""
        for url in [url for url in group.urls if url not in known.group.urls][:OTHERS_TRIED]:
            page = await self._reader.try_read(url)
            if page is not None and page.lists_products:
                return True
        return False

    async def _read_sample(
        self, listed: Sequence[str], most: int = CATEGORIES_TRIED
    ) -> list[ListingPage]:
        read = [await self._reader.try_read(url) for url in spread_sample(listed, most)]
        return [page for page in read if page is not None]

    def _find_frame(self, parent: ListingPage, pages: Sequence[ListingPage]) -> None:
        """Records lists that a page, and two of the pages that it links to, share: they are its
        frame, such as the products that were viewed last."""
        for group in parent.groups:
            least = REPEATED_SHARE * len(group.urls)
            shown = [
                any(len(set(group.urls).intersection(other.urls)) >= least for other in page.groups)
                for page in pages
            ]
            if group.is_products and sum(shown) >= CATEGORIES_MIN:
                self._reader.repeated.update(group.urls)

    async def _read_lists_below(self, listing: Categories, followed: Collection[str]) -> None:
        """Adds lists that pages without products name by addresses of the group's form, though
        maybe too few for a group of links."""
        products = [url for page in listing.pages if page.products for url in page.products.urls]
        pattern = find_list_pattern(listing.group.urls, (), products)
        if pattern is not None:
            named = find_unfollowed_lists(listing.above, pattern, followed, self._site)
            read = await self._read_sample(list(named))
            listing.pages += [page for page in read if page.lists_products]


def _is_surely_products(group: LinkGroup) -> bool:
    return group.is_products and group.score > MENU_SCORE_MAX and group.priced_share > 0


def _find_unlisting(page: ListingPage) -> set[str]:
    """Returns the links that are not to a list of other products: to the page's own products, and
    to the page itself with more parameters, such as filters."""
    own = split_address(page.url)
    hrefs = (link.attributes.get("href") or "" for link in page.document.dom.css("a[href]"))
    linked = {url for url in map(page.document.clean_link, hrefs) if url is not None}
    filtered = {
        url
        for url in linked
        if urlsplit(url).path == urlsplit(page.url).path and own.params < split_address(url).params
    }
    return filtered.union(page.products.urls if page.products is not None else ())


def _leads_further(page: ListingPage) -> bool:
    """Returns whether the page has a link to a second page."""
    document = page.document
    return find_next_link(document) is not None or 2 in find_numbered_links(document)


def _leads_on(page: ListingPage, parent: ListingPage, seen: Collection[str]) -> bool:
    """Returns whether the page has a group with links that are new: neither its parent's nor
    seen."""
    old = {url for group in parent.groups for url in group.urls}.union(seen)
    return any(len(set(group.urls) - old) >= 2 for group in page.groups)
