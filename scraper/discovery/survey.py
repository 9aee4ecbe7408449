"""A shop, looked at through at most sixty pages: where its products are listed, how the pages go
on, what identifies a product, and where each field stands. Stores nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from scraper.discovery.fields.candidates import ProductSample
from scraper.discovery.fields.identity import product_id
from scraper.discovery.fields.induction import FieldChoice, Reading, choose
from scraper.discovery.fields.variants import VariantChoice, propose_items
from scraper.discovery.listings.cards import Card, LinkGroup, link_groups, pattern_of, selector_of
from scraper.discovery.listings.paging import (
    Last,
    Numbering,
    last_pages,
    leads_to_all,
    more_button,
    next_link,
    numbered_links,
    numbering,
    pager_links,
    second_links,
)
from scraper.discovery.listings.state_links import link_groups_of, next_in_state
from scraper.discovery.platform import OpenInterface, open_interface
from scraper.discovery.polite_reader import PoliteReader
from scraper.discovery.sampling import spread
from scraper.discovery.trial import PATIENT, field_reader
from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import ConfigError, FetchError, ScraperError
from scraper.extract import TooSlow
from scraper.extract.document import Document
from scraper.extract.jsonld import within
from scraper.extract.listing import LinkFilter
from scraper.extract.sitemap import SitemapReader
from scraper.extract.text import whole_text
from scraper.politeness.robots import RobotsRules
from scraper.rules import urls
from scraper.rules.decoding import clean_text
from scraper.sites.browser import Rendering
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.selectors import parse_json

PAGES_MAX = 60
PRODUCTS = 12
CATEGORY_GROUPS = 4
CATEGORY_LEVELS = 3
SITEMAPS_MAX = 4
_PROBED = ("page", "p")
CATALOGUES_MAX = 3
# A list that grows in the browser does so at the most so many times.
GROWTH_MAX = 200
# A group of which so much is on the next page as well is no list of products.
REPEATED_SHARE = 0.8
# A product page shows so many others at the most.
FEW = 8
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
# A page that has none of these sells nothing.
_SOLD = ("price", "availability", "stock", "sku", "gtin", "mpn")
_HOME = re.compile(r"/?(?:index\.\w+)?(?:[a-z]{2}(?:-[a-z]{2})?/?)?", re.I)


class NoShopError(ScraperError):
    """Nothing that looks like products is behind an address. The message says what was seen."""


@dataclass(slots=True)
class ListingPage:
    url: str
    page: Fetched
    document: Document
    groups: list[LinkGroup]
    # What every page shows, such as bestsellers: filled as pages are compared.
    repeated: set[str] = field(default_factory=set)

    @property
    def products(self) -> LinkGroup | None:
        """Of groups with the same links the one whose links have text."""
        listed = [
            group
            for group in self.groups
            if group.is_products
            and len(self.repeated.intersection(group.urls)) < REPEATED_SHARE * len(group.urls)
        ]
        if not listed:
            return None
        best = listed[0]
        alike = [group for group in listed if set(group.urls) == set(best.urls)]
        return max(alike, key=lambda group: sum(len(card.title) for card in group.cards))


@dataclass(slots=True)
class Survey:
    """What was seen; `listing`, `sitemap` and `rendering` as a definition says them. `shown`: the
    kinds of pages that a browser is to show. `unproved`: why nobody could look at what it would
    show; `unseen`: nobody looked at what it shows of products."""

    start: str
    listing: dict[str, Any] | None = None
    sitemap: dict[str, Any] | None = None
    listing_pages: list[ListingPage] = field(default_factory=list)
    product_pages: list[tuple[str, Fetched]] = field(default_factory=list)
    samples: list[ProductSample] = field(default_factory=list)
    links: int = 0
    pages_text: str = ""
    pages: int | None = None
    known_urls: list[str] = field(default_factory=list)
    fields: dict[str, FieldChoice] = field(default_factory=dict)
    id: dict[str, str] | None = None
    notes: list[str] = field(default_factory=list)
    interface: OpenInterface | None = None
    items: VariantChoice | None = None
    shown: frozenset[Kind] = frozenset()
    rendering: dict[str, Any] = field(default_factory=dict)
    unproved: str = ""
    unseen: bool = False
    strip_params: list[str] = field(default_factory=list)

    @property
    def products(self) -> int | None:
        """About how many there are."""
        if self.sitemap is not None:
            return len(self.known_urls)
        return self.pages * self.links if self.pages is not None else None


# Links to categories, and some of their pages.
_Categories: TypeAlias = tuple[LinkGroup, list[ListingPage]]


class Surveyor:
    """Looks at one shop. Raises `NoShopError` and FetchError where the address itself cannot be
    read."""

    def __init__(self, reader: PoliteReader) -> None:
        self._reader = reader
        self._site = reader.context.site
        self._read: dict[str, ListingPage] = {}
        self._repeated: set[str] = set()
        self._shown: frozenset[Kind] = frozenset()

    async def survey(self, url: str) -> Survey:
        first = await self._listing(url)
        kind = first.page.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind and not any(name in kind for name in ("html", "xml", "text/")):
            raise NoShopError(
                f"{first.url}: the answer is {kind}, and not HTML (mend: give the address of a "
                "page with products)"
            )
        survey = Survey(first.url)
        survey.interface, closed = await open_interface(self._reader, first.url, first.page.body)
        if closed:
            survey.notes.append(closed)
        try:
            await self._look(survey, first)
        except NoShopError as error:
            # Scripts may fill its pages.
            if survey.interface is None:
                return await self._look_by_browser(first, error)
            survey = Survey(survey.start, interface=survey.interface)
            survey.listing = {"products": "a"}
            survey.notes.append(f"it was written for its interface alone: {error}")
        return survey

    async def _look_by_browser(self, first: ListingPage, error: NoShopError) -> Survey:
        """Looks again, at what a browser shows where the HTML has nothing. Raises the error where
        that is no more."""
        if first.document.dom.css_first("script") is None or Kind.LISTING in self._shown:
            raise error
        survey = Survey(first.url)
        self._shown = frozenset({Kind.LISTING})
        try:
            self._reader.require_browser()
        except ConfigError as missing:
            survey.shown = frozenset({Kind.LISTING, Kind.PRODUCT})
            survey.listing = {"products": "a"}
            survey.unproved = f"{error}; scripts may fill the page, and {missing}"
            return survey
        self._read.clear()
        self._repeated.clear()
        try:
            await self._look(survey, await self._listing(first.url))
        except NoShopError as again:
            raise NoShopError(f"{again}; a browser was asked, too") from None
        survey.shown |= self._shown
        survey.notes.append("its HTML lists no products: a browser shows what scripts fill in")
        return survey

    async def _look(self, survey: Survey, first: ListingPage) -> None:
        if is_product(first) or _lists_few(first):
            first = await self._above(first)
            survey.start = first.url
        await self._find_listing(survey, first)
        await self._read_products(survey)
        survey.fields = choose(survey.samples)
        if _lacks(survey.fields):
            await self._compare_products(survey)
        survey.id = product_id(survey.known_urls, survey.fields)
        if survey.unproved:
            survey.fields = {}
        else:
            _drop_frame(survey)
            await self._find_idle_params(survey)
            if survey.interface is None:
                survey.items = propose_items(survey.samples, survey.fields)

    async def _compare_products(self, survey: Survey) -> None:
        """Product pages without a title or a price as a browser shows them. Where their JSON has
        the same, no browser is needed."""
        lacking = " and ".join(_lacks(survey.fields))
        if not any(sample.document.dom.css_first("script") for sample in survey.samples):
            return
        try:
            self._reader.require_browser()
        except ConfigError as missing:
            why = f"product pages have no {lacking}: scripts may fill them, and {missing}"
            survey.notes.append(why)
            survey.unseen = True
            if survey.fields["title"].best is None:
                survey.shown |= {Kind.PRODUCT}
                survey.unproved = why
            return
        pages, samples, fields = survey.product_pages, survey.samples, survey.fields
        first = await self._sample(pages[0][0], None, shown=True)
        if len(_visible(first[1].document)) <= len(_visible(samples[0].document)):
            return
        await self._read_products(survey, shown=True)
        seen = choose(survey.samples)
        if len(_lacks(seen)) >= len(_lacks(fields)):
            survey.product_pages, survey.samples = pages, samples
            return
        survey.fields = seen
        by_url = dict(zip((url for url, _ in pages), samples, strict=True))
        plain = [by_url.get(url) for url, _ in survey.product_pages]
        alike = {name: _reads_alike(choice, plain) for name, choice in seen.items()}
        if alike["title"] and alike["price"]:
            survey.notes.append("scripts fill its product pages from JSON that is in their HTML")
            kept = {url for url, _ in survey.product_pages}
            survey.product_pages = [pair for pair in pages if pair[0] in kept]
            survey.samples = [sample for sample in plain if sample is not None]
            survey.fields = {
                name: choice if alike[name] else FieldChoice(name, None, [])
                for name, choice in seen.items()
            }
            return
        survey.shown |= {Kind.PRODUCT}
        survey.notes.append(f"its product pages' HTML has no {lacking}: a browser shows them")

    async def _find_idle_params(self, survey: Survey) -> None:
        """Parameters of products' addresses that say where a link stood: a product in two
        categories would be read twice."""
        parts = [urlsplit(url) for url in survey.known_urls]
        names = {name for part in parts for name, _ in parse_qsl(part.query)}
        names -= {str((survey.listing or {}).get("pages", {}).get("param"))}
        url = survey.product_pages[0][0]
        plain = urlsplit(url)._replace(query="").geturl()
        if not names or plain == url or len({part.path for part in parts}) * 2 <= len(parts):
            return
        try:
            _, bare = await self._sample(plain, None, shown=Kind.PRODUCT in survey.shown)
        except FetchError:
            return
        checked = [survey.fields[name] for name in ("title", "price") if survey.fields[name].best]
        first = [replace(choice, best=_only_first(choice)) for choice in checked]
        if all(_reads_alike(choice, [bare]) for choice in first):
            survey.strip_params = sorted(names)

    async def _find_listing(self, survey: Survey, first: ListingPage) -> None:
        await self._compare(first)
        group = first.products
        home = bool(_HOME.fullmatch(urlsplit(first.url).path))
        if group is not None and await self._pages(survey, first, group, single=True):
            return
        if (group is None or home) and await self._catalogue(survey, first):
            return
        if (group is None or home) and await self._categories(survey, first):
            return
        if (group is None or home) and await self._sitemap(survey):
            return
        if group is None:
            scripts = len(first.document.dom.css("script"))
            links = len(first.document.dom.css("a[href]"))
            raise NoShopError(
                f"{first.url}: no list of products was found: {links} links, {scripts} scripts, "
                "and no repeated cards with prices or pictures (mend: give the address of a "
                "category page)"
            )
        self._take(survey, [first], group)
        survey.listing = {"products": _links(first, group, self._site.owns)}
        survey.pages_text = "no further page"
        survey.pages = 1

    async def _compare(self, first: ListingPage) -> None:
        """Where a page has several lists, those that its next page shows as well are its frame."""
        if sum(group.is_products for group in first.groups) < 2:
            return
        following = next_link(first.document)
        url = following[1] if following else numbered_links(first.document).get(2)
        if url is None:
            return
        try:
            second = await self._listing(url)
        except FetchError:
            return
        of_second = [set(group.urls) for group in second.groups]
        for group in first.groups:
            least = REPEATED_SHARE * len(group.urls)
            if any(len(known.intersection(group.urls)) >= least for known in of_second):
                self._repeated.update(group.urls)
        if all(
            self._repeated.issuperset(group.urls) for group in first.groups if group.is_products
        ):
            # It is not another page of the list.
            self._repeated.clear()

    def _take(self, survey: Survey, pages: Sequence[ListingPage], group: LinkGroup) -> None:
        survey.listing_pages += [page for page in pages if page not in survey.listing_pages]
        survey.links = max(survey.links, len(group.cards))
        for page in pages:
            if page.products is not None:
                survey.known_urls += page.products.urls

    async def _pages(
        self, survey: Survey, first: ListingPage, group: LinkGroup, *, single: bool
    ) -> bool:
        """Whether the listing goes on, and how. `single`: it is the only one, so that its pages may
        be named by their path."""
        return await self._linked_pages(survey, first, group, single=single) or (
            Kind.LISTING in self._shown and await self._grown_page(survey, first, group)
        )

    async def _grown_page(self, survey: Survey, first: ListingPage, group: LinkGroup) -> bool:
        """Whether the list grows as a button is clicked, or as one scrolls."""
        button = more_button(first.document)
        ways: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("scrolling brings more", {"scroll": 3}, {"scroll": GROWTH_MAX})
        ]
        if button is not None:
            probe, lasting = ({"click": {"css": button, "max": times}} for times in (3, GROWTH_MAX))
            ways.insert(0, ("a button brings more", probe, lasting))
        for text, probe, lasting in ways:
            try:
                page = await self._listing(first.url, Rendering.model_validate(probe))
            except FetchError:
                continue
            if page.products is not None and set(group.urls) < set(page.products.urls):
                survey.listing = {"products": _links(page, page.products, self._site.owns)}
                survey.rendering, survey.pages_text = lasting, text
                self._take(survey, [page], page.products)
                return True
        return False

    async def _linked_pages(
        self, survey: Survey, first: ListingPage, group: LinkGroup, *, single: bool
    ) -> bool:
        following: tuple[Any, str] | None = next_link(first.document)
        if following is None and group.state is not None:
            following = next_in_state(first.document)
        numbers = numbered_links(first.document)
        second_url = following[1] if following is not None else numbers.get(2)
        second = await self._further(second_url, group)
        alike = {url for group in first.groups for url in group.urls}
        for link in second_links(first.document)[:2] if second is None else ():
            second = None if link[1] in alike else await self._further(link[1], group)
            if second is not None:
                following, second_url = link, link[1]
                break
        number: Numbering | None = None
        if second is None and not single:
            return False
        if second is None:
            for name in _PROBED:
                probe = Numbering(1, 1, param=name)
                second = await self._further(probe.url(first.url, 2), group)
                if second is not None:
                    number = probe
                    break
            else:
                return False
        assert second is not None
        if number is None:
            next_of_second = next_link(second.document)
            third = next_of_second[1] if next_of_second is not None else None
            numbers_of_second = numbered_links(second.document)
            if following is None or third in (None, second_url):
                third = numbers_of_second.get(3) or numbers.get(3)
            number = numbering(second.url, third, first.url)
        options: dict[str, Any] = {"products": _links(first, group, self._site.owns)}
        self._take(survey, [first, second], group)
        if number is not None and (single or number.param is not None):
            last = await self._last(first, second, number, group)
            if last is not None:
                options["pages"] = {**last.options, **number.options()}
                survey.pages, survey.pages_text = last.pages, last.text
                end = self._read.get(
                    number.url(first.url, number.first + number.step * (last.pages - 1))
                )
                self._take(survey, [end] if end is not None else [], group)
                survey.listing = options
                return True
        if following is not None:
            options["next"] = following[0]
            survey.pages_text = "the link to the next page"
        elif not single and number is not None and number.template is not None:
            # Each list's pages have its own path.
            options["next"] = pager_links(first.document)
            if options["next"] is None:
                return False
            survey.pages_text = "the links to its other pages"
        elif number is not None:
            options["pages"] = number.options()
            survey.pages_text = "numbered pages, until one has no products"
        else:
            return False
        survey.listing = options
        return True

    async def _further(self, url: str | None, group: LinkGroup) -> ListingPage | None:
        """The page, where it has products of its own."""
        if url is None:
            return None
        try:
            page = await self._listing(url)
        except FetchError:
            return None
        products = page.products
        if products is None or set(products.urls) <= set(group.urls):
            return None
        return page

    async def _last(
        self, first: ListingPage, second: ListingPage, number: Numbering, group: LinkGroup
    ) -> Last | None:
        """The number of pages as the first page says it, where the second says the same and the
        last page is there and leads no further."""
        of_second = last_pages(second.document, number)
        for last in last_pages(first.document, number)[:8]:
            if not any(
                other.options == last.options and other.pages == last.pages for other in of_second
            ):
                continue
            if not leads_to_all(first.document, last, number):
                continue
            url = number.url(first.url, number.first + number.step * (last.pages - 1))
            try:
                page = await self._listing(url)
            except FetchError:
                continue
            products = page.products
            if last.pages == 2:
                products = second.products
            # The last page may have fewer products than make a group.
            few = products is None and _has_any(page, first, group, self._site.owns)
            if not few and (products is None or set(products.urls) <= set(group.urls)):
                continue
            beyond = next_link(page.document)
            numbers = numbered_links(page.document)
            if (
                beyond is not None
                and beyond[1] not in (first.url, page.url)
                and max(numbers, default=0) > last.pages
            ):
                continue
            return last
        return None

    async def _catalogue(self, survey: Survey, home: ListingPage) -> bool:
        """One list of all products, behind a link that says so: "Shop", "Alle Produkte"."""
        named: dict[str, int] = {}
        for link in home.document.dom.css("a[href]"):
            url = urls.clean(link.attributes.get("href") or "", home.document.base)
            if url is None or not self._site.owns(url) or url in (home.url, survey.start):
                continue
            text = clean_text(whole_text(link))
            last = urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]
            says = 2 * bool(_ALL.fullmatch(text)) + bool(_ALL_PATH.fullmatch(last))
            if says:
                named[url] = max(named.get(url, 0), says)
        known = set(home.products.urls) if home.products is not None else set()
        for url in sorted(named, key=lambda url: -named[url])[:CATALOGUES_MAX]:
            try:
                page = await self._listing(url)
            except FetchError:
                continue
            products = page.products
            if products is None or is_product(page):
                continue
            if await self._pages(survey, page, products, single=True):
                survey.start = page.url
                return True
            if len(set(products.urls) - known) >= len(known):
                self._take(survey, [page], products)
                survey.start = page.url
                survey.listing = {"products": _links(page, products, self._site.owns)}
                survey.pages_text, survey.pages = "no further page", 1
                return True
        return False

    async def _categories(self, survey: Survey, home: ListingPage) -> bool:
        """Lists of products behind groups of links, such as a menu's, or behind the groups on the
        pages that those lead to."""
        listings: list[Any] = []
        seen = {home.url, survey.start}
        if home.products is not None and any(card.amounts for card in home.products.cards):
            seen.update(home.products.urls)
        parent = home
        for _ in range(CATEGORY_LEVELS):
            lists, below = await self._category_pages(parent, seen)
            if lists is None and below is None:
                return False
            group, pages = lists or below or (None, [])
            assert group is not None
            links = _links(parent, group, self._site.owns)
            if links not in listings:
                listings.append(links)
            if lists is not None:
                break
            seen.update(url for group in parent.groups for url in group.urls)
            parent = pages[0]
        else:
            return False
        pages.sort(key=lambda page: next_link(page.document) is None)
        first = pages[0]
        products = first.products
        assert products is not None
        if not await self._pages(survey, first, products, single=False):
            survey.listing = {"products": _links(first, products, self._site.owns)}
            survey.pages_text = "categories of one page each"
        self._take(survey, pages, products)
        assert survey.listing is not None
        survey.listing["listings"] = listings if len(listings) > 1 else listings[0]
        levels = f" on {len(listings)} levels" if len(listings) > 1 else ""
        survey.pages_text = f"{len(group.cards)} categories{levels}; {survey.pages_text}"
        survey.pages = None
        return True

    async def _category_pages(
        self, parent: ListingPage, seen: Collection[str]
    ) -> tuple[_Categories | None, _Categories | None]:
        """The largest group of links whose pages list products, and a group whose pages list none
        but have links that nobody saw before."""
        best: _Categories | None = None
        below: _Categories | None = None
        others = [
            group
            for group in parent.groups
            if not (group.is_products and group.score > 20)
            or not any(card.amounts for card in group.cards)
        ]
        others.sort(key=lambda group: len(group.cards), reverse=True)
        for group in others[:CATEGORY_GROUPS]:
            listing, silent = [], []
            for url in spread([url for url in group.urls if url not in seen], 3):
                try:
                    page = await self._listing(url)
                except FetchError:
                    continue
                if page.products is not None and not is_product(page):
                    listing.append(page)
                elif self._leads_on(page, parent, seen):
                    silent.append(page)
            if len(listing) >= 2 and (best is None or len(group.cards) > len(best[0].cards)):
                best = group, listing
            if len(silent) >= 2 and below is None:
                below = group, silent
        return best, below

    @staticmethod
    def _leads_on(page: ListingPage, parent: ListingPage, seen: Collection[str]) -> bool:
        known = {url for group in parent.groups for url in group.urls}.union(seen)
        return any(len(set(group.urls) - known) >= 2 for group in page.groups)

    async def _sitemap(self, survey: Survey) -> bool:
        """Products that a sitemap lists."""
        rules = await self._reader.robots(survey.start)
        named = rules.sitemaps if isinstance(rules, RobotsRules) else []
        start = named[0] if named else urls.clean("/sitemap.xml", survey.start)
        due: list[str] = [start] if start else []
        listed: list[str] = []
        read = 0
        reader = SitemapReader(None, LinkFilter(self._site))
        while due and read < SITEMAPS_MAX:
            url = due.pop(0)
            read += 1
            try:
                fetched = await self._reader.read(url, Kind.SITEMAP)
            except FetchError:
                continue
            for link in reader.read(fetched, url).links:
                (due if link.kind is Kind.SITEMAP else listed).append(link.url)
            due.sort(key=lambda url: "product" not in url and "produ" not in url)
        if not listed or start is None:
            return False
        likely = max(_by_folder(listed), key=len)
        for url in spread(likely, 2):
            try:
                page = await self._listing(url)
            except FetchError:
                return False
            if page.products is not None and not is_product(page) and len(page.products.cards) > 8:
                return False
        pattern = pattern_of(likely)
        survey.sitemap = {"url": start, **({"products": pattern} if pattern else {})}
        survey.known_urls = likely
        survey.pages_text = "the sitemap"
        return True

    async def _above(self, product: ListingPage) -> ListingPage:
        """The listing that a product page belongs to."""
        crumbs = product.document.dom.css(
            "[class*=breadcrumb i] a[href], [aria-label*=breadcrumb i] a[href]"
        )
        near = [
            urls.clean(link.attributes.get("href") or "", product.document.base) for link in crumbs
        ]
        above = [url for url in reversed(near) if url and self._site.owns(url)]
        home = urls.clean("/", product.url)
        few = len(product.products.cards) if product.products is not None else 0
        for url in dict.fromkeys([*above[:3], *([home] if home else [])]):
            if url == product.url:
                continue
            try:
                page = await self._listing(url)
            except FetchError:
                continue
            listed = len(page.products.cards) if page.products is not None else 0
            if not is_product(page) and (listed > few or is_product(product)):
                return page
        return product

    @property
    def _has_read_enough(self) -> bool:
        return self._reader.requests - self._reader.extras >= PAGES_MAX

    async def _listing(self, url: str, rendering: Rendering | None = None) -> ListingPage:
        page = self._read.get(url)
        if page is None or rendering is not None:
            if self._has_read_enough:
                raise FetchError(
                    Outcome.DEFERRED, f"not read: {PAGES_MAX} requests are enough", url=url
                )
            fetched = await self._reader.read(
                url, Kind.LISTING, shown=Kind.LISTING in self._shown, rendering=rendering
            )
            document = _document(fetched, url)
            groups = link_groups(document, self._site.owns)
            if not any(group.is_products for group in groups):
                groups += link_groups_of(document, self._site.owns)
            page = ListingPage(fetched.url, fetched, document, groups, self._repeated)
            self._read[url] = page
        return page

    async def _read_products(self, survey: Survey, *, shown: bool = False) -> None:
        survey.known_urls = list(dict.fromkeys(survey.known_urls))
        survey.product_pages, survey.samples = [], []
        cards: dict[str, Card] = {}
        for page in survey.listing_pages:
            if page.products is not None:
                for card in page.products.cards:
                    cards.setdefault(card.url, card)
        for url in spread(survey.known_urls, PRODUCTS):
            if self._has_read_enough:
                break
            try:
                fetched, sample = await self._sample(url, cards.get(url), shown=shown)
            except FetchError as error:
                survey.notes.append(f"{url}: {error.outcome}: {error}")
                continue
            survey.product_pages.append((url, fetched))
            survey.samples.append(sample)
        if not survey.samples:
            raise NoShopError(
                f"{survey.start}: no product page could be read: "
                f"{'; '.join(survey.notes[:2]) or 'no link led to one'}"
            )

    async def _sample(
        self, url: str, card: Card | None, *, shown: bool
    ) -> tuple[Fetched, ProductSample]:
        fetched = await self._reader.read(url, Kind.PRODUCT, shown=shown)
        document = _document(fetched, url)
        groups = link_groups(document, self._site.owns)
        others = frozenset(
            card.element.mem_id
            for group in groups
            if group.is_products
            or (len(group.cards) > 1 and any(card.amounts for card in group.cards))
            for card in group.cards
            if len(card.element.html or "") * 2 < len(fetched.body)
        )
        return fetched, ProductSample(document, card, others)


def _lacks(fields: Mapping[str, FieldChoice]) -> list[str]:
    """What no product is without."""
    return [name for name in ("title", "price") if fields[name].best is None]


def _visible(document: Document) -> str:
    body = document.dom.body
    return clean_text(whole_text(body)) if body is not None else ""


def _reads_alike(choice: FieldChoice, samples: Sequence[ProductSample | None]) -> bool:
    """Whether the field's sources give the same on these pages."""
    if choice.best is None:
        return False
    reader = field_reader(choice.name, FieldSpec.model_validate(choice.definition()))
    return all(
        sample is None or reader(sample.document)[0].get(choice.name) == value
        for sample, value in zip(samples, choice.best.values, strict=True)
    )


def _only_first(choice: FieldChoice) -> Reading:
    assert choice.best is not None
    return replace(choice.best, values=choice.best.values[:1])


def _document(page: Fetched, url: str) -> Document:
    """Raises FetchError for a page that cannot be parsed."""
    document = Document(page, url, PATIENT)
    try:
        document.dom  # noqa: B018 - it is made when it is first asked for
    except TooSlow as error:
        raise FetchError(Outcome.TOO_LARGE, str(error), url=url) from error
    return document


def _lists_few(page: ListingPage) -> bool:
    """Whether it may be a product page that says so to nobody, with others beside it."""
    products = page.products
    return (
        not _HOME.fullmatch(urlsplit(page.url).path)
        and (products is None or len(products.cards) <= FEW)
        and next_link(page.document) is None
        and not numbered_links(page.document)
    )


def is_product(page: ListingPage) -> bool:
    """Whether the page says that it is about one product."""
    kinds = [str(node.get("@type")).strip("[]'").lower() for node in page.document.jsonld]
    if kinds.count("productgroup") == 1:
        return True
    offered = [
        node
        for node, kind in zip(page.document.jsonld, kinds, strict=True)
        if "offers" in node and kind.endswith("product")
    ]
    tag = page.document.dom.css_first('meta[property="og:type"]')
    if tag is not None and "product" in (tag.attributes.get("content") or "").split(".")[0]:
        return "group" not in (tag.attributes.get("content") or "")
    scopes = page.document.dom.css('[itemtype*="schema.org/Product"]')
    return len(offered) == 1 or (not offered and len(scopes) == 1)


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


def _has_any(page: ListingPage, first: ListingPage, group: LinkGroup, owns: Any) -> bool:
    """Whether the page has a product, though not so many that they are seen to repeat."""
    if group.state is not None:
        hrefs = within(page.document.state, parse_json(group.state))
    else:
        css, _ = selector_of(first.document, group, owns)
        hrefs = (element.attributes.get("href") or "" for element in page.document.dom.css(css))
    matched = {urls.clean(href, page.document.base) for href in hrefs}
    return bool(matched - set(group.urls) - {None})


def _links(page: ListingPage, group: LinkGroup, owns: Any) -> Any:
    if group.state is not None:
        return {"state": group.state}
    css, match = selector_of(page.document, group, owns)
    return css if match is None else {"css": css, "match": match}


def _drop_frame(survey: Survey) -> None:
    """Without a title there is no product."""
    if survey.fields["title"].best is None:
        raise NoShopError(
            f"{survey.start}: the pages behind its links have no title that changes from page to "
            f"page and agrees with another source, as in {survey.product_pages[0][0]} (mend: give "
            "the address of a category page)"
        )
    if not survey.unseen and not any(survey.fields[name].best for name in _SOLD):
        raise NoShopError(
            f"{survey.start}: the pages behind its links have titles, but no price, number or "
            f"stock, as {survey.product_pages[0][0]}: they may be articles (mend: give the address "
            "of a category page)"
        )
