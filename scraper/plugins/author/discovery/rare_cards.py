"""Cards of rare products: reduced, sold out, or without a picture. Only the pages of such products
show what such a page has, so that some of them must be among the samples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from scraper.extract.heuristics.amounts import naming_words
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.addresses import Address, split_address
from scraper.plugins.author.discovery.listings.cards import CARD_TEXT_CHARS_MAX, Card
from scraper.plugins.author.discovery.listings.listing_page import ListingPage, ListingPageReader
from scraper.plugins.author.discovery.listings.page_numbers import find_numbered_links
from scraper.plugins.author.discovery.sampling import spread_sample
from scraper.plugins.author.discovery.survey import Survey
from scraper.rules.decoding import clean_text

# Lists that are read in search of a reduced product, in addition to the page of offers.
LISTS_TRIED = 3
# How many ways to mark prices are among the samples, the most usual ones first.
MARKUPS_MAX = 4
# The other samples are a spread choice.
RARE_MAX = 8
KNOWN_COMPARED = 300
# Names of links to the page of reduced products.
_OFFERS = re.compile(
    r"(?:(?:on )?sales?|specials?|special offers?|(?:current )?offers?|deals?|reduced|clearance"
    r"|outlet|angebote?|sonderangebote?|reduziert|schnäppchen|aktion(?:en|sartikel)?|promos?|promotions?"
    r"|soldes|bons plans|ofertas?|rebajas|promociones|promoções|offerte|saldi|promozioni"
    r"|aanbiedingen|uitverkoop|korting|rea|tilbud|erbjudanden|tarjoukset|promocje|wyprzedaż"
    r"|akce|výprodej|slevy|akciók?|скидки|акции|распродажа|sale products?)",
    re.I,
)


def is_reduced(card: Card) -> bool:
    return any(amount.struck for amount in card.amounts)


def is_sold_out(card: Card) -> bool:
    return card.is_sold_out


def lacks_picture(card: Card) -> bool:
    return card.image is None and bool(card.amounts)


def has_quotes(card: Card) -> bool:
    """Returns whether the text has quotes, which break attributes and JSON in some shops."""
    text = card.title if card.in_state else whole_text(card.element)
    return '"' in text[:CARD_TEXT_CHARS_MAX]


# The kinds of cards, and how many samples each gets at most.
RARE_KINDS = ((has_quotes, 1), (is_reduced, 3), (is_sold_out, 2), (lacks_picture, 2))


class RareCards:
    """Finds them on the pages that were read, and reads some lists more if none is reduced."""

    def __init__(self, reader: ListingPageReader, survey: Survey) -> None:
        self._reader, self._survey = reader, survey

    async def find(self, first: ListingPage) -> dict[str, Card]:
        """Returns the cards of products by their URLs; those of the lists come first. `first`: the
        page that the survey began with."""
        cards: dict[str, Card] = {}
        for read in [*self._survey.listing_pages, first]:
            self._add_cards(read, cards)
        urls = [*self._list_offers(first), *self._list_further_pages()]
        for url in urls[: LISTS_TRIED + 1]:
            if self._reader.has_read_enough or any(map(is_reduced, cards.values())):
                break
            page = await self._reader.try_read(url)
            if page is not None:
                self._add_cards(page, cards)
        return cards

    def _add_cards(self, page: ListingPage, cards: dict[str, Card]) -> None:
        """Adds the cards of the page's products: as a list, or with a price and an address that has
        a known product's form."""
        if page in self._survey.listing_pages and page.products is not None:
            for card in page.products.cards:
                cards.setdefault(card.url, card)
            return
        products = [split_address(url) for url in self._survey.known_urls[:KNOWN_COMPARED]]
        for group in page.groups:
            for card in group.cards if group.is_products else ():
                if card.amounts and is_formed_like(split_address(card.url), products):
                    cards.setdefault(card.url, card)

    def _list_offers(self, first: ListingPage) -> Iterator[str]:
        """Yields the first link that is named as the page of reduced products."""
        for link in first.document.dom.css("a[href]"):
            text = clean_text(whole_text(link))
            text = re.sub(r"\[\w+\]$", "", text).strip(" .…»›→>!%")
            url = first.document.clean_link(link.attributes.get("href") or "")
            if url and self._reader.site.owns(url) and _OFFERS.fullmatch(text):
                yield url
                return

    def _list_further_pages(self) -> list[str]:
        """Returns some numbered pages of the lists that were not read."""
        pages = self._survey.listing_pages
        numbered = {url for page in pages for url in find_numbered_links(page.document).values()}
        return spread_sample(sorted(numbered - {page.url for page in pages}), LISTS_TRIED)


def choose_rare(urls: list[str], cards: Mapping[str, Card]) -> list[str]:
    """Returns some URLs of each kind that few of the products are of, and one for each rare markup
    of prices: a sale may be marked in another way than a special offer."""
    marked: dict[frozenset[str], list[str]] = {}
    for url in urls:
        if url in cards:
            marked.setdefault(_describe_prices(cards[url]), []).append(url)
    chosen = [same[0] for same in sorted(marked.values(), key=len)[1 - MARKUPS_MAX :][:-1]]
    for is_kind, wanted in RARE_KINDS:
        listed = [url for url in urls if url in cards and is_kind(cards[url])]
        if len(listed) * 2 < len(urls):
            lacking = wanted - sum(url in listed for url in chosen)
            chosen += spread_sample([url for url in listed if url not in chosen], max(0, lacking))
    return chosen[:RARE_MAX]


def _describe_prices(card: Card) -> frozenset[str]:
    """Returns the names of the elements that hold the card's prices."""
    return frozenset(naming_words(amount.element) for amount in card.amounts)


def is_formed_like(address: Address, known: Sequence[Address]) -> bool:
    """Returns whether an address may be a product's: it has the parameters that all known products
    share, no parameter that none of them has, and the same path if their parameters differ."""
    if not known:
        return False
    names = {name for product in known for name, _ in product.params}
    shared = frozenset.intersection(*(product.params for product in known))
    own = {name for name, _ in address.params}
    told_apart = bool(names - {name for name, _ in shared})
    if not told_apart:
        return address.params == shared
    files = {product.name for product in known}
    return shared < address.params and own <= names and (len(files) > 1 or address.name in files)
