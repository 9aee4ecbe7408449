"""Reads a listing page's links: products, further listings, the next page and numbered pages. Pure.

Returns only links on the site's own hosts; links that no browser would open are dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from lxml import etree

from scraper.domain import Extracted, Kind, Link
from scraper.extract.document import Document
from scraper.extract.pagination import Paginator
from scraper.extract.sources import SELECTOR_ERRORS, explain_failure
from scraper.extract.structured import jsonld
from scraper.extract.text import text_nodes
from scraper.rules import urls
from scraper.sites.definition import Site
from scraper.sites.grammar import selectors
from scraper.sites.grammar.css import CssSelector, parse_css
from scraper.sites.grammar.links import LinkSource
from scraper.sites.grammar.page_specs import Listing

LINKS_MAX = 50_000
# A page with at least this many links to other pages of the site has the site's menu.
FRAME_LINKS = 3
_ANY_LINK = parse_css("a[href]")
# A page that only scripts show, and that servers never hear of.
_FRAGMENT = re.compile(r"#!?/").search
Hrefs = Callable[[Document], Iterable[str]]
_FIRST_A = etree.XPath("descendant::a[@href][1]/@href", smart_strings=False)


class LinkFilter:
    """Cleans links, and keeps those on the site's hosts. Caches the decision for each host."""

    def __init__(self, site: Site) -> None:
        self.rules, self._product_rules = site.url_rules, site.product_url_rules
        self._hosts = site.allowed_hosts
        self._known: dict[str, bool] = {}

    def clean_url(self, url: str, base: str | None = None, kind: Kind = Kind.LISTING) -> str | None:
        return urls.clean(url, base, self.rules_of(kind))

    def rules_of(self, kind: Kind) -> urls.UrlRules:
        return self._product_rules if kind is Kind.PRODUCT else self.rules

    def owns_url(self, url: str) -> bool:
        host = urls.host_of(url)
        owned = self._known.get(host)
        if owned is None:
            if len(self._known) > 10_000:
                self._known.clear()
            owned = self._known[host] = urls.belongs_to(host, self._hosts)
        return owned


class ListingReader:
    """Compiled once for each site."""

    def __init__(self, listing: Listing, link_filter: LinkFilter, listings_max: int) -> None:
        self._link_filter = link_filter
        self._groups: list[tuple[str, Kind, list[_LinkSelector]]] = [
            (
                "listing.products",
                Kind.PRODUCT,
                [_LinkSelector(source) for source in listing.products],
            ),
            (
                "listing.listings",
                Kind.LISTING,
                [_LinkSelector(source) for source in listing.listings],
            ),
            ("listing.next", Kind.LISTING, [_LinkSelector(source) for source in listing.next]),
        ]
        self._paginator = (
            Paginator(listing.pages, listings_max) if listing.pages is not None else None
        )

    def read(self, document: Document, depth: int) -> Extracted:
        links: dict[str, Link] = {}
        problems: list[str] = []
        seen: list[str] = []
        before_group = 0
        for key, kind, group in self._groups:
            before_group = len(links)
            for selector in group:
                seen.append(self._collect_links(key, kind, selector, document, links, problems))
                document.budget.check(key)
        # The last group is the next page: more than one link gives no direction.
        goes_on = len(links) - before_group == 1
        products = any(link.kind is Kind.PRODUCT for link in links.values())
        has_links = bool(links)
        if self._paginator is not None and (has_links or depth == 0):
            for url in self._paginator.find_pages(document, depth, products, problems):
                cleaned = self._link_filter.clean_url(url)
                if cleaned is not None and self._link_filter.owns_url(cleaned):
                    links.setdefault(cleaned, Link(cleaned, Kind.LISTING))
            goes_on = goes_on or self._paginator.has_next(document)
        ends = self._paginator is not None and self._paginator.ends_when_empty(document)
        if depth == 0 and not has_links and seen:
            problems += [text for text in seen if text]
            return Extracted(problems=problems, complete=False)
        return Extracted(
            links=list(links.values()),
            problems=problems,
            partial=bool(problems),
            goes_on=goes_on,
            framed=not links and (ends or self._has_frame_links(document)),
            ends=ends and not products and (has_links or self._has_frame_links(document)),
        )

    def _has_frame_links(self, document: Document) -> bool:
        """Returns whether a page without matching links has the links of a menu, which a challenge
        page does not have."""
        others = set()
        for element in document.css(_ANY_LINK):
            url = document.clean_link(element.attributes.get("href") or "", self._link_filter.rules)
            if url is not None and url != document.url and self._link_filter.owns_url(url):
                others.add(url)
        return len(others) >= FRAME_LINKS

    def _collect_links(
        self,
        key: str,
        kind: Kind,
        selector: _LinkSelector,
        document: Document,
        links: dict[str, Link],
        problems: list[str],
    ) -> str:
        """Adds the selector's links. Returns why there are none, or ""."""
        matched = kept = off_site = fragments = 0
        try:
            for href in selector.hrefs(document):
                matched += 1
                url = document.clean_link(href, self._link_filter.rules_of(kind))
                if url == document.url and _FRAGMENT(href):
                    fragments += 1
                    continue
                if url is None or (
                    selector.match is not None
                    and not selectors.matches_anywhere(selector.match, url)
                ):
                    continue
                if not self._link_filter.owns_url(url):
                    off_site += 1
                    continue
                kept += 1
                if url not in links:
                    links[url] = Link(url, kind)
                if len(links) >= LINKS_MAX:
                    problems.append(
                        f"{key}: more than {LINKS_MAX:,} links, the others are left out"
                    )
                    break
        except SELECTOR_ERRORS as error:
            problems.append(f"{key}: {explain_failure(error)}")
        return "" if kept else f"{key}: {selector.explain_no_links(matched, off_site, fragments)}"


class _LinkSelector:
    """The source of links in a definition, compiled."""

    def __init__(self, source: LinkSource) -> None:
        self.described = source.described
        self.match = selectors.compile_regex(source.match) if source.match is not None else None
        self.hrefs = _compile_hrefs(source)

    def explain_no_links(self, matched: int, off_site: int, fragments: int) -> str:
        """Returns why none of the hrefs is a link; `off_site` of them are on other hosts."""
        if not matched:
            return f"nothing matched {self.described}"
        if fragments:
            why = "only fragments of one page (#/product/5), which are one to its server"
        elif off_site:
            why = f"{off_site} on hosts that are not the site's (see `hosts`)"
        elif self.match is not None:
            why = "`match` lets none of them through"
        else:
            why = "none of them is a link that can be followed"
        return f"{self.described} matched {matched} times but gave no link: {why}"


def _compile_hrefs(source: LinkSource) -> Hrefs:
    if source.jsonld is not None:
        path = selectors.parse_jsonld(source.jsonld)
        return lambda document: jsonld.find_texts(document.jsonld, path, True)
    if source.state is not None:
        state_steps = selectors.parse_json(source.state)
        return lambda document: jsonld.find_texts_in_documents(document.state, state_steps)
    if source.response is not None:
        name, steps = source.response, selectors.parse_json(source.path or "")
        return lambda document: jsonld.find_texts_in_documents(document.captured_json(name), steps)
    if source.regex is not None:
        pattern = selectors.compile_regex(source.regex)
        return lambda document: _unescape_text(
            selectors.find_all(pattern, document.text, LINKS_MAX)
        )
    attribute = source.attr or "href"
    if source.css is not None:
        selector = parse_css(source.css)
        return lambda document: _hrefs_by_css(document, selector, attribute)
    xpath = selectors.compile_xpath(source.xpath or "")
    return lambda document: _hrefs_by_xpath(document, xpath, attribute)


def _hrefs_by_css(document: Document, selector: CssSelector, attribute: str) -> Iterable[str]:
    elements = document.css(selector)
    if selector.text:
        yield from text_nodes(elements)
        return
    name = selector.attribute or attribute
    for element in elements:
        value = element.attributes.get(name)
        if value is None and name == "href" and selector.selects_elements:
            inside = element.css_first("a[href]")
            value = inside.attributes.get(name) if inside is not None else None
        if value is not None:
            yield value


def _hrefs_by_xpath(document: Document, xpath: etree.XPath, attribute: str) -> Iterable[str]:
    matches = document.xpath(xpath)
    for item in matches if isinstance(matches, list) else [matches]:
        if isinstance(item, str):
            yield item
        elif item is not None and hasattr(item, "iterdescendants"):
            value = item.get(attribute)
            if value is not None:
                yield str(value)
            elif attribute == "href":
                inside: Any = _FIRST_A(item)
                yield from inside[:1]


def _unescape_text(texts: list[str]) -> Iterable[str]:
    r"""Removes the escapes of HTML (&amp;) and JSON (\/) from URLs in a page's source."""
    for text in texts:
        yield text.replace("&amp;", "&").replace("\\/", "/")
