"""Reads the links of sitemaps: XML (urlset, index), gzip, plain text, and the Sitemap: lines of a
robots.txt. Pure.

Safe for hostile files: no DTD, no entities, no network, and limits on size and count (sitemaps.org:
50 MB unpacked, 50,000 URLs). RSS and Atom, which sitemaps.org also allows, are not supported.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import BytesIO
from urllib.parse import urlsplit

import regex
from lxml import etree

from scraper.domain import Extracted, Fetched, Kind, Link
from scraper.extract.listing import LinkFilter
from scraper.sites.grammar import selectors
from scraper.sites.grammar.page_specs import Sitemap

UNPACKED_MAX_BYTES = 52_428_800
URLS_MAX = 50_000
_BROKEN = "the sitemap's XML is broken"
GZIP = b"\x1f\x8b"
# A URL, and whether it is the URL of a sitemap.
Entry = tuple[str, bool]


class SitemapReader:
    def __init__(self, sitemap: Sitemap | None, link_filter: LinkFilter) -> None:
        self._link_filter = link_filter
        self._products = _compile_pattern(sitemap.products if sitemap else None)
        self._listings = _compile_pattern(sitemap.listings if sitemap else None)

    def read(self, page: Fetched, page_url: str) -> Extracted:
        problems: list[str] = []
        body = unpack(page.body, problems).lstrip(b"\xef\xbb\xbf \t\r\n")
        entries = _find_entries(body, _is_robots(page.url) or _is_robots(page_url), problems)
        if entries is None:
            problems.append(
                "the sitemap is neither XML with <urlset> or <sitemapindex> nor a list of URLs"
            )
            return Extracted(problems=problems, complete=False)
        links: dict[str, Link] = {}
        counted = off_site = 0
        try:
            for text, is_sitemap in entries:
                counted += 1
                if counted > URLS_MAX:
                    problems.append(
                        f"the sitemap has more than {URLS_MAX:,} URLs, the others are left out"
                    )
                    break
                url = self._link_filter.clean_url(text, page.url)
                if url is None or url in links:
                    continue
                kind = Kind.SITEMAP if is_sitemap else self._classify_url(url)
                if not self._link_filter.owns_url(url):
                    off_site += 1
                elif kind is not None:
                    links[url] = Link(url, kind)
        except TimeoutError:
            problems.append(
                f"sitemap: a regular expression took longer than {selectors.REGEX_TIMEOUT_S:g} s"
            )
        partial = bool(problems)
        if off_site:
            problems.append(
                f"{off_site} URLs of the sitemap are on hosts that are not the site's (see `hosts`)"
            )
        complete = bool(links) or not any(problem.startswith(_BROKEN) for problem in problems)
        return Extracted(
            links=list(links.values()), problems=problems, complete=complete, partial=partial
        )

    def _classify_url(self, url: str) -> Kind | None:
        if self._products is not None and selectors.matches_anywhere(self._products, url):
            return Kind.PRODUCT
        if self._listings is not None and selectors.matches_anywhere(self._listings, url):
            return Kind.LISTING
        return Kind.PRODUCT if self._products is None else None


def unpack(body: bytes, problems: list[str]) -> bytes:
    """Returns gzip's content, at most 50 MB, or as much as a broken file holds; returns other
    bodies unchanged."""
    if not body.startswith(GZIP):
        return body
    parts: list[bytes] = []
    room = UNPACKED_MAX_BYTES
    while body.startswith(GZIP) and room > 0:
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(body, room))
        except zlib.error:
            problems.append("the sitemap's gzip is broken")
            break
        room -= len(parts[-1])
        body = member.unused_data
        if not member.eof:
            problems.append(
                "the sitemap's gzip is larger than 50 MB or cut off, the rest is left out"
            )
            break
    return b"".join(parts)


def _find_entries(body: bytes, robots: bool, problems: list[str]) -> Iterator[Entry] | None:
    if robots:
        return _robots_lines(body)
    if body.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):
        return _parse_xml(body, problems)
    lines = (line.strip() for line in body.decode("utf-8", "replace").splitlines())
    first = next((line for line in lines if line), "")
    if not first.startswith(("http://", "https://")):
        return None
    return _text_lines(body)


def _text_lines(body: bytes) -> Iterator[Entry]:
    for line in body.decode("utf-8", "replace").splitlines():
        if line.strip():
            yield line.strip(), False


def _robots_lines(body: bytes) -> Iterator[Entry]:
    # RFC 9309, 2.5: crawlers must read at least 500 KiB.
    for line in body[:512_000].decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip().lower() == "sitemap" and value.strip():
            yield value.strip(), True


def _parse_xml(body: bytes, problems: list[str]) -> Iterator[Entry] | None:
    events = etree.iterparse(
        BytesIO(body),
        events=("start", "end"),
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
    )
    try:
        _, root = next(iter(events))
    except (StopIteration, etree.XMLSyntaxError):
        return None
    if _local_name(root) not in ("urlset", "sitemapindex"):
        return None
    return _read_locations(events, problems)


def _read_locations(events: etree.iterparse, problems: list[str]) -> Iterator[Entry]:
    """Yields the <loc> of each <url> and <sitemap>, not those of images and videos, which are
    nested deeper. Frees each entry after reading it."""
    try:
        for event, element in events:
            if event != "end" or _local_name(element) not in ("url", "sitemap"):
                continue
            location = next(
                (child for child in element if _local_name(child) == "loc" and child.text), None
            )
            is_sitemap = _local_name(element) == "sitemap"
            text = location.text if location is not None else None
            element.clear()
            parent = element.getparent()
            while parent is not None and element.getprevious() is not None:
                del parent[0]
            if text and text.strip():
                yield text.strip(), is_sitemap
    except etree.XMLSyntaxError:
        # The file is no longer XML from here on; the entries before count.
        pass
    errors = list(events.error_log)
    if errors:
        problems.append(f"{_BROKEN} in line {errors[0].line}: {str(errors[0].message)[:100]}")


def _local_name(element: etree._Element) -> str:
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _is_robots(url: str) -> bool:
    try:
        return urlsplit(url).path.endswith("/robots.txt")
    except ValueError:
        return False


def _compile_pattern(written: str | None) -> regex.Pattern[str] | None:
    return selectors.compile_regex(written) if written is not None else None
