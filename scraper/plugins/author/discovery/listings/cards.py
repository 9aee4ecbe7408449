"""Product cards on a listing page: repeated links, each in a card of its own with a title, an image
and a price. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import Amount, current_amounts, find_amounts
from scraper.extract.heuristics.stock_words import parse_availability
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.css_paths import ancestors
from scraper.rules.decoding import clean_text

GROUP_MIN = 3
# What a card adds to its group's score. A price is the surest sign of a product. Menus and teasers
# have pictures too, and nearly every link has a title. All weights were tuned by hand until the
# shop templates of the tests were read right.
CARD_WEIGHT = 0.2
PRICE_WEIGHT = 4
PICTURE_WEIGHT = 2
TITLE_CHARS_MIN = 3
# A menu or footer often has more links than the list of products. A list of bestsellers has the
# same cards as the list itself, so that it only comes second.
FRAME_FACTOR = 0.1
ASIDE_FACTOR = 0.5
# Cards that look like products: half of them have a price, or most of them a picture.
PRICED_SHARE_MIN = 0.5
PICTURED_SHARE_MIN = 0.8
CARD_ANCESTORS_MAX = 12
FRAME_ANCESTORS_MAX = 8
CLASS_LEVELS = 4
LINK_TITLE_CHARS_MAX = 100
CARD_TEXT_CHARS_MAX = 600
# Folders of pages that do not sell, and parameters of links that act.
_ACTS = re.compile(
    r"/(?:cart|basket|checkout|wishlist|wish-list|compare|login|signin|register|account|customer"
    r"|reviews?|add-to-cart|add_to_cart|warenkorb|panier|carrito|carrello|winkelwagen|privacy|terms"
    r"|contact|about|about-us|faq|help|blog|news|impressum|agb|search|rss|tags?)"
    r"(?:\.\w+)?(?:[/?]|$)|/feed/?(?:$|\?)|[?&](?:add-to-cart|add_to_cart|add|action|compare|wishlist)=",
    re.I,
)
_FILES = re.compile(r"\.(?:jpe?g|png|gif|webp|svg|avif|pdf|zip|css|js|xml|mp4)$", re.I)
_FRAME = frozenset({"nav", "header", "footer", "aside"})
_FRAME_WORD = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|menu|footer|header|breadcrumbs?|sidebar|pagination|pager|social"
    r"|filters?|facets?)(?:$|[\s_-])",
    re.I,
)
# Names of lists that show other products.
_ASIDE_WORD = re.compile(
    r"related|recommend|similar|upsell|cross-?sell|recent|viewed|best-?sell|popular|sponsor|carousel"
    r"|slider|swiper|slick|also-|side-?box",
    re.I,
)
# Classes that number elements or name a state, and so differ within one list.
_STATE = re.compile(
    r"\d|^(?:first|last|odd|even|active|sale|new|hot|featured|selected|current|instock|outofstock"
    r"|in-stock|out-of-stock|sold-?out)$|(?:[_-]|row|item)(?:odd|even|first|last)$",
    re.I,
)


@dataclass(slots=True)
class Card:
    """What a listing says of one product. `in_state`: it is an entry of script state, and its
    elements are the page's body."""

    url: str
    title: str
    image: str | None
    amounts: list[Amount]
    element: LexborNode
    link: LexborNode
    in_state: bool = False

    @property
    def prices(self) -> list[Decimal]:
        """The current prices, or all amounts if none is current."""
        return [amount.value for amount in current_amounts(self.amounts) or self.amounts]

    @property
    def is_sold_out(self) -> bool:
        """Returns whether the card says so in words. Its text is that of one product alone."""
        if self.in_state:
            return False
        text = clean_text(whole_text(self.element))
        return len(text) <= CARD_TEXT_CHARS_MAX and parse_availability(text) is False


@dataclass(slots=True)
class LinkGroup:
    """Links in similar places of a page.

    `is_framed`: in the navigation, header or footer. `is_aside`: in a list of other products, such
    as bestsellers. `state`: the path of the links in script state.
    """

    cards: list[Card]
    is_framed: bool
    is_aside: bool = False
    links: list[LexborNode] = field(default_factory=list)
    state: str | None = None

    @property
    def urls(self) -> list[str]:
        return [card.url for card in self.cards]

    @property
    def priced_share(self) -> float:
        return sum(bool(card.amounts) for card in self.cards) / len(self.cards)

    @property
    def pictured_share(self) -> float:
        return sum(card.image is not None for card in self.cards) / len(self.cards)

    @property
    def score(self) -> float:
        """A measure of how likely the group is the page's list of products."""
        titles = sum(len(card.title) >= TITLE_CHARS_MIN for card in self.cards)
        weight = (
            CARD_WEIGHT
            + PRICE_WEIGHT * self.priced_share
            + PICTURE_WEIGHT * self.pictured_share
            + titles / len(self.cards)
        )
        factor = FRAME_FACTOR if self.is_framed else ASIDE_FACTOR if self.is_aside else 1
        return len(self.cards) * weight * factor

    @property
    def is_products(self) -> bool:
        return not self.is_framed and (
            self.priced_share >= PRICED_SHARE_MIN or self.pictured_share >= PICTURED_SHARE_MIN
        )


def find_link_groups(document: Document, owns: Callable[[str], bool]) -> list[LinkGroup]:
    """Returns the page's groups of links to its own site, the likeliest products first."""
    places: dict[tuple[str, ...], list[tuple[str, LexborNode]]] = defaultdict(list)
    for link in document.dom.css("a[href]"):
        url = document.clean_link(link.attributes.get("href") or "")
        if url is not None and owns(url) and url != document.url and _may_be_product_url(url):
            places[_describe_place(link)].append((url, link))
    groups = [
        _make_group(listed)
        for listed in places.values()
        if len({url for url, _ in listed}) >= GROUP_MIN
    ]
    return sorted(groups, key=lambda group: group.score, reverse=True)


def _make_group(listed: list[tuple[str, LexborNode]]) -> LinkGroup:
    links: dict[str, LexborNode] = {}
    for url, link in listed:
        # Of several links to one page, the one with text has the title.
        if url not in links or not clean_text(whole_text(links[url])):
            links[url] = link
    # In how many cards each element is.
    shared: Counter[int] = Counter(
        ancestor.mem_id
        for link in links.values()
        for ancestor in ancestors(link, CARD_ANCESTORS_MAX)
    )
    cards = [_make_card(url, link, shared) for url, link in links.items()]
    is_framed = sum(map(_is_in_frame, links.values())) * 2 > len(links)
    is_aside = _is_within(next(iter(links.values())), _ASIDE_WORD)
    return LinkGroup(cards, is_framed, is_aside, list(links.values()))


def _make_card(url: str, link: LexborNode, shared: Counter[int]) -> Card:
    """Returns the largest element around the link that contains no other link of its group."""
    card = link
    for ancestor in ancestors(link, CARD_ANCESTORS_MAX):
        if shared[ancestor.mem_id] > 1:
            break
        card = ancestor
    image = card.css_first("img")
    source = None
    if image is not None:
        source = image.attributes.get("data-src") or image.attributes.get("src")
    title = _read_title(card, link, image)
    return Card(url, title, source, _read_amounts(card), card, link)


def _read_amounts(card: LexborNode) -> list[Amount]:
    """Returns the card's amounts. Where all are named as former prices, the name is that of their
    place, such as `list-price` for the price in a list: the lowest is the current one."""
    amounts = find_amounts(card) or _find_own_amounts(card)
    if not all(amount.struck for amount in amounts):
        return amounts
    lowest = min((amount.value for amount in amounts), default=None)
    return [amount._replace(struck=amount.value != lowest) for amount in amounts]


def _read_title(card: LexborNode, link: LexborNode, image: LexborNode | None) -> str:
    title = (link.attributes.get("title") or "").strip() or clean_text(whole_text(link))
    heading = card.css_first("h1, h2, h3, h4, h5, [itemprop=name]")
    if heading is not None and (not title or len(title) > LINK_TITLE_CHARS_MAX):
        title = clean_text(whole_text(heading))
    if not title and image is not None:
        title = (image.attributes.get("alt") or "").strip()
    return title


def _find_own_amounts(card: LexborNode) -> list[Amount]:
    """Returns the amounts of a card that is one element with a text."""
    parent = card.parent
    if parent is None:
        return []
    return [amount for amount in find_amounts(parent) if amount.element.mem_id == card.mem_id]


def _describe_place(link: LexborNode) -> tuple[str, ...]:
    """Returns the tags up to the root, the nearest ones with their first lasting class."""
    names = []
    element: LexborNode | None = link
    level = 0
    while element is not None and element.tag not in (None, "-document", "html"):
        name = element.tag or ""
        if level < CLASS_LEVELS:
            name += "." + _first_lasting_class(element)
        names.append(name)
        element = element.parent
        level += 1
    return tuple(names)


def _first_lasting_class(element: LexborNode) -> str:
    for name in (element.attributes.get("class") or "").split():
        if not _STATE.search(name):
            return name
    return ""


def _is_in_frame(link: LexborNode) -> bool:
    return _is_within(link, _FRAME_WORD) or any(
        ancestor.tag in _FRAME for ancestor in ancestors(link, FRAME_ANCESTORS_MAX)
    )


def _is_within(link: LexborNode, word: re.Pattern[str]) -> bool:
    """Returns whether a class or an id around the link has the word."""
    return any(
        word.search(ancestor.attributes.get(key) or "")
        for ancestor in ancestors(link, FRAME_ANCESTORS_MAX)
        for key in ("class", "id")
    )


def _may_be_product_url(url: str) -> bool:
    parts = urlsplit(url)
    return not (_FILES.search(parts.path) or _ACTS.search(f"{parts.path}?{parts.query}"))
