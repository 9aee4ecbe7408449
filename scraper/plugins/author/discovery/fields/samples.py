"""Product pages as the search for field sources sees them, and texts made comparable. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import walk_visible
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.fields.labels import Labelled, find_labelled
from scraper.plugins.author.discovery.listings.cards import Card
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.css import parse_css

# The product comes early on its page; later elements are reviews and other products.
PAGE_ELEMENTS_MAX = 6000
_FRAME = frozenset({"nav", "footer"})
# A selector without its last step.
_ABOVE = re.compile(r"(.*[^\s>+~])\s*[\s>+~]\s*[^\s>+~]+", re.DOTALL).fullmatch


@dataclass(eq=False)
class ProductSample:
    """A product page and its card in the listing. `others`: elements of other products' cards."""

    document: Document
    card: Card | None
    others: frozenset[int] = frozenset()
    _texts: dict[int, str] = field(default_factory=dict, init=False, repr=False)
    _matched: dict[str, frozenset[int]] = field(default_factory=dict, init=False, repr=False)
    # Fields share many selectors.
    _first: dict[str, LexborNode | None] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def elements(self) -> list[LexborNode]:
        """The visible elements of this product, without the page's navigation and footer."""
        dom = self.document.dom
        # The part of a page that an item is read from is an element.
        root = dom if isinstance(dom, LexborNode) else dom.root
        listed = walk_visible(root, self.others | self._frame) if root is not None else ()
        return list(islice(listed, PAGE_ELEMENTS_MAX))

    @cached_property
    def labels(self) -> list[Labelled]:
        """The labels of this product: a footer's link "Brands" is not a label."""
        return list(find_labelled(self.document, self.others | self._frame))

    @cached_property
    def _frame(self) -> frozenset[int]:
        return frozenset(element.mem_id for tag in _FRAME for element in self.document.dom.css(tag))

    @cached_property
    def _around_others(self) -> frozenset[int]:
        """Other products' cards, and all that holds one."""
        cards = (node for node in self.document.dom.css("*") if node.mem_id in self.others)
        return _with_ancestors(cards)

    @cached_property
    def _around_heading(self) -> frozenset[int]:
        return _with_ancestors(self.document.dom.css("h1"))

    def reaches_others(self, css: str) -> bool:
        """Returns whether the selector matches in the listing's card, or would match in a card on
        the page if that had such an element: what is above its last step holds one."""
        card = self.card
        if card is not None and not card.in_state and card.element.css_first(css) is not None:
            return True
        if not self.others:
            return False
        above = _ABOVE(css)
        return above is None or self._matches_among(above[1], self._around_others)

    def is_around_heading(self, css: str) -> bool:
        """Returns whether the selector matches an element that holds the page's heading."""
        return self._matches_among(css, self._around_heading)

    def is_near_heading(self, css: str) -> bool:
        """Returns whether what is above the selector's last step holds the page's heading."""
        above = _ABOVE(css)
        return above is not None and self._matches_among(above[1], self._around_heading)

    def count_matches(self, css: str) -> int:
        """Returns how many elements of the page match."""
        return len(self._match_all(css))

    def _matches_among(self, css: str, elements: frozenset[int]) -> bool:
        return not self._match_all(css).isdisjoint(elements)

    def _match_all(self, css: str) -> frozenset[int]:
        if css not in self._matched:
            self._matched[css] = frozenset(node.mem_id for node in self.document.dom.css(css))
        return self._matched[css]

    def text(self, element: LexborNode) -> str:
        text = self._texts.get(element.mem_id)
        if text is None:
            text = self._texts[element.mem_id] = clean_text(whole_text(element))
        return text

    @property
    def heading(self) -> str:
        """The text of <title>, which usually begins or ends with the product's title."""
        element = self.document.dom.css_first("title")
        return clean_text(whole_text(element)) if element is not None else ""

    def first_match(self, css: str) -> int | None:
        """Returns the id of the first element that matches."""
        element = self.select_first(css)
        return element.mem_id if element is not None else None

    def select_first(self, css: str) -> LexborNode | None:
        """Returns the first element that matches, as a definition reads `css`."""
        if css not in self._first:
            self._first[css] = parse_css(css).select_first(self.document.dom)
        return self._first[css]

    def leads_to_others(self, css: str) -> bool:
        """Returns whether the first element that matches is in another product's card."""
        element = self.select_first(css) if self.others else None
        while element is not None and element.mem_id not in self.others:
            element = element.parent
        return element is not None


def _with_ancestors(elements: Iterable[LexborNode]) -> frozenset[int]:
    around: set[int] = set()
    for element in elements:
        up: LexborNode | None = element
        while up is not None and up.mem_id not in around:
            around.add(up.mem_id)
            up = up.parent
    return frozenset(around)


@lru_cache(maxsize=2048)
def plain_text(text: str) -> str:
    """Returns the letters and digits of a text in lower case, for comparisons. Cached, because each
    value is compared with those of all other candidates."""
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


def image_name(url: str) -> str:
    """Returns an image's file name without its size, which differs from page to page."""
    name = url.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    return re.sub(
        r"[-_]?(?:\d+x\d*|x\d+|thumb(?:nail)?|small|medium|large|zoom)?\.\w+$", "", name
    ).casefold()
