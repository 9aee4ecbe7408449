"""The products of a listing page: repeated links, each in a card of its own with a title, an image
and a price. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from os.path import commonprefix
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import Amount, current_amounts, find_amounts
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.css_paths import ancestors, find_paths
from scraper.rules import urls
from scraper.rules.decoding import clean_text

GROUP_MIN = 3
# Folders of pages that are no products, and parameters of links that act.
_ACTS = re.compile(
    r"/(?:cart|basket|checkout|wishlist|wish-list|compare|login|signin|register|account|customer"
    r"|reviews?|add-to-cart|add_to_cart|warenkorb|panier|carrito|carrello|winkelwagen|privacy|terms"
    r"|contact|about|about-us|faq|help|blog|news|impressum|agb|search|rss|feed|tags?)"
    r"(?:\.\w+)?(?:[/?]|$)|[?&](?:add-to-cart|add_to_cart|add|action|compare|wishlist)=",
    re.I,
)
_FILES = re.compile(r"\.(?:jpe?g|png|gif|webp|svg|avif|pdf|zip|css|js|xml|mp4)$", re.I)
_FRAME = frozenset({"nav", "header", "footer", "aside"})
_FRAME_WORD = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|menu|footer|header|breadcrumbs?|sidebar|pagination|pager|social"
    r"|filters?|facets?)(?:$|[\s_-])",
    re.I,
)
_BESIDE_WORD = re.compile(
    r"related|recommend|similar|upsell|cross-?sell|recent|viewed|best-?sell|popular|sponsor|carousel"
    r"|slider|swiper|slick|also-",
    re.I,
)


@dataclass(slots=True)
class Card:
    """What a listing says of one product."""

    url: str
    title: str
    image: str | None
    amounts: list[Amount]
    element: LexborNode
    link: LexborNode
    in_state: bool = False

    @property
    def prices(self) -> list[Decimal]:
        """The prices that are not former ones and stand beside nothing, or all."""
        return [amount.value for amount in current_amounts(self.amounts) or self.amounts]


@dataclass(slots=True)
class LinkGroup:
    """Links that stand in like places. `framed`: in the page's navigation, header or footer.
    `beside`: in what calls itself a list of others, such as bestsellers. `state`: the path of their
    addresses in the JSON that scripts start from."""

    cards: list[Card]
    framed: bool
    beside: bool = False
    links: list[LexborNode] = field(default_factory=list)
    state: str | None = None

    @property
    def urls(self) -> list[str]:
        return [card.url for card in self.cards]

    @property
    def priced(self) -> float:
        """The share of its cards that have a price."""
        return sum(bool(card.amounts) for card in self.cards) / len(self.cards)

    @property
    def pictured(self) -> float:
        return sum(card.image is not None for card in self.cards) / len(self.cards)

    @property
    def score(self) -> float:
        titled = sum(len(card.title) > 2 for card in self.cards) / len(self.cards)
        worth = 0.1 if self.framed else 0.5 if self.beside else 1
        likeness = 0.2 + 4 * self.priced + 2 * self.pictured + titled
        return len(self.cards) * likeness * worth

    @property
    def is_products(self) -> bool:
        """Whether the cards look like products: pictures or prices, and outside of the frame."""
        return not self.framed and (self.priced >= 0.5 or self.pictured >= 0.8)


def link_groups(document: Document, owns: Callable[[str], bool]) -> list[LinkGroup]:
    """The page's groups of links to its own site, the likeliest products first."""
    places: dict[tuple[str, ...], list[tuple[str, LexborNode]]] = defaultdict(list)
    for link in document.dom.css("a[href]"):
        url = urls.clean(link.attributes.get("href") or "", document.base)
        if url is None or not owns(url) or url == document.url or _is_no_page(url):
            continue
        places[_place(link)].append((url, link))
    groups = []
    for listed in places.values():
        if len({url for url, _ in listed}) >= GROUP_MIN:
            groups.append(_group(listed))
    return sorted(groups, key=lambda group: group.score, reverse=True)


def selector_of(
    document: Document, group: LinkGroup, owns: Callable[[str], bool]
) -> tuple[str, str | None]:
    """CSS that matches the group's links and, where it matches others as well, what of the URL
    tells them apart."""
    wanted = set(group.urls)
    best: tuple[float, str, set[str]] | None = None
    tried: set[str] = set()
    for link in (*group.links[:2], group.links[-1]):
        for at, path in enumerate(find_paths(link)):
            if path.css in tried or ":nth-child" in path.css or " + " in path.css:
                continue
            tried.add(path.css)
            matched = _matched(path.css, document, owns)
            missed, more = len(wanted - matched), len(matched - wanted)
            if missed > len(wanted) * 0.1:
                continue
            cost = missed * 10 + more * 3 + path.rank + at / 100
            if best is None or cost < best[0]:
                best = cost, path.css, matched
    if best is None:
        best = 0.0, "a[href]", _matched("a[href]", document, owns)
    css, others = best[1], best[2] - wanted
    if not others:
        return css, None
    for pattern in (pattern_of(group.urls), _prefix_of(group.urls)):
        if pattern is not None and not any(re.search(pattern, url) for url in others):
            return css, pattern
    pattern = pattern_of(group.urls)
    if pattern is None or all(re.search(pattern, url) for url in others):
        return css, None
    return css, pattern


def _matched(css: str, document: Document, owns: Callable[[str], bool]) -> set[str]:
    """The site's own pages that the selector's links lead to."""
    listed = (
        urls.clean(element.attributes.get("href") or "", document.base)
        for element in document.dom.css(css)
    )
    return {url for url in listed if url is not None and owns(url)}


def _prefix_of(listed: Iterable[str]) -> str | None:
    """How all these URLs begin behind their host, up to the last mark."""
    parts = [urlsplit(url) for url in listed]
    written = [f"{part.path}?{part.query}" for part in parts]
    prefix = commonprefix(written)  # noqa: RUF071 - characters, not folders, are compared
    marked = re.match(r".*\W", prefix)
    return re.escape(marked[0]) if marked is not None and len(marked[0]) > 3 else None


def pattern_of(listed: Iterable[str]) -> str | None:
    """What all these URLs have in common in their path and other pages hardly have: a leading
    folder, a number at the end, an ending."""
    parts = [urlsplit(url) for url in listed]
    if not parts:
        return None
    folders = [part.path.split("/")[1:-1] for part in parts]
    shared: list[str] = []
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    numbers = (
        r"[_-]\d+/",
        r"[_-]\d+\.html?$",
        r"/\d+(?:$|[/?-])",
        r"[?&]\w*id=\d+",
        r"\d+\.html?$",
    )
    ends = [
        pattern for pattern in numbers if all(re.search(pattern, part.geturl()) for part in parts)
    ]
    if shared:
        folder = re.escape("/" + "/".join(shared) + "/")
        return folder if not ends else folder + ".*" + ends[0].removeprefix("/")
    return ends[0] if ends else None


def _group(listed: list[tuple[str, LexborNode]]) -> LinkGroup:
    of_url: dict[str, LexborNode] = {}
    for url, link in listed:
        # Of several links to one page the one with text says its title.
        if url not in of_url or not clean_text(whole_text(of_url[url])):
            of_url[url] = link
    count: Counter[int] = Counter(
        ancestor.mem_id for link in of_url.values() for ancestor in ancestors(link, 12)
    )
    cards = [_card(url, link, count) for url, link in of_url.items()]
    framed = sum(map(_is_framed, of_url.values())) * 2 > len(of_url)
    beside = _is_in(next(iter(of_url.values())), _BESIDE_WORD)
    return LinkGroup(cards, framed, beside, list(of_url.values()))


def _card(url: str, link: LexborNode, count: Counter[int]) -> Card:
    """The card is as much around the link as holds no other link of its group."""
    card = link
    for ancestor in ancestors(link, 12):
        if count[ancestor.mem_id] > 1:
            break
        card = ancestor
    image = card.css_first("img")
    source = None
    if image is not None:
        attributes = image.attributes
        source = attributes.get("data-src") or attributes.get("src")
    title = (link.attributes.get("title") or "").strip() or clean_text(whole_text(link))
    heading = card.css_first("h1, h2, h3, h4, h5, [itemprop=name]")
    if (heading is not None and len(title) > 100) or not title:
        title = clean_text(whole_text(heading)) if heading is not None else title
    if not title and image is not None:
        title = (image.attributes.get("alt") or "").strip()
    return Card(url, title, source, find_amounts(card) or amounts_of_itself(card), card, link)


def amounts_of_itself(card: LexborNode) -> list[Amount]:
    """A card may be one element with nothing but text."""
    parent = card.parent
    if parent is None:
        return []
    return [amount for amount in find_amounts(parent) if amount.element.mem_id == card.mem_id]


def _place(link: LexborNode) -> tuple[str, ...]:
    """Where a link stands: tags up to the root, and the first class of the nearest elements, but
    for classes that number or tell states."""
    names = []
    at: LexborNode | None = link
    level = 0
    while at is not None and at.tag not in (None, "-document", "html"):
        name = at.tag or ""
        if level < 4:
            name += "." + _first_class(at)
        names.append(name)
        at = at.parent
        level += 1
    return tuple(names)


_STATE = re.compile(
    r"\d|^(?:first|last|odd|even|active|sale|new|hot|featured|selected|current|instock|outofstock"
    r"|in-stock|out-of-stock|sold-?out)$",
    re.I,
)


def _first_class(element: LexborNode) -> str:
    for name in (element.attributes.get("class") or "").split():
        if not _STATE.search(name):
            return name
    return ""


def _is_framed(link: LexborNode) -> bool:
    return _is_in(link, _FRAME_WORD) or any(
        ancestor.tag in _FRAME for ancestor in ancestors(link, 8)
    )


def _is_in(link: LexborNode, word: re.Pattern[str]) -> bool:
    return any(
        word.search(ancestor.attributes.get(key) or "")
        for ancestor in ancestors(link, 8)
        for key in ("class", "id")
    )


def _is_no_page(url: str) -> bool:
    parts = urlsplit(url)
    return bool(_FILES.search(parts.path) or _ACTS.search(f"{parts.path}?{parts.query}"))
