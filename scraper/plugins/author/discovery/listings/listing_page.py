"""A page of a shop as a list of products. Each page is read once, and at most `PAGES_MAX` are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import FetchError
from scraper.extract import TooSlow
from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import find_amounts
from scraper.extract.structured.jsonld import find_texts_in_documents
from scraper.plugins.author.discovery.listings.cards import LinkGroup, find_link_groups
from scraper.plugins.author.discovery.listings.link_selectors import write_selector
from scraper.plugins.author.discovery.listings.next_links import find_next_link
from scraper.plugins.author.discovery.listings.page_numbers import find_numbered_links
from scraper.plugins.author.discovery.listings.state_links import find_state_groups
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.trial import PATIENT
from scraper.rules import urls
from scraper.sites.grammar.selectors import parse_json

PAGES_MAX = 60
# A group with this share of its links on the next page too belongs to the frame.
REPEATED_SHARE = 0.8
# A product page shows up to this many other products.
OTHERS_MAX = 8
BREADCRUMBS_TRIED = 3
_HOME = re.compile(r"/?(?:index\.\w+)?(?:[a-z]{2}(?:-[a-z]{2})?/?)?", re.I)


@dataclass(slots=True)
class ListingPage:
    """A page and its groups of links. `repeated`: the links that every page shows, such as
    bestsellers; the set grows as pages are compared."""

    url: str
    page: Fetched
    document: Document
    groups: list[LinkGroup]
    repeated: set[str] = field(default_factory=set)

    @property
    def products(self) -> LinkGroup | None:
        """The group of products; of groups with the same links, the one whose links have text."""
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
    def card_count(self) -> int:
        return len(self.products.cards) if self.products is not None else 0

    @property
    def lists_products(self) -> bool:
        return self.products is not None and not is_product_page(self)


class ListingPageReader:
    """Reads a shop's pages as lists. `shown`: the kinds of pages that a browser renders.
    `repeated`: links that every page has, such as bestsellers."""

    def __init__(self, polite: PoliteReader) -> None:
        self.polite = polite
        self.site = polite.context.site
        self.shown: frozenset[Kind] = frozenset()
        self.repeated: set[str] = set()
        self._pages: dict[str, ListingPage] = {}

    @property
    def has_read_enough(self) -> bool:
        return self.polite.requests - self.polite.extras >= PAGES_MAX

    async def read(self, url: str, rendering: Mapping[str, Any] | None = None) -> ListingPage:
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
            document = parse_page(fetched, url)
            groups = find_link_groups(document, self.site.owns)
            if not any(group.is_products for group in groups):
                groups += find_state_groups(document, self.site.owns)
            page = ListingPage(fetched.url, fetched, document, groups, self.repeated)
            self._pages[url] = page
        return page

    async def try_read(
        self, url: str, rendering: Mapping[str, Any] | None = None
    ) -> ListingPage | None:
        """Returns None for a page that cannot be read."""
        try:
            return await self.read(url, rendering)
        except FetchError:
            return None

    def forget_pages(self) -> None:
        """Makes `read` request every page again."""
        self._pages.clear()
        self.repeated.clear()


def parse_page(page: Fetched, url: str) -> Document:
    """Raises FetchError for a page that cannot be parsed."""
    document = Document(page, url, PATIENT)
    try:
        document.dom  # noqa: B018 - the first access parses the page
    except TooSlow as error:
        raise FetchError(Outcome.TOO_LARGE, str(error), url=url) from error
    return document


def is_home_url(url: str) -> bool:
    """Returns whether the URL is a shop's first page, or the first page of a language."""
    return bool(_HOME.fullmatch(urlsplit(url).path))


def may_be_product_page(page: ListingPage) -> bool:
    """Returns whether the page shows few products, and may be a product page without markup."""
    return (
        not is_home_url(page.url)
        and (page.products is None or page.card_count <= OTHERS_MAX)
        and find_next_link(page.document) is None
        and not find_numbered_links(page.document)
    )


def is_product_page(page: ListingPage) -> bool:
    """Returns whether the page's markup states that it is about one product."""
    kinds = [str(node.get("@type")).strip("[]'").lower() for node in page.document.jsonld]
    if kinds.count("productgroup") == 1:
        return True
    offered = [
        node
        for node, kind in zip(page.document.jsonld, kinds, strict=True)
        if "offers" in node and kind.endswith("product")
    ]
    tag = page.document.dom.css_first('meta[property="og:type"]')
    content = (tag.attributes.get("content") or "") if tag is not None else ""
    if "product" in content.split(".")[0]:
        return "group" not in content
    scopes = page.document.dom.css('[itemtype*="schema.org/Product"]')
    return len(offered) == 1 or (not offered and len(scopes) == 1)


def has_one_price(page: ListingPage) -> bool:
    """Returns whether the page shows a title and a price outside the cards of its lists. The sum of
    an empty cart is not a price."""
    root = page.document.dom.root
    cards = {card.element.mem_id for group in page.groups for card in group.cards}
    titled = page.document.dom.css_first("h1, h2") is not None
    amounts = find_amounts(root, cards) if titled and root is not None else ()
    return any(amount.value > 0 for amount in amounts)


def has_new_product(
    page: ListingPage, first: ListingPage, group: LinkGroup, owns: Callable[[str], bool]
) -> bool:
    """Returns whether the page has a product that is not in the group of the first page, though
    maybe too few for a group of its own."""
    hrefs: Iterator[str]
    if group.state is not None:
        hrefs = iter(find_texts_in_documents(page.document.state, parse_json(group.state)))
    else:
        css = write_selector(first.document, group, owns).css
        hrefs = (element.attributes.get("href") or "" for element in page.document.dom.css(css))
    matched = {page.document.clean_link(href) for href in hrefs}
    return bool(matched - set(group.urls) - {None})


def write_links(
    page: ListingPage,
    group: LinkGroup,
    owns: Callable[[str], bool],
    avoided: Sequence[tuple[Document, Set[str]]] = (),
) -> Any:
    """Returns the group's links as `listing.products` of a definition; see `write_selector`."""
    if group.state is not None:
        return {"state": group.state}
    css, match = write_selector(page.document, group, owns, avoided)
    return css if match is None else {"css": css, "match": match}


async def find_listing_above(product: ListingPage, reader: ListingPageReader) -> ListingPage:
    """Returns the listing that a product page belongs to, or the page itself if there is none."""
    for url in dict.fromkeys(_list_parents(product, reader)):
        page = await reader.try_read(url) if url != product.url else None
        if page is None or is_product_page(page):
            continue
        if page.card_count > product.card_count or is_product_page(product):
            return page
    return product


def _list_parents(product: ListingPage, reader: ListingPageReader) -> Iterator[str]:
    """Yields the last breadcrumbs, the nearest first, and the shop's home."""
    crumbs: Sequence[LexborNode] = product.document.dom.css(
        "[class*=breadcrumb i] a[href], [aria-label*=breadcrumb i] a[href]"
    )
    near = [product.document.clean_link(link.attributes.get("href") or "") for link in crumbs]
    own = [url for url in reversed(near) if url and reader.site.owns(url)]
    yield from own[:BREADCRUMBS_TRIED]
    home = urls.clean("/", product.url)
    if home:
        yield home
