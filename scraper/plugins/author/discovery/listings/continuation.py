"""How a list of products continues: by a link, by numbered pages, or as a browser scrolls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scraper.domain import Kind
from scraper.plugins.author.discovery.listings.cards import LinkGroup
from scraper.plugins.author.discovery.listings.listing_page import (
    ListingPage,
    ListingPageReader,
    has_new_product,
    write_links,
)
from scraper.plugins.author.discovery.listings.next_links import (
    find_more_button,
    find_next_link,
    find_second_links,
    read_link,
)
from scraper.plugins.author.discovery.listings.page_numbers import (
    Numbering,
    PageCount,
    counts_more,
    find_numbered_links,
    find_page_counts,
    find_pager_links,
    find_sent_params,
    infer_numbering,
    leads_to_all,
    skips_pages,
)
from scraper.plugins.author.discovery.listings.state_links import find_next_in_state
from scraper.plugins.author.discovery.survey import Survey
from scraper.rules import urls

# Parameters that shops usually count pages with.
_PROBED_PARAMS = ("page", "p")
# How often a list is grown to see whether it grows, and how often a crawl grows it at most.
GROWTH_PROBES = 3
GROWTH_MAX = 200
# Counts on the first page that are compared with the second one's.
COUNTS_MAX = 8
SECOND_LINKS_MAX = 2


@dataclass(frozen=True, slots=True)
class SecondPage:
    """`url`: the requested one. `link`: what leads to it, as a definition writes it. `numbering`:
    set if the URL was guessed."""

    page: ListingPage
    url: str
    link: Any = None
    numbering: Numbering | None = None


class Continuation:
    """Finds how a list continues, and records it in the survey."""

    def __init__(self, reader: ListingPageReader, survey: Survey) -> None:
        self._reader, self._survey = reader, survey

    async def find(
        self, first: ListingPage, group: LinkGroup, *, single: bool, probing: bool = False
    ) -> bool:
        """Returns whether the list continues. `single`: it is the only list, so that its pages may
        be identified by their path. `probing`: it may continue although no link says so."""
        return await self._find_linked_pages(first, group, single=single, probing=probing) or (
            Kind.LISTING in self._reader.shown and await self._find_growth(first, group)
        )

    async def _find_growth(self, first: ListingPage, group: LinkGroup) -> bool:
        """Returns whether the list grows as a button is clicked, or as the page scrolls."""
        ways: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("scrolling brings more", {"scroll": GROWTH_PROBES}, {"scroll": GROWTH_MAX})
        ]
        button = find_more_button(first.document)
        if button is not None:
            probe, lasting = (
                {"click": {"css": button, "max": times}} for times in (GROWTH_PROBES, GROWTH_MAX)
            )
            ways.insert(0, ("a button brings more", probe, lasting))
        for text, probe, lasting in ways:
            page = await self._reader.try_read(first.url, probe)
            products = page.products if page is not None else None
            if page is not None and products is not None and set(group.urls) < set(products.urls):
                self._survey.listing = {"products": self._write_links(page, products)}
                self._survey.rendering, self._survey.pages_text = lasting, text
                self._survey.record_listing_pages([page], products)
                return True
        return False

    async def _find_linked_pages(
        self, first: ListingPage, group: LinkGroup, *, single: bool, probing: bool
    ) -> bool:
        survey = self._survey
        second = await self._find_second_page(first, group, probing=single or probing)
        if second is None:
            return False
        numbering = _infer_numbering(first, second)
        survey.record_listing_pages([first, second.page], group)
        count = None
        if numbering is not None and (single or numbering.param is not None):
            count = await self._find_page_count(first, second.page, numbering, group)
        options: dict[str, Any] = {"products": self._write_links(first, group)}
        pager = find_pager_links(first.document)
        if numbering is not None and count is not None:
            options["pages"] = {**count.options, **numbering.options()}
            survey.pages, survey.pages_text = count.pages, count.text
            last = await self._reader.try_read(numbering.nth_url(first.url, count.pages))
            survey.record_listing_pages([last] if last is not None else [], group)
        elif second.link is not None:
            options["next"] = second.link
            survey.pages_text = "the link to the next page"
        elif numbering is None:
            return False
        elif (single or numbering.template is None) and (
            pager is None
            or urls.canonical(numbering.nth_url(first.url, 2)) == urls.canonical(second.url)
        ):
            options["pages"] = numbering.options()
            survey.pages_text = "numbered pages, until one has no products"
        elif pager is not None:
            # Each list's pages have their own path, or parameters that its first page lacks.
            options["next"] = pager
            survey.pages_text = "the links to its other pages"
        else:
            return False
        survey.listing = options
        return True

    async def _find_second_page(
        self, first: ListingPage, group: LinkGroup, *, probing: bool
    ) -> SecondPage | None:
        """Tries the link to the next page unless that skips any, then one whose address counts on,
        then the parameter that a button sends, then the usual ones if `probing`, or if the page
        counts more products than it shows."""
        following: tuple[Any, str] | None = find_next_link(first.document)
        numbered = find_numbered_links(first.document)
        if following is not None and skips_pages(following[1], numbered, first.document.url):
            following = None
        if following is None and group.state is not None:
            following = find_next_in_state(first.document)
        link, url = following or (None, numbered.get(2))
        page = await self._read_linked_page(url, first, group) if url is not None else None
        if page is not None and url is not None:
            return SecondPage(page, url, link)
        grouped = {url for group in first.groups for url in group.urls}
        for css, url in find_second_links(first.document)[:SECOND_LINKS_MAX]:
            page = None if url in grouped else await self._read_linked_page(url, first, group)
            if page is not None:
                return SecondPage(page, url, css)
        probing = probing or counts_more(first.document, len(group.cards))
        sent = find_sent_params(first.document)
        for param in dict.fromkeys((*sent, *(_PROBED_PARAMS if probing else ()))):
            numbering = Numbering(1, 1, param=param)
            url = numbering.nth_url(first.url, 2)
            page = await self._reader.try_read(url)
            if page is None or not _has_more(page, group):
                continue
            # A page that shows a random choice shows another one at any address.
            again = await self._reader.try_read(numbering.nth_url(first.url, 1))
            if again is None or again.products is None or again.products.urls == group.urls:
                return SecondPage(page, url, numbering=numbering)
        return None

    async def _read_linked_page(
        self, url: str, first: ListingPage, group: LinkGroup
    ) -> ListingPage | None:
        """Returns the page if it has products of its own: a last page may have a single one."""
        page = await self._reader.try_read(url)
        if page is None:
            return None
        owns = self._reader.site.owns
        return page if _has_more(page, group) or has_new_product(page, first, group, owns) else None

    async def _find_page_count(
        self, first: ListingPage, second: ListingPage, numbering: Numbering, group: LinkGroup
    ) -> PageCount | None:
        """Returns the count of the first page that the second page confirms, and whose last page
        exists and leads no further."""
        confirmed = [
            (count.options, count.pages) for count in find_page_counts(second.document, numbering)
        ]
        for count in find_page_counts(first.document, numbering)[:COUNTS_MAX]:
            if (count.options, count.pages) not in confirmed:
                continue
            if not leads_to_all(first.document, count, numbering):
                continue
            last = await self._reader.try_read(numbering.nth_url(first.url, count.pages))
            if last is None:
                continue
            lists_more = _has_more(second if count.pages == 2 else last, group)
            # The last page may have fewer products than make a group.
            lists_few = last.products is None and has_new_product(
                last, first, group, self._reader.site.owns
            )
            if (lists_more or lists_few) and not _goes_beyond(last, first, count.pages, numbering):
                return count
        return None

    def _write_links(self, page: ListingPage, group: LinkGroup) -> Any:
        return write_links(page, group, self._reader.site.owns)


def _has_more(page: ListingPage, group: LinkGroup) -> bool:
    """Returns whether the page lists products that are not in the group."""
    return page.products is not None and not set(page.products.urls) <= set(group.urls)


def _goes_beyond(last: ListingPage, first: ListingPage, pages: int, numbering: Numbering) -> bool:
    """Returns whether the presumed last page leads to another one, of a higher number: a pager may
    show only some numbers."""
    links = (read_link(link, last.document) for link in last.document.dom.css("a[href]"))
    return any(url and numbering.read_page(url, first.url) > pages for url in links)


def _infer_numbering(first: ListingPage, second: SecondPage) -> Numbering | None:
    """Returns how a listing numbers its pages, from the addresses of the first three. The third is
    what the second page links to as the next one; if that does not lead further, it is the link
    with the text "3"."""
    if second.numbering is not None:
        return second.numbering
    following = find_next_link(second.page.document)
    third = following[1] if following is not None else None
    if second.link is None or third in (None, second.url):
        numbered = find_numbered_links(second.page.document)
        third = numbered.get(3) or find_numbered_links(first.document).get(3)
    return infer_numbering(second.page.url, third, first.url)
