"""What `scraper new` sees of a shop, in the words of a definition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scraper.domain import Fetched, Kind
from scraper.errors import ScraperError
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.fields.variants import VariantChoice
from scraper.plugins.author.discovery.listings.cards import LinkGroup
from scraper.plugins.author.discovery.listings.listing_page import ListingPage
from scraper.plugins.author.discovery.platform import OpenInterface
from scraper.sites.grammar.auto_fields import CHANGING


class NoShopError(ScraperError):
    """No products were found at an address. The message says what was seen."""


@dataclass(slots=True)
class Survey:
    """A shop's lists and products; `listing`, `sitemap` and `rendering` as a definition writes
    them.

    `more_starts`: the texts of lists that no menu names, by their URLs.
    `shown`: the kinds of pages that a browser has to render. `unproved`: why no browser could
    render them here. `unseen`: product pages may need a browser, and none could render them.
    `crawl_delay_s`: what robots.txt asks for between two requests.
    """

    start: str
    more_starts: dict[str, str] = field(default_factory=dict)
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
    product_params: list[str] = field(default_factory=list)
    one_address: bool = False
    crawl_delay_s: float = 0.0

    @property
    def follows_sitemap(self) -> bool:
        """Says whether the sitemap's pages are crawled, and not only counted."""
        return self.sitemap is not None and self.sitemap.get("follow", True)

    @property
    def products(self) -> int | None:
        """About how many products there are."""
        if self.follows_sitemap:
            return len(self.known_urls)
        return self.pages * self.links if self.pages is not None else None

    def describe_page_fields(self) -> str:
        """Says which fields only product pages have, and how many requests they cost; "" if there
        are none."""
        interface = self.interface
        if interface is None:
            return ""
        # A field that changes may be empty today.
        given = CHANGING.union(*(product.data for product in interface.products))
        names = [
            name
            for name, choice in self.fields.items()
            if choice.best is not None and choice.best.count and name not in given
        ]
        if not names:
            return ""
        least = "" if interface.stated or not interface.more else "at least "
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        return (
            f"{listed} {'is' if len(names) == 1 else 'are'} on the pages alone: "
            f"{least}{interface.pages:,} requests more; platform: {{name: {interface.name}, "
            f"pages: [{', '.join(names)}]}}"
        )

    def record_listing_pages(self, pages: Iterable[ListingPage], group: LinkGroup) -> None:
        """Records pages that list products; `group` has the first page's."""
        pages = list(pages)
        self.listing_pages += [page for page in pages if page not in self.listing_pages]
        self.links = max(self.links, len(group.cards))
        for page in pages:
            if page.products is not None:
                self.known_urls += page.products.urls
