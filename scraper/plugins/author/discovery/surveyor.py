"""A survey of a shop through at most sixty pages: where it lists its products, how the list
continues, what identifies a product, and which source gives each field. Stores nothing."""

from __future__ import annotations

from scraper.domain import Kind
from scraper.errors import ConfigError
from scraper.plugins.author.discovery.block_pages import explain_captcha
from scraper.plugins.author.discovery.fields.identity import choose_id
from scraper.plugins.author.discovery.fields.induction import choose_fields
from scraper.plugins.author.discovery.fields.variants import propose_items
from scraper.plugins.author.discovery.idle_params import IdleParams
from scraper.plugins.author.discovery.listings.hidden_lists import HiddenLists
from scraper.plugins.author.discovery.listings.listing_page import (
    ListingPage,
    ListingPageReader,
    find_listing_above,
    is_product_page,
    may_be_product_page,
)
from scraper.plugins.author.discovery.listings.listing_search import ListingSearch
from scraper.plugins.author.discovery.listings.sitemap_search import add_named_sitemap
from scraper.plugins.author.discovery.platform import find_open_interface
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.product_pages import ProductPages, missing_fields
from scraper.plugins.author.discovery.rare_cards import RareCards
from scraper.plugins.author.discovery.survey import NoShopError, Survey
from scraper.plugins.author.supervision import record_page

# A page without any of these fields sells nothing.
_SOLD = ("price", "availability", "stock", "sku", "gtin", "mpn")


class Surveyor:
    """Surveys one shop."""

    def __init__(self, reader: PoliteReader) -> None:
        self._polite = reader
        self._reader = ListingPageReader(reader)

    async def survey(self, url: str) -> Survey:
        """Raises `NoShopError`, and FetchError if the page at `url` cannot be read."""
        first = await self._reader.read(url)
        kind = first.page.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind and not any(name in kind for name in ("html", "xml", "text/")):
            raise NoShopError(
                f"{first.url}: the answer is {kind}, and not HTML (fix: give the address of a "
                "page with products)"
            )
        survey = Survey(first.url)
        survey.interface, note = await find_open_interface(self._polite, first.url, first.page.body)
        if note:
            survey.notes.append(note)
        try:
            await self._survey_pages(survey, first)
        except NoShopError as error:
            if captcha := explain_captcha(first.page):
                raise NoShopError(f"{first.url}: {captcha}") from None
            # Scripts may fill its pages.
            if survey.interface is None:
                return await self._survey_by_browser(first, error)
            survey = Survey(survey.start, interface=survey.interface)
            survey.listing = {"products": "a"}
            survey.notes.append(f"the definition was written for its interface alone: {error}")
        return survey

    async def _survey_by_browser(self, first: ListingPage, error: NoShopError) -> Survey:
        """Surveys the shop again with a browser. Raises the error if that shows nothing new."""
        if first.document.dom.css_first("script") is None or Kind.LISTING in self._reader.shown:
            raise error
        survey = Survey(first.url)
        self._reader.shown = frozenset({Kind.LISTING})
        try:
            self._polite.require_browser()
        except ConfigError as no_browser:
            survey.shown = frozenset({Kind.LISTING, Kind.PRODUCT})
            survey.listing = {"products": "a"}
            survey.unproved = f"{error}; scripts may fill the page, and {no_browser}"
            return survey
        self._reader.forget_pages()
        try:
            await self._survey_pages(survey, await self._reader.read(first.url))
        except NoShopError as again:
            raise NoShopError(f"{again}; a browser was used, too") from None
        survey.shown |= self._reader.shown
        survey.notes.append("its HTML lists no products: a browser shows what scripts fill in")
        return survey

    async def _survey_pages(self, survey: Survey, first: ListingPage) -> None:
        if is_product_page(first) or may_be_product_page(first):
            first = await find_listing_above(first, self._reader)
            survey.start = first.url
        await ListingSearch(self._reader, survey).find(first)
        await add_named_sitemap(self._reader, survey)
        cards = await RareCards(self._reader, survey).find(first)
        pages = ProductPages(self._reader, survey, cards)
        await pages.read()
        record_page(survey.start)
        survey.fields = choose_fields(survey.samples)
        if missing_fields(survey.fields):
            await pages.compare_with_browser()
        record_page(survey.start)
        survey.id = choose_id(survey.known_urls, survey.fields, survey.samples)
        if survey.unproved:
            survey.fields = {}
            return
        _require_products(survey)
        await HiddenLists(self._reader, survey, pages).find(first)
        await IdleParams(self._reader, survey, pages).find()
        if survey.interface is None:
            survey.items = propose_items(survey.samples, survey.fields)


def _require_products(survey: Survey) -> None:
    """Raises `NoShopError` for pages without a title, or without a price, a number or stock."""
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
