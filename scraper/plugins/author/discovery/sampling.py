"""Samples of a site by its definition: the listing pages and sitemaps that lead to products, and a
few product pages. All problems are reported, nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import FetchError
from scraper.extract import FunctionFailed, TooSlow
from scraper.plugins.author.discovery.block_pages import explain_same_pages
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.trial import (
    ListingTrial,
    PageTrial,
    try_listing,
    try_product,
)
from scraper.sites.definition import Site

# How many pages are followed through nested categories and indexes of sitemaps.
DISCOVERING_MAX = 5
# Multiples of the golden ratio are spread evenly, and repeat no pattern.
_GOLDEN = 0.618


@dataclass(slots=True)
class Sample:
    """`wanted`: the number of requested product pages."""

    wanted: int
    listings: list[ListingTrial] = field(default_factory=list)
    products: list[PageTrial] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        if self.wanted:
            # A page that no longer exists says nothing about the definition.
            read = [page.complete for page in self.products if not page.gone]
            return bool(read) and all(read)
        return any(listing.products or listing.listings for listing in self.listings)


class Sampler:
    """Reads pages of a site by its definition. `allowed`: the modules whose functions the
    definition may name."""

    def __init__(self, reader: PoliteReader, allowed: tuple[str, ...]) -> None:
        self._reader = reader
        self._site: Site = reader.context.site
        self._allowed = allowed
        # The product pages that were read, by their URLs.
        self._pages: dict[str, Fetched] = {}

    async def sample(self, products: int) -> Sample:
        """Reads from the start pages until one lists products, then up to `products` of them."""
        sample = Sample(products)
        due = [(url, Kind.LISTING) for url in self._site.start]
        if self._site.sitemap is not None:
            due += [(url, Kind.SITEMAP) for url in self._site.sitemap.urls]
        while due and len(sample.listings) < DISCOVERING_MAX:
            url, kind = due.pop(0)
            trial = await self.fetch_listing(url, kind)
            sample.listings.append(trial)
            if trial.products:
                for product in spread_sample(trial.products, products):
                    sample.products.append(await self.fetch_product(product))
                self._explain_block(sample)
                return sample
            due += [(link, kind) for link in spread_sample(trial.listings, DISCOVERING_MAX)]
        return sample

    def _explain_block(self, sample: Sample) -> None:
        """Says of pages that look all the same what they may be, instead of what they lack."""
        bad = [trial for trial in sample.products if not trial.complete and not trial.gone]
        pages = [self._pages[trial.url] for trial in bad if trial.url in self._pages]
        read = {str([(row.name, row.value) for row in trial.fields]) for trial in bad}
        # A shop's pages differ in some field, also where another one is not found.
        same = len(pages) == len(sample.products) and len(read) == 1
        block = explain_same_pages(pages) if same else ""
        if block:
            sample.products = [
                replace(trial, external_id=None, fields=(), problems=(block,)) for trial in bad
            ]

    async def fetch_listing(self, url: str, kind: Kind = Kind.LISTING) -> ListingTrial:
        try:
            return self.read_listing(await self._reader.read(url, kind), url, kind)
        except FetchError as error:
            return ListingTrial(url, problems=(f"{error.outcome}: {error}",))

    async def fetch_product(self, url: str) -> PageTrial:
        try:
            return self.read_product(await self._reader.read(url, Kind.PRODUCT), url)
        except FetchError as error:
            gone = error.outcome is Outcome.NOT_FOUND
            problems = () if gone else (f"{error.outcome}: {error}",)
            return PageTrial(url, None, False, problems=problems, gone=gone)

    def read_listing(self, page: Fetched, url: str, kind: Kind = Kind.LISTING) -> ListingTrial:
        try:
            return try_listing(self._site, page, url, self._allowed, kind)
        except (FunctionFailed, TooSlow) as error:
            return ListingTrial(url, problems=(str(error),))

    def read_product(self, page: Fetched, url: str) -> PageTrial:
        self._pages[page.url] = page
        try:
            return try_product(self._site, page, url, self._allowed)
        except (FunctionFailed, TooSlow) as error:
            return PageTrial(url, None, False, problems=(str(error),))


def spread_sample(urls: Iterable[str], number: int) -> list[str]:
    """Returns `number` of the URLs, from the first to the last, in uneven steps.

    With even steps, a field that every fourth product has could be in no sample.
    """
    listed = list(urls)
    if len(listed) <= number:
        return listed
    last = max(1, number - 1)
    step = (len(listed) - 1) / last
    uneven = 0.9 if step >= 3 else 0.45 if step >= 2 else 0.0

    def position(at: int) -> int:
        shift = uneven * (at * _GOLDEN % 1 - 0.5) if 0 < at < last else 0
        return int(step * (at + shift))

    return [listed[position(at)] for at in range(number)]
