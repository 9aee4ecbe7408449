"""From a definition to some of its pages: the listing pages and sitemaps that lead to products, and
a few product pages. Everything it meets is told, nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import FetchError
from scraper.extract import FunctionFailed, TooSlow
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.trial import (
    ListingTrial,
    PageTrial,
    try_listing,
    try_product,
)
from scraper.sites.definition import Site

# Categories of categories, and indexes of sitemaps, are followed so far.
DISCOVERING_MAX = 5
_GOLDEN = 0.618


@dataclass(slots=True)
class Sample:
    """`wanted`: so many product pages were asked for."""

    wanted: int
    listings: list[ListingTrial] = field(default_factory=list)
    products: list[PageTrial] = field(default_factory=list)

    @property
    def good(self) -> bool:
        if self.wanted:
            # That a product is gone is an answer, though none that shows a definition to be right.
            read = [page.complete for page in self.products if not page.gone]
            return bool(read) and all(read)
        return any(listing.products or listing.listings for listing in self.listings)


class Sampler:
    """Reads pages of a site by its definition. `allowed`: the modules whose functions it may
    name."""

    def __init__(self, reader: PoliteReader, allowed: tuple[str, ...]) -> None:
        self._reader = reader
        self._site: Site = reader.context.site
        self._allowed = allowed

    async def sample(self, products: int) -> Sample:
        """Reads from the start until products are there, and then so many of them."""
        sample = Sample(products)
        due = [(url, Kind.LISTING) for url in self._site.start]
        if self._site.sitemap is not None:
            due += [(url, Kind.SITEMAP) for url in self._site.sitemap.urls]
        while due and len(sample.listings) < DISCOVERING_MAX:
            url, kind = due.pop(0)
            trial = await self.listing(url, kind)
            sample.listings.append(trial)
            if trial.products:
                for product in spread(trial.products, products):
                    sample.products.append(await self.product(product))
                return sample
            due += [(link, kind) for link in spread(trial.listings, DISCOVERING_MAX)]
        return sample

    async def listing(self, url: str, kind: Kind = Kind.LISTING) -> ListingTrial:
        try:
            return self.read_listing(await self._reader.read(url, kind), url, kind)
        except FetchError as error:
            return ListingTrial(url, problems=(f"{error.outcome}: {error}",))

    async def product(self, url: str) -> PageTrial:
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
        try:
            return try_product(self._site, page, url, self._allowed)
        except (FunctionFailed, TooSlow) as error:
            return PageTrial(url, None, False, problems=(str(error),))


def spread(urls: Iterable[str], number: int) -> list[str]:
    """So many of them, from the first to the last, in uneven steps: what every fourth product has
    must not fall between them."""
    listed = list(urls)
    if len(listed) <= number:
        return listed
    last = max(1, number - 1)
    step = (len(listed) - 1) / last
    uneven = 0.9 if step >= 3 else 0.45 if step >= 2 else 0.0

    def place(at: int) -> int:
        shift = uneven * (at * _GOLDEN % 1 - 0.5) if 0 < at < last else 0
        return int(step * (at + shift))

    return [listed[place(at)] for at in range(number)]
