"""A shop, looked at through at most sixty pages: where its products are listed, how the pages go
on, what identifies a product, and where each field stands. Stores nothing."""

from __future__ import annotations

from scraper.domain import Kind
from scraper.errors import ConfigError
from scraper.plugins.author.discovery.fields.identity import choose_id
from scraper.plugins.author.discovery.fields.induction import choose_fields
from scraper.plugins.author.discovery.fields.variants import propose_items
from scraper.plugins.author.discovery.listings.listing_page import (
    ListingPage,
    ListingReader,
    is_product,
    lists_few,
)
from scraper.plugins.author.discovery.listings.listing_search import ListingSearch, listing_above
from scraper.plugins.author.discovery.platform import open_interface
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.product_pages import ProductPages, lacks
from scraper.plugins.author.discovery.survey import NoShopError, Survey

# A page that has none of these sells nothing.
_SOLD = ("price", "availability", "stock", "sku", "gtin", "mpn")


class Surveyor:
    """Looks at one shop. Raises `NoShopError` and FetchError where the address itself cannot be
    read."""

    def __init__(self, reader: PoliteReader) -> None:
        self._polite = reader
        self._reader = ListingReader(reader)

    async def survey(self, url: str) -> Survey:
        first = await self._reader.read(url)
        kind = first.page.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind and not any(name in kind for name in ("html", "xml", "text/")):
            raise NoShopError(
                f"{first.url}: the answer is {kind}, and not HTML (fix: give the address of a "
                "page with products)"
            )
        survey = Survey(first.url)
        survey.interface, closed = await open_interface(self._polite, first.url, first.page.body)
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
        if first.document.dom.css_first("script") is None or Kind.LISTING in self._reader.shown:
            raise error
        survey = Survey(first.url)
        self._reader.shown = frozenset({Kind.LISTING})
        try:
            self._polite.require_browser()
        except ConfigError as missing:
            survey.shown = frozenset({Kind.LISTING, Kind.PRODUCT})
            survey.listing = {"products": "a"}
            survey.unproved = f"{error}; scripts may fill the page, and {missing}"
            return survey
        self._reader.forget()
        try:
            await self._look(survey, await self._reader.read(first.url))
        except NoShopError as again:
            raise NoShopError(f"{again}; a browser was asked, too") from None
        survey.shown |= self._reader.shown
        survey.notes.append("its HTML lists no products: a browser shows what scripts fill in")
        return survey

    async def _look(self, survey: Survey, first: ListingPage) -> None:
        if is_product(first) or lists_few(first):
            first = await listing_above(first, self._reader)
            survey.start = first.url
        await ListingSearch(self._reader, survey).find(first)
        pages = ProductPages(self._reader, survey)
        await pages.read()
        survey.fields = choose_fields(survey.samples)
        if lacks(survey.fields):
            await pages.compare_with_browser()
        survey.id = choose_id(survey.known_urls, survey.fields)
        if survey.unproved:
            survey.fields = {}
            return
        _require_products(survey)
        await pages.find_idle_params()
        if survey.interface is None:
            survey.items = propose_items(survey.samples, survey.fields)


def _require_products(survey: Survey) -> None:
    """Without a title there is no product, and without a price, a number or stock no shop. Raises
    `NoShopError`."""
    if survey.fields["title"].best is None:
        raise NoShopError(
            f"{survey.start}: the pages behind its links have no title that changes from page to "
            f"page and agrees with another source, as in {survey.product_pages[0][0]} (fix: give "
            "the address of a category page)"
        )
    if not survey.unseen and not any(survey.fields[name].best for name in _SOLD):
        raise NoShopError(
            f"{survey.start}: the pages behind its links have titles, but no price, number or "
            f"stock, as {survey.product_pages[0][0]}: they may be articles (fix: give the address "
            "of a category page)"
        )
