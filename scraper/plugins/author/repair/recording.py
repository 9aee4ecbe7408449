"""Reads a sample of a site's pages, and records them (`records`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from scraper.domain import Fetched, Kind
from scraper.errors import ScraperError, quote_command
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.sampling import Sampler, spread_sample
from scraper.plugins.author.repair.records import Record, make_records
from scraper.settings import Settings
from scraper.sites.definition import Site

# One recorded page of this many is a listing.
LISTING_EVERY = 5


class RecordingReader(PoliteReader):
    """Keeps the pages that it reads, each with its URL and kind."""

    pages: list[tuple[str, Kind, Fetched]]

    async def __aenter__(self) -> RecordingReader:
        self.pages = []
        return self

    async def read(
        self,
        url: str,
        kind: Kind,
        *,
        shown: bool = False,
        rendering: Mapping[str, Any] | None = None,
    ) -> Fetched:
        page = await super().read(url, kind, shown=shown, rendering=rendering)
        self.pages.append((url, kind, page))
        return page


def record_site(site: Site, settings: Settings, pages: int) -> tuple[list[Record], int]:
    """Returns the records, and the number of requests. Raises `FetchError`, and `ScraperError` if
    no product would be stored."""

    async def run() -> tuple[list[Record], int]:
        async with RecordingReader(site, settings) as reader:
            return await _record_pages(reader, settings, pages), reader.requests

    return asyncio.run(run())


async def _record_pages(reader: RecordingReader, settings: Settings, pages: int) -> list[Record]:
    """Records about `pages` pages, each once: some listings, and mostly products."""
    site, allowed = reader.context.site, settings.site_function_modules
    problems = await _read_pages(reader, allowed, pages)
    records = [
        record
        for record in make_records(site, settings, reader.pages)
        if record.kind is not Kind.PRODUCT or record.expected["rows"]
    ]
    if not any(record.kind is Kind.PRODUCT for record in records):
        raise ScraperError(
            f"{site.name}: no product page was read that a crawl would store"
            f"{': ' if problems else ''}{'; '.join(problems[:2])} "
            f"(fix: see `{quote_command('scraper try', site.name)}`)"
        )
    return records


async def _read_pages(reader: RecordingReader, allowed: tuple[str, ...], pages: int) -> list[str]:
    """Reads a sample of the site, and returns the problems."""
    sampler = Sampler(reader, allowed)
    listings = (await sampler.sample(0)).listings
    products = [link for trial in listings for link in trial.products]
    further = [link for trial in listings for link in trial.listings]
    seen = {url for url, _, _ in reader.pages}
    listings_wanted = max(0, pages // LISTING_EVERY - len(seen))
    for url in spread_sample(dict.fromkeys(further), listings_wanted):
        products += (await sampler.fetch_listing(url)).products
    problems = [problem for trial in listings for problem in trial.problems]
    products_wanted = max(1, pages - len(reader.pages))
    for url in spread_sample(dict.fromkeys(products), products_wanted):
        problems += (await sampler.fetch_product(url)).problems
    return problems
