"""The entry point: `compile_site(site).extract(kind, page, page_url=…, depth=…)`.

Turns a fetched body into validated links and products, or into sentences that say what is missing.
Pure: no I/O, no clock. Raises `FunctionFailed` for the definition's own Python; a hostile page
gives problems, never an exception."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TypeAlias, assert_never
from uuid import UUID

from scraper.domain import Extracted, Fetched, Kind
from scraper.extract.adapter import Adapter
from scraper.extract.bounds import BYTES_MAX, ISOLATED, ReadElsewhere, ReadLimits
from scraper.extract.document import Document
from scraper.extract.function_reader import AdapterReader, FunctionReader
from scraper.extract.items.reader import ItemsReader
from scraper.extract.listing import LinkFilter, ListingReader
from scraper.extract.product import ProductReader
from scraper.extract.sitemap import GZIP, SitemapReader
from scraper.registry import first_answer, plugin_hooks
from scraper.sites.definition import Site
from scraper.sites.page import Page

SITES_KEPT = 256
AdapterOf: TypeAlias = Callable[[Site], Adapter | None]


class Extractor:
    """A site's selectors, compiled. Thread-safe: holds no state of a page."""

    def __init__(self, site: Site, allowed: Collection[str], adapter: Adapter | None) -> None:
        self.site = site
        self.allowed = tuple(allowed)
        link_filter = LinkFilter(site)
        listing = site.listing
        self._link_filter = link_filter
        self._sitemap = SitemapReader(site.sitemap, link_filter)
        self._listing = (
            ListingReader(listing, link_filter, site.limits.listings)
            if listing is not None
            else None
        )
        self._listing_function = (
            FunctionReader(listing.function, allowed, link_filter)
            if listing and listing.function
            else None
        )
        self.adapter = adapter
        self._interface = AdapterReader(adapter, link_filter) if adapter is not None else None
        function = site.product.function
        self._product_function = (
            FunctionReader(function, allowed, link_filter) if function is not None else None
        )
        reads = ProductReader if site.product.items is None else ItemsReader
        self._product = reads(site.product, site.url_rules)

    def extract(
        self,
        kind: Kind,
        page: Fetched,
        *,
        page_url: str,
        depth: int,
        last_content: UUID | None = None,
        limits: ReadLimits = ISOLATED,
        document: Document | None = None,
    ) -> Extracted:
        """Returns the links, products and problems of one page.

        `page_url` is the frontier's URL, `page.url` the final one; `depth` is 0 for a start page,
        which must give links; `last_content` is the hash of the page's last product, if known.
        Raises `FunctionFailed` and `TooSlow`. Unless `limits` are isolated, raises `ReadElsewhere`
        if reading has no certain bound: a large or unusual page, a slow selector, a site function;
        with `ParseElsewhere`, its `document` is given in the next call.
        """
        if not limits.isolated and self._needs_subprocess(kind, page):
            raise ReadElsewhere
        match kind:
            case Kind.SITEMAP:
                return self._sitemap.read(page, page_url)
            case Kind.LISTING:
                return self._read_listing(page, page_url, depth, limits)
            case Kind.PRODUCT if self._product_function is not None:
                return self._read_by_function(self._product_function, page, page_url, depth)
            case Kind.PRODUCT:
                if document is None:
                    # The items of a page may lie within each other.
                    in_thread = isinstance(self._product, ProductReader)
                    document = Document(page, page_url, limits, in_thread)
                return self._product.read(document, last_content)
            case _:
                assert_never(kind)

    def reads_interface(self, url: str) -> bool:
        """Returns whether an adapter reads the URL from the shop's interface."""
        return self.adapter is not None and self.adapter.reads(url)

    def _needs_subprocess(self, kind: Kind, page: Fetched) -> bool:
        """Returns whether a site function reads the page, or the page is a large or packed
        sitemap."""
        match kind:
            case Kind.SITEMAP:
                return len(page.body) > BYTES_MAX or page.body.startswith(GZIP)
            case Kind.LISTING:
                if self.adapter is not None and len(page.body) > BYTES_MAX:
                    return True
                return self._listing_function is not None
            case Kind.PRODUCT:
                return self._product_function is not None
            case _:
                assert_never(kind)

    def _read_listing(
        self, page: Fetched, page_url: str, depth: int, limits: ReadLimits
    ) -> Extracted:
        if self._interface is not None and self.reads_interface(page_url):
            return self._interface.read_rows(page, page_url)
        if self._listing is None:
            return Extracted(
                problems=["the site definition has no `listing:` to read this page with"],
                complete=False,
            )
        by_selectors = self._listing.read(Document(page, page_url, limits), depth)
        if self._listing_function is None:
            return by_selectors
        by_function = self._listing_function.read(self._make_page(page, page_url, depth))
        links = {link.url: link for link in (*by_function.links, *by_selectors.links)}
        problems = [*by_selectors.problems, *by_function.problems]
        if depth == 0 and not links and not by_function.products:
            return Extracted(
                problems=[*problems, "listing.function: yielded no link"], complete=False
            )
        return Extracted(
            list(links.values()), by_function.products, problems, partial=by_selectors.partial
        )

    def _read_by_function(
        self, function: FunctionReader, page: Fetched, page_url: str, depth: int
    ) -> Extracted:
        extracted = function.read(self._make_page(page, page_url, depth))
        if extracted.products or extracted.links:
            return extracted
        return Extracted(
            problems=[*extracted.problems, "product.function: yielded no product"], complete=False
        )

    def _make_page(self, page: Fetched, page_url: str, depth: int) -> Page:
        return Page(
            page.url,
            page.body,
            status=page.status,
            headers=page.headers,
            page_url=page_url,
            depth=depth,
            rules=self.site.url_rules,
        )


def find_adapter(site: Site) -> Adapter | None:
    """Returns what a plug-in reads the site's interface with."""
    return first_answer(hooks.adapter(site) for hooks in plugin_hooks().values())


def compile_site(
    site: Site, allowed: tuple[str, ...] = (), adapter_of: AdapterOf = find_adapter
) -> Extractor:
    """Returns the site's extractor, cached by content hash for the last 256 definitions. `allowed`:
    the modules whose functions it may import."""
    return _compile_cached(_SiteKey(site, adapter_of), allowed)


class _SiteKey:
    """A site as a dictionary key: equal if the definitions are equal."""

    def __init__(self, site: Site, adapter_of: AdapterOf) -> None:
        self.site = site
        self.adapter_of = adapter_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SiteKey) and other.site.content_hash == self.site.content_hash

    def __hash__(self) -> int:
        return hash(self.site.content_hash)


@lru_cache(maxsize=SITES_KEPT)
def _compile_cached(key: _SiteKey, allowed: tuple[str, ...]) -> Extractor:
    return Extractor(key.site, allowed, key.adapter_of(key.site))
