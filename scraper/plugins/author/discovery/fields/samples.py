"""Product pages as the search for field sources sees them, and texts made comparable. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import walk_visible
from scraper.extract.heuristics.labels import Labelled, find_labelled
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.listings.cards import Card
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.css import parse_css

# The product comes early on its page; later elements are reviews and other products.
PAGE_ELEMENTS_MAX = 6000
_FRAME = frozenset({"nav", "footer"})


@dataclass(eq=False)
class ProductSample:
    """A product page and its card in the listing. `others`: elements of other products' cards."""

    document: Document
    card: Card | None
    others: frozenset[int] = frozenset()
    _texts: dict[int, str] = field(default_factory=dict, init=False, repr=False)

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
        """Returns the id of the first element that matches, as a definition reads `css`."""
        element = parse_css(css).select_first(self.document.dom)
        return element.mem_id if element is not None else None


def plain_text(text: str) -> str:
    """Returns the letters and digits of a text in lower case, for comparisons."""
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


def image_name(url: str) -> str:
    """Returns an image's file name without its size, which differs from page to page."""
    name = url.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    return re.sub(
        r"[-_]?(?:\d+x\d*|x\d+|thumb(?:nail)?|small|medium|large|zoom)?\.\w+$", "", name
    ).casefold()
