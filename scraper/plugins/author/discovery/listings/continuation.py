"""How a list of products goes on: by a link, by numbered pages, or as a browser scrolls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scraper.domain import Kind
from scraper.plugins.author.discovery.listings.cards import LinkGroup
from scraper.plugins.author.discovery.listings.listing_page import (
    ListingPage,
    ListingReader,
    has_any,
    links_of,
)
from scraper.plugins.author.discovery.listings.paging import (
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
from scraper.plugins.author.discovery.listings.state_links import next_in_state
from scraper.plugins.author.discovery.survey import Survey
from scraper.plugins.browser.keys import Rendering

_PROBED = ("page", "p")
# A list that grows in the browser does so at the most so many times.
GROWTH_MAX = 200
# Numbers of pages on the first one that are compared with what the others say.
LASTS_MAX = 8


@dataclass(frozen=True, slots=True)
class SecondPage:
    """`url`: where it was asked for. `link`: what leads to it, as a definition says it. `number`:
    how pages are counted, where that was guessed."""

    page: ListingPage
    url: str
    link: Any = None
    number: Numbering | None = None


class Continuation:
    """Finds how a list goes on, and notes it in the survey."""

    def __init__(self, reader: ListingReader, survey: Survey) -> None:
        self._reader, self._survey = reader, survey

    async def find(self, first: ListingPage, group: LinkGroup, *, single: bool) -> bool:
        """Whether the list goes on. `single`: it is the only one, so that its pages may be named by
        their path."""
        return await self._linked_pages(first, group, single=single) or (
            Kind.LISTING in self._reader.shown and await self._grown_page(first, group)
        )

    async def _grown_page(self, first: ListingPage, group: LinkGroup) -> bool:
        """Whether the list grows as a button is clicked, or as one scrolls."""
        button = more_button(first.document)
        ways: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("scrolling brings more", {"scroll": 3}, {"scroll": GROWTH_MAX})
        ]
        if button is not None:
            probe, lasting = ({"click": {"css": button, "max": times}} for times in (3, GROWTH_MAX))
            ways.insert(0, ("a button brings more", probe, lasting))
        for text, probe, lasting in ways:
            page = await self._reader.read_if_there(first.url, Rendering.model_validate(probe))
            products = page.products if page is not None else None
            if page is not None and products is not None and set(group.urls) < set(products.urls):
                self._survey.listing = {"products": self._links(page, products)}
                self._survey.rendering, self._survey.pages_text = lasting, text
                self._survey.take([page], products)
                return True
        return False

    async def _linked_pages(self, first: ListingPage, group: LinkGroup, *, single: bool) -> bool:
        survey = self._survey
        second = await self._second_page(first, group, probing=single)
        if second is None:
            return False
        number = _numbering(first, second)
        survey.take([first, second.page], group)
        last = None
        if number is not None and (single or number.param is not None):
            last = await self._last(first, second.page, number, group)
        options: dict[str, Any] = {"products": self._links(first, group)}
        if number is not None and last is not None:
            options["pages"] = {**last.options, **number.options()}
            survey.pages, survey.pages_text = last.pages, last.text
            end = await self._reader.read_if_there(number.nth(first.url, last.pages))
            survey.take([end] if end is not None else [], group)
        elif second.link is not None:
            options["next"] = second.link
            survey.pages_text = "the link to the next page"
        elif number is None:
            return False
        elif single or number.template is None:
            options["pages"] = number.options()
            survey.pages_text = "numbered pages, until one has no products"
        else:
            # Each list's pages have their own path.
            options["next"] = pager_links(first.document)
            if options["next"] is None:
                return False
            survey.pages_text = "the links to its other pages"
        survey.listing = options
        return True

    async def _second_page(
        self, first: ListingPage, group: LinkGroup, *, probing: bool
    ) -> SecondPage | None:
        """Behind a link that says so, else one whose address counts on, else (`probing`) where
        shops usually have it."""
        following: tuple[Any, str] | None = next_link(first.document)
        if following is None and group.state is not None:
            following = next_in_state(first.document)
        link, url = following or (None, numbered_links(first.document).get(2))
        page = await self._further(url, group) if url is not None else None
        if page is not None and url is not None:
            return SecondPage(page, url, link)
        alike = {url for group in first.groups for url in group.urls}
        for css, url in second_links(first.document)[:2]:
            page = None if url in alike else await self._further(url, group)
            if page is not None:
                return SecondPage(page, url, css)
        for name in _PROBED if probing else ():
            number = Numbering(1, 1, param=name)
            url = number.nth(first.url, 2)
            page = await self._further(url, group)
            if page is not None:
                return SecondPage(page, url, number=number)
        return None

    async def _further(self, url: str, group: LinkGroup) -> ListingPage | None:
        """The page, where it has products of its own."""
        page = await self._reader.read_if_there(url)
        return page if page is not None and _has_more(page, group) else None

    async def _last(
        self, first: ListingPage, second: ListingPage, number: Numbering, group: LinkGroup
    ) -> Last | None:
        """The number of pages as the first page says it, where the second says the same and the
        last page is there and leads no further."""
        of_second = [(last.options, last.pages) for last in last_pages(second.document, number)]
        for last in last_pages(first.document, number)[:LASTS_MAX]:
            if (last.options, last.pages) not in of_second:
                continue
            if not leads_to_all(first.document, last, number):
                continue
            page = await self._reader.read_if_there(number.nth(first.url, last.pages))
            if page is None:
                continue
            lists = _has_more(second if last.pages == 2 else page, group)
            # The last page may have fewer products than make a group.
            few = page.products is None and has_any(page, first, group, self._reader.site.owns)
            if (lists or few) and not _goes_beyond(page, first, last.pages):
                return last
        return None

    def _links(self, page: ListingPage, group: LinkGroup) -> Any:
        return links_of(page, group, self._reader.site.owns)


def _has_more(page: ListingPage, group: LinkGroup) -> bool:
    """Whether it lists products that are not of the group."""
    return page.products is not None and not set(page.products.urls) <= set(group.urls)


def _goes_beyond(page: ListingPage, first: ListingPage, pages: int) -> bool:
    """Whether what is said to be the last page leads to another, of a higher number."""
    beyond = next_link(page.document)
    return (
        beyond is not None
        and beyond[1] not in (first.url, page.url)
        and max(numbered_links(page.document), default=0) > pages
    )


def _numbering(first: ListingPage, second: SecondPage) -> Numbering | None:
    """How the pages' addresses are counted."""
    if second.number is not None:
        return second.number
    following = next_link(second.page.document)
    third = following[1] if following is not None else None
    if second.link is None or third in (None, second.url):
        numbers = numbered_links(second.page.document)
        third = numbers.get(3) or numbered_links(first.document).get(3)
    return numbering(second.page.url, third, first.url)
