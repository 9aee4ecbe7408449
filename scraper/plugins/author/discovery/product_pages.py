"""A sample of a shop's product pages, rendered by a browser if the HTML says too little."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress

from scraper.domain import Fetched, Kind
from scraper.errors import ConfigError, FetchError
from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import find_amounts
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.addresses import split_address
from scraper.plugins.author.discovery.css_paths import ancestors
from scraper.plugins.author.discovery.fields.induction import FieldChoice, choose_fields
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.listings.cards import Card, find_link_groups
from scraper.plugins.author.discovery.listings.listing_page import ListingPageReader, parse_page
from scraper.plugins.author.discovery.rare_cards import choose_rare
from scraper.plugins.author.discovery.sampling import spread_sample
from scraper.plugins.author.discovery.survey import NoShopError, Survey
from scraper.plugins.author.discovery.trial import field_reader
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.fields import FieldSpec

PRODUCTS = 12
LONE_CARD_LEVELS = 4
KNOWN_COMPARED = 300


class ProductPages:
    """Reads product pages, and records them in the survey."""

    def __init__(
        self, reader: ListingPageReader, survey: Survey, cards: Mapping[str, Card]
    ) -> None:
        self._reader, self._survey, self._cards = reader, survey, cards

    async def read(self, *, shown: bool = False) -> None:
        """Raises `NoShopError` if no product page can be read."""
        survey = self._survey
        survey.known_urls = list(dict.fromkeys(survey.known_urls))
        survey.product_pages, survey.samples = [], []
        cards = self._cards
        for url in _choose_samples(survey.known_urls, cards):
            if self._reader.has_read_enough:
                break
            try:
                fetched, sample = await self.read_sample(url, cards.get(url), shown=shown)
            except FetchError as error:
                survey.notes.append(f"{url}: {error.outcome}: {error}")
                continue
            survey.product_pages.append((url, fetched))
            survey.samples.append(sample)
        if not survey.samples:
            raise NoShopError(
                f"{survey.start}: no product page could be read: "
                f"{'; '.join(survey.notes[:2]) or 'no link led to one'}"
            )

    async def read_sample(
        self, url: str, card: Card | None, *, shown: bool
    ) -> tuple[Fetched, ProductSample]:
        fetched = await self._reader.polite.read(url, Kind.PRODUCT, shown=shown)
        document = parse_page(fetched, url)
        groups = find_link_groups(document, self._reader.site.owns)
        others = frozenset(
            card.element.mem_id
            for group in groups
            if group.is_products
            or (len(group.cards) > 1 and any(card.amounts for card in group.cards))
            for card in group.cards
            if len(card.element.html or "") * 2 < len(fetched.body)
        ) | frozenset(find_lone_cards(document, url, self._survey.known_urls))
        return fetched, ProductSample(document, card, others)

    async def compare_with_browser(self) -> None:
        """Reads product pages that lack a title or a price with a browser. If what it shows is in
        their script state too, the HTML is read instead."""
        survey = self._survey
        lacking = " and ".join(missing_fields(survey.fields))
        if not any(sample.document.dom.css_first("script") for sample in survey.samples):
            return
        try:
            self._reader.polite.require_browser()
        except ConfigError as error:
            why = f"product pages have no {lacking}: scripts may fill them, and {error}"
            survey.notes.append(why)
            survey.unseen = True
            if survey.fields["title"].best is None:
                survey.shown |= {Kind.PRODUCT}
                survey.unproved = why
            return
        pages, samples = survey.product_pages, survey.samples
        _, first = await self.read_sample(pages[0][0], None, shown=True)
        if len(_visible_text(first.document)) <= len(_visible_text(samples[0].document)):
            return
        await self.read(shown=True)
        rendered = choose_fields(survey.samples)
        if await self._read_again(rendered["title"]):
            rendered = choose_fields(survey.samples)
        if len(missing_fields(rendered)) >= len(missing_fields(survey.fields)):
            survey.product_pages, survey.samples = pages, samples
        elif not self._is_in_html(rendered, pages, samples):
            survey.fields = rendered
            survey.shown |= {Kind.PRODUCT}
            survey.notes.append(f"its product pages' HTML has no {lacking}: a browser shows them")

    async def _read_again(self, titles: FieldChoice) -> bool:
        """Reads the shown pages without a title again, since a busy machine's browser may have
        been read before it drew them. Returns whether there were any."""
        survey, are_read = self._survey, False
        for number, title in enumerate(titles.best.values if titles.best is not None else ()):
            if title is None and not self._reader.has_read_enough:
                url = survey.product_pages[number][0]
                with suppress(FetchError):
                    fetched, sample = await self.read_sample(url, self._cards.get(url), shown=True)
                    survey.product_pages[number], survey.samples[number] = (url, fetched), sample
                    are_read = True
        return are_read

    def _is_in_html(
        self,
        rendered: Mapping[str, FieldChoice],
        pages: list[tuple[str, Fetched]],
        samples: Sequence[ProductSample],
    ) -> bool:
        """Returns whether the HTML has what a browser shows, in script state; then the survey takes
        the HTML."""
        survey = self._survey
        by_url = dict(zip((url for url, _ in pages), samples, strict=True))
        plain = [by_url.get(url) for url, _ in survey.product_pages]
        alike = {name: _reads_alike(choice, plain) for name, choice in rendered.items()}
        if not (alike["title"] and alike["price"]):
            return False
        survey.notes.append("scripts fill its product pages from JSON that is in their HTML")
        kept = {url for url, _ in survey.product_pages}
        survey.product_pages = [pair for pair in pages if pair[0] in kept]
        survey.samples = [sample for sample in plain if sample is not None]
        survey.fields = {
            name: choice if alike[name] else FieldChoice(name, None, [])
            for name, choice in rendered.items()
        }
        return True


def find_lone_cards(document: Document, url: str, known: Sequence[str]) -> Iterator[int]:
    """Yields the elements that hold all links to another product and an amount, such as the one
    offer next to every page."""
    addresses = [split_address(product) for product in known[:KNOWN_COMPARED]]
    own = split_address(url)
    leads_to_product: dict[str | None, bool] = {None: False}
    for link in document.dom.css("a[href]"):
        linked = document.clean_link(link.attributes.get("href") or "")
        if linked is not None and linked not in leads_to_product:
            address = split_address(linked)
            leads_to_product[linked] = not address.may_be(own) and any(
                address.may_be(product) for product in addresses
            )
        if not leads_to_product[linked]:
            continue
        card = link
        for above in ancestors(link, LONE_CARD_LEVELS):
            others = above.css("a[href]")
            if above.css_first("h1") is not None or any(
                document.clean_link(other.attributes.get("href") or "") != linked
                for other in others
            ):
                break
            card = above
        if find_amounts(card):
            yield card.mem_id


def _choose_samples(known_urls: Sequence[str], cards: Mapping[str, Card]) -> list[str]:
    """Returns the products to read, in their order: some of each rare kind, and a spread sample of
    all."""
    listed = dict.fromkeys((*known_urls, *cards))
    urls = list({_same_product(url, cards.get(url)): url for url in reversed(listed)}.values())
    urls.reverse()
    rare = list(dict.fromkeys(choose_rare(urls, cards)))
    own = [url for url in urls if url in set(known_urls)] or urls
    chosen = dict.fromkeys((*rare, *spread_sample(own, PRODUCTS - len(rare))))
    chosen |= dict.fromkeys(spread_sample(own, PRODUCTS))
    kept = set(list(chosen)[:PRODUCTS])
    return [url for url in urls if url in kept]


def _same_product(url: str, card: Card | None) -> Hashable:
    """Returns what the addresses of one product in several lists share."""
    if card is None or card.image is None or not card.prices:
        return url
    return card.title, card.image, *card.prices


def missing_fields(fields: Mapping[str, FieldChoice]) -> list[str]:
    """Returns the fields that every product has, but that no source gives."""
    return [name for name in ("title", "price") if fields[name].best is None]


def _visible_text(document: Document) -> str:
    body = document.dom.body
    return clean_text(whole_text(body)) if body is not None else ""


def _reads_alike(choice: FieldChoice, samples: Sequence[ProductSample | None]) -> bool:
    """Returns whether the field's sources give the same values on these pages."""
    if choice.best is None:
        return False
    reader = field_reader(choice.name, FieldSpec.model_validate(choice.definition()))
    return all(
        sample is None or reader(sample.document)[0].get(choice.name) == value
        for sample, value in zip(samples, choice.best.values, strict=True)
    )
