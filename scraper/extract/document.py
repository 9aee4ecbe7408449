"""One fetched page, parsed on demand and at most once in each way: text, DOM (CSS), tree (XPath),
JSON-LD, base URL. Raises only `ReadElsewhere` and `TooSlow`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import chain
from operator import methodcaller
from typing import Any, TypeVar

from lxml import etree
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode, SelectolaxError

from scraper.domain import Fetched
from scraper.extract.bounds import (
    ISOLATED,
    TAGS_FEW,
    TAGS_MAX,
    CpuBudget,
    ParseCost,
    ParseElsewhere,
    ReadElsewhere,
    ReadLimits,
    TooSlow,
)
from scraper.extract.heuristics.auto import AutoReader
from scraper.extract.structured import jsonld, jsonld_blocks, metas, microdata, page_state, rdfa
from scraper.extract.text import unescape_twice, whole_text
from scraper.rules import urls
from scraper.rules.decoding import Decoded, clean_text, decode_page, parse_html
from scraper.sites.grammar.css import CssSelector, keep_outermost
from scraper.sites.grammar.css_walk import CssWalk
from scraper.sites.grammar.selectors import XPathCost, classify_xpath, split_in_two_steps

T = TypeVar("T")
# On a smaller page a walk for each CSS selector takes less time than one walk for all.
WALK_LEAST_BYTES = 50_000
_JSONLD = 'script[type*="ld+json" i]'
# A product's address may have one fragment: others name parts of a page, as related products.
_OWN_URL = re.compile(r"[^#]*(?:#product)?$", re.I).match
_BASE = re.compile(rb"<base", re.I).search
# An element is its own id, since lxml replaces objects that are no longer held by new ones.
_LXML_TREE = (lambda element: element, methodcaller("getparent"))
_KEEP_ALL = urls.UrlRules(keep=("*",))


class Document:
    """The page as selectors see it. `url` is the final URL, `page_url` the frontier's. `value`: in
    a part of a page (`extract.items`), the JSON object that paths are read from. `css_walk` finds
    elements for several selectors at once."""

    value: Any = None
    css_walk: CssWalk | None = None

    def __init__(
        self,
        page: Fetched,
        page_url: str,
        limits: ReadLimits = ISOLATED,
        parses_in_thread: bool = False,
    ) -> None:
        """`parses_in_thread`: the caller does what `ParseElsewhere` asks for."""
        self.page = page
        self.budget = CpuBudget(limits)
        self._isolated = limits.isolated
        self._parses_in_thread = parses_in_thread
        self.url = page.url
        self.page_url = page_url
        self._by_xpath: dict[etree.XPath, Any] = {}
        self._by_css: dict[CssSelector, list[LexborNode]] = {}
        self._captured: dict[str, list[Any]] = {}
        self._parsed: dict[str, Any] = {}

    def xpath(self, xpath: etree.XPath) -> Any:
        """Returns the XPath's result, computed once for all fields with the same selector."""
        result = self._by_xpath.get(xpath)
        if result is None:
            result = self._by_xpath[xpath] = self._evaluate(xpath)
        return result

    def _evaluate(self, xpath: etree.XPath) -> Any:
        cost = classify_xpath(xpath.path)
        if cost is XPathCost.LINEAR:
            return xpath(self.root)
        steps = split_in_two_steps(xpath.path)
        if steps is None:
            self.require_few_tags(0 if cost is XPathCost.UNBOUNDED else TAGS_FEW)
            return xpath(self.root)
        outer, inner = steps
        # What the second step finds is in one of these elements alone.
        elements: Any = outer(self.root)
        results: list[Any] = list(map(inner, keep_outermost(elements, *_LXML_TREE)))
        if all(isinstance(matches, list) for matches in results):
            return list(chain.from_iterable(results))
        return results[0] if len(results) == 1 else xpath(self.root)

    def css(self, selector: CssSelector) -> list[LexborNode]:
        """Returns the matching elements, computed once for all fields with the same selector."""
        elements = self._by_css.get(selector)
        if elements is None:
            self._require_time_for(selector)
            outer = self._walked.get(selector.query)
            elements = self._by_css[selector] = selector.select_all(self.dom, outer)
        return elements

    def css_first(self, selector: CssSelector) -> LexborNode | None:
        self._require_time_for(selector)
        return selector.select_first(self.dom, self._walked.get(selector.query))

    @cached_property
    def _walked(self) -> Mapping[str, list[LexborNode]]:
        if self.css_walk is None or len(self.page.body) < WALK_LEAST_BYTES:
            return {}
        return self.css_walk.find_elements(self.dom)

    def _require_time_for(self, selector: CssSelector) -> None:
        if selector.slow:
            self.require_few_tags(TAGS_FEW)
        elif selector.not_linear:
            self.require_few_tags()

    @cached_property
    def decoded(self) -> Decoded:
        return decode_page(self.page.body, self.page.headers.get("content-type"))

    @property
    def text(self) -> str:
        """The page's source, decoded."""
        return self.decoded.text

    @property
    def dom(self) -> LexborHTMLParser:
        """The document as a browser builds it from the page's HTML, for CSS selectors."""
        dom: LexborHTMLParser | None = self._parsed.get("dom")
        return dom or self._parse_source("dom", _parse_dom)

    @property
    def has_dom(self) -> bool:
        """Whether the DOM is built already."""
        return "dom" in self._parsed

    @property
    def root(self) -> etree._Element:
        """lxml's tree of the page, for XPath."""
        root: etree._Element | None = self._parsed.get("root")
        return self._parse_source("root", parse_html) if root is None else root

    def _parse_source(self, name: str, parse: Callable[[bytes], T]) -> T:
        """Parses the page's bytes, if they may be parsed here. Raises `ReadElsewhere`."""
        source = self.decoded.utf8
        if not (self._isolated or self._parse_cost.parses_quickly()):
            if self._parses_in_thread and self._parse_cost.parses_in_thread():
                raise ParseElsewhere(self, partial(self._parse_in_thread, name, parse))
            raise ReadElsewhere
        parsed = self._parsed[name] = parse(source)
        return parsed

    @cached_property
    def _parse_cost(self) -> ParseCost:
        return ParseCost(self.decoded.utf8)

    def _parse_in_thread(self, name: str, parse: Callable[[bytes], Any]) -> float:
        began = time.thread_time()
        self._parsed[name] = parse(self.decoded.utf8)
        return time.thread_time() - began

    def require_few_tags(self, most: int = TAGS_MAX) -> None:
        """Raises `ReadElsewhere` if the page has more tags, unless it is read in a subprocess."""
        if not self._isolated and (not most or self._parse_cost.tags > most):
            raise ReadElsewhere

    @cached_property
    def base(self) -> str:
        """The base of relative links: <base href>, else the final URL."""
        # A walk over the DOM takes half the time of a search in the page's bytes.
        if not self.has_dom and _BASE(self.decoded.utf8) is None:
            return self.url
        bases = self._walked.get("base")
        bases = self.dom.css("base[href]") if bases is None else bases
        element = next((base for base in bases if "href" in base.attributes), None)
        href = element.attributes.get("href") if element is not None else None
        return (href and urls.clean(href, self.url, _KEEP_ALL)) or self.url

    def clean_link(self, href: str, rules: urls.UrlRules = urls.DEFAULT_RULES) -> str | None:
        """Returns the URL of one of the page's links as a browser requests it, with its query in
        the page's encoding; None for what is not a page."""
        encoding = self.decoded.query_encoding
        encoded = href if encoding is None else urls.encode_query(href, encoding)
        return urls.clean(encoded, self.base, rules)

    @cached_property
    def jsonld(self) -> list[dict[str, Any]]:
        """Every JSON-LD object of the page, outer objects first."""
        scripts = jsonld_blocks.find_scripts(self.decoded.raw)
        if scripts is None:
            scripts = [script.text() for script in self.dom.css(_JSONLD)]
        return jsonld.put_own_first(jsonld_blocks.collect_objects(scripts), self._rank_own)

    def _rank_own(self, product: dict[str, Any]) -> float:
        """Ranks how surely a product is the page's own: by its address, by its name, by a name that
        the heading begins with."""
        offer = next(iter(jsonld.as_list(product.get("offers"))), None)
        for holder in (product, offer if isinstance(offer, dict) else {}):
            for key in ("url", "@id", "mainEntityOfPage"):
                text = holder.get(key)
                text = text.get("@id") if isinstance(text, dict) else text
                address = urls.clean(text, self.url) if isinstance(text, str) else None
                bare = _bare_address(address) if address and _OWN_URL(str(text)) else None
                if bare in self._own_addresses:
                    return 3
        name = product.get("name")
        text = clean_text(unescape_twice(name)).casefold() if isinstance(name, str) else ""
        if not text or text in self._titles:
            return 2 if text else 0
        begins = any(
            title.startswith(text) and not title[len(text)].isalnum() for title in self._titles
        )
        return min(1, len(text) / 1000) if begins else 0

    @cached_property
    def _own_addresses(self) -> frozenset[str]:
        href = metas.find_canonical(self.decoded.utf8)
        # Most are absolute, and to find the base of others takes a search of the whole page.
        canonical = href and (urls.clean(href) or urls.clean(href, self.base))
        return frozenset(_bare_address(url) for url in (self.url, self.page_url, canonical) if url)

    @cached_property
    def _titles(self) -> list[str]:
        headings = [clean_text(whole_text(heading)) for heading in self.dom.css("h1")[:3]]
        return [text.casefold() for text in headings if text]

    @cached_property
    def microdata(self) -> list[dict[str, Any]]:
        """Every microdata object of the page, outer objects first."""
        source = self.decoded.utf8.lower()
        if b"itemscope" not in source:
            return []
        # A property's text may take a walk over all tags.
        walks = min(source.count(b"itemprop") + 1, microdata.PROPERTIES_MAX)
        self.require_few_tags(TAGS_MAX * microdata.PROPERTIES_MAX // walks)
        return jsonld.put_own_first(microdata.read_objects(self.dom), self._rank_own)

    @cached_property
    def rdfa(self) -> list[dict[str, Any]]:
        """Every RDFa object of the page in schema.org's vocabulary, outer objects first."""
        if b"typeof" not in self.decoded.utf8.lower():
            return []
        self.require_few_tags()
        return jsonld.put_own_first(rdfa.read_objects(self.dom), self._rank_own)

    @cached_property
    def state(self) -> list[Any]:
        """The JSON that the page's scripts start with, found in its bytes."""
        return page_state.read_documents(self.decoded.utf8)

    @cached_property
    def metas(self) -> dict[str, list[str]]:
        """The contents of the page's <meta> tags, by name in lower case."""
        return metas.read_metas(self.dom)

    @cached_property
    def auto(self) -> AutoReader:
        """The reader of the fields that the page's sources agree on."""
        self.require_few_tags()
        return AutoReader(self)

    def captured_json(self, name: str) -> list[Any]:
        """Returns the JSON responses that a browser captured under that name, in order of
        arrival."""
        answers = self._captured.get(name)
        if answers is None:
            answers = self._captured[name] = [
                jsonld_blocks.load_json(decode_page(body, None).text)
                for body in self.page.captured.get(name, ())
            ]
        return answers


def _parse_dom(source: bytes) -> LexborHTMLParser:
    try:
        # Events cost a twelfth of the time. They only fill <selectedcontent>, which repeats a text.
        return LexborHTMLParser(source, options=LexborDocumentOptions.WO_EVENTS)
    except SelectolaxError as error:
        raise TooSlow("the page's document takes more memory than a page may") from error


def _bare_address(url: str) -> str:
    """Returns the address without its scheme and a last slash."""
    return url.partition("://")[2].rstrip("/")
