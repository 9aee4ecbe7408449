"""A page of a shop as a list of products. Each is read once, and not more of them than it takes to
know a shop."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import FetchError
from scraper.extract import TooSlow
from scraper.extract.document import Document
from scraper.extract.structured.jsonld import find_texts_in_documents
from scraper.plugins.author.discovery.listings.cards import LinkGroup, link_groups, selector_of
from scraper.plugins.author.discovery.listings.paging import next_link, numbered_links
from scraper.plugins.author.discovery.listings.state_links import link_groups_of
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.trial import PATIENT
from scraper.plugins.browser.keys import Rendering
from scraper.rules import urls
from scraper.sites.grammar.selectors import parse_json

PAGES_MAX = 60
# A group of which so much is on the next page as well is no list of products.
REPEATED_SHARE = 0.8
# A product page shows so many others at the most.
FEW = 8
_HOME = re.compile(r"/?(?:index\.\w+)?(?:[a-z]{2}(?:-[a-z]{2})?/?)?", re.I)


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

    @property
    def lists_products(self) -> bool:
        return self.products is not None and not is_product(self)


class ListingReader:
    """Reads a shop's pages as lists. `shown`: the kinds of pages that a browser shows. `repeated`:
    links that every page has, such as bestsellers."""

    def __init__(self, polite: PoliteReader) -> None:
        self.polite = polite
        self.site = polite.context.site
        self.shown: frozenset[Kind] = frozenset()
        self.repeated: set[str] = set()
        self._pages: dict[str, ListingPage] = {}

    @property
    def has_read_enough(self) -> bool:
        return self.polite.requests - self.polite.extras >= PAGES_MAX

    async def read(self, url: str, rendering: Rendering | None = None) -> ListingPage:
        """Raises FetchError."""
        page = self._pages.get(url)
        if page is None or rendering is not None:
            if self.has_read_enough:
                raise FetchError(
                    Outcome.DEFERRED, f"not read: {PAGES_MAX} requests are enough", url=url
                )
            fetched = await self.polite.read(
                url, Kind.LISTING, shown=Kind.LISTING in self.shown, rendering=rendering
            )
            document = parsed_page(fetched, url)
            groups = link_groups(document, self.site.owns)
            if not any(group.is_products for group in groups):
                groups += link_groups_of(document, self.site.owns)
            page = ListingPage(fetched.url, fetched, document, groups, self.repeated)
            self._pages[url] = page
        return page

    async def read_if_there(
        self, url: str, rendering: Rendering | None = None
    ) -> ListingPage | None:
        """None where it cannot be read."""
        try:
            return await self.read(url, rendering)
        except FetchError:
            return None

    def forget(self) -> None:
        """Pages are read anew."""
        self._pages.clear()
        self.repeated.clear()


def parsed_page(page: Fetched, url: str) -> Document:
    """Raises FetchError for a page that cannot be parsed."""
    document = Document(page, url, PATIENT)
    try:
        document.dom  # noqa: B018 - it is made when it is first asked for
    except TooSlow as error:
        raise FetchError(Outcome.TOO_LARGE, str(error), url=url) from error
    return document


def is_home(url: str) -> bool:
    """Whether it is a shop's first page, maybe one of a language."""
    return bool(_HOME.fullmatch(urlsplit(url).path))


def lists_few(page: ListingPage) -> bool:
    """Whether it may be a product page that says so to nobody, with others beside it."""
    products = page.products
    return (
        not is_home(page.url)
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


def has_any(page: ListingPage, first: ListingPage, group: LinkGroup, owns: Any) -> bool:
    """Whether the page has a product, though not so many that they are seen to repeat."""
    if group.state is not None:
        hrefs = find_texts_in_documents(page.document.state, parse_json(group.state))
    else:
        css, _ = selector_of(first.document, group, owns)
        hrefs = (element.attributes.get("href") or "" for element in page.document.dom.css(css))
    matched = {urls.clean(href, page.document.base) for href in hrefs}
    return bool(matched - set(group.urls) - {None})


def links_of(page: ListingPage, group: LinkGroup, owns: Any) -> Any:
    """The group's links, as `listing.products` of a definition says them."""
    if group.state is not None:
        return {"state": group.state}
    css, match = selector_of(page.document, group, owns)
    return css if match is None else {"css": css, "match": match}
