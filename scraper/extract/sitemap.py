"""Reads the links of sitemaps: XML (urlset, index), gzip, plain text, and the Sitemap: lines of a
robots.txt. Pure.

Safe for hostile files: no DTD, no entities, no network, and limits on size and count (sitemaps.org:
50 MB unpacked, 50,000 URLs). RSS and Atom, which sitemaps.org also allows, are not supported.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from html.entities import html5
from io import BytesIO
from urllib.parse import urlsplit

import regex
from lxml import etree

from scraper.domain import Extracted, Fetched, Kind, Link, SitemapUrl
from scraper.extract.listing import LinkFilter
from scraper.sites.grammar import selectors
from scraper.sites.grammar.page_specs import Sitemap

UNPACKED_MAX_BYTES = 52_428_800
URLS_MAX = 50_000
# A server's warnings before the sitemap are left out, up to this length.
ROOT_WITHIN = 65_536
_ROOT = re.compile(rb"<\?xml\s|<(?:[\w-]+:)?(?:urlset|sitemapindex)[\s>]", re.I).search
_LINE = re.compile(rb"[^\r\n]+").finditer
# CDATA and XML's own references stay as they are; HTML's references and a single `&` do not.
_REFERENCE = re.compile(
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});"
    rb"|&([A-Za-z][A-Za-z0-9]{1,30};)?",
    re.DOTALL,
).sub
_FALSE_ENCODING = re.compile(
    rb"""^(<\?xml[^>]{0,200}?)\sencoding\s*=\s*["'](?:utf-?(?:16|32)|ucs|unicode)[^"'>]*["']""",
    re.I,
).sub
_ROOTS = frozenset({"urlset", "sitemapindex"})
# Around a URL: white space, and quotation marks that should not be there.
_AROUND = " \t\r\n\"'"
_BROKEN = "the sitemap's XML is broken"
GZIP = b"\x1f\x8b"
# A URL, whether it is the URL of a sitemap, and its `lastmod` as written.
Entry = tuple[str, bool, str]
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}").match


class SitemapReader:
    def __init__(self, sitemap: Sitemap | None, link_filter: LinkFilter) -> None:
        self._link_filter = link_filter
        self._products = _compile_pattern(sitemap.products if sitemap else None)
        self._listings = _compile_pattern(sitemap.listings if sitemap else None)
        self._follow = sitemap is None or sitemap.follow

    def read(self, page: Fetched, page_url: str) -> Extracted:
        problems: list[str] = []
        # Some servers pack a packed file again.
        body = unpack(unpack(page.body, problems), problems).lstrip(b"\xef\xbb\xbf \t\r\n")
        entries = _find_entries(body, _is_robots(page.url) or _is_robots(page_url), problems)
        if entries is None:
            problems.append(
                "the sitemap is neither XML with <urlset> or <sitemapindex> nor a list of URLs"
            )
            return Extracted(problems=problems, complete=False)
        links: dict[str, Link] = {}
        named: dict[str, SitemapUrl] = {}
        counted = off_site = 0
        try:
            for text, is_sitemap, lastmod in entries:
                counted += 1
                if counted > URLS_MAX:
                    problems.append(
                        f"the sitemap has more than {URLS_MAX:,} URLs, the others are left out"
                    )
                    break
                url = self._link_filter.clean_url(text, page.url)
                if url is None or url in links or url in named:
                    continue
                kind = Kind.SITEMAP if is_sitemap else self._classify_url(url)
                if not self._link_filter.owns_url(url):
                    off_site += 1
                elif kind is not None:
                    if self._link_filter.rules_of(kind) != self._link_filter.rules:
                        url = self._link_filter.clean_url(url, kind=kind) or url
                    if kind is Kind.PRODUCT:
                        named[url] = SitemapUrl(url, parse_lastmod(lastmod))
                    if self._follow or is_sitemap:
                        links[url] = Link(url, kind)
        except TimeoutError:
            problems.append(
                f"sitemap: a regular expression took longer than {selectors.REGEX_TIMEOUT_S:g} s"
            )
        return self._make_extracted(list(links.values()), list(named.values()), problems, off_site)

    def _make_extracted(
        self, links: list[Link], named: list[SitemapUrl], problems: list[str], off_site: int
    ) -> Extracted:
        """Returns the links. A sitemap that is not followed may be broken."""
        partial = bool(problems) and self._follow
        broken = self._follow and any(problem.startswith(_BROKEN) for problem in problems)
        if off_site:
            problems.append(
                f"{off_site} URLs of the sitemap are on hosts that are not the site's (see `hosts`)"
            )
        complete = bool(links) or not broken
        return Extracted(links, [], problems, complete, partial, named=named)

    def _classify_url(self, url: str) -> Kind | None:
        if self._products is not None and selectors.matches_anywhere(self._products, url):
            return Kind.PRODUCT
        if self._listings is not None and selectors.matches_anywhere(self._listings, url):
            return Kind.LISTING
        return Kind.PRODUCT if self._products is None else None


def parse_lastmod(text: str) -> datetime | None:
    """Returns a W3C date or time, in UTC; None for anything else, and for times before 1990."""
    if not _DAY(text):
        return None
    try:
        at = datetime.fromisoformat(text)
        # PostgreSQL knows fewer offsets than Python.
        at = at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return at if at.year >= 1990 else None


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
    root = None if body.startswith(b"<?xml") else _ROOT(body[:ROOT_WITHIN])
    body = body[root.start() :] if root is not None else body
    wide = body.startswith((b"\xff\xfe", b"\xfe\xff"))
    if body.startswith(b"<") or (wide and body[2:4].strip(b"\0") == b"<"):
        return _parse_xml(_repair_xml(body), problems)
    body = body.decode("utf-16", "replace").encode() if wide else body
    first, *_ = next(_text_lines(body), ("", False, ""))
    return _text_lines(body) if first.startswith(("http://", "https://")) else None


def _repair_xml(body: bytes) -> bytes:
    """Returns XML in which each `&` begins a reference that XML knows. Ignores a declared UTF-16 if
    the declaration itself is not in UTF-16."""
    other = (
        body.startswith((b"<\x00", b"\xff\xfe", b"\xfe\xff")) or b"<!ENTITY" in body[:ROOT_WITHIN]
    )
    if not other:
        return _FALSE_ENCODING(rb"\1", _REFERENCE(_repair_reference, body), 1)
    return body


def _repair_reference(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if name is None:
        return match[0] if match[0] != b"&" else b"&amp;"
    letter = html5.get(name.decode())
    return escape(letter).encode() if letter is not None else b"&amp;" + name


def _text_lines(body: bytes) -> Iterator[Entry]:
    for match in _LINE(body):
        words = match[0].decode("utf-8", "replace").split(maxsplit=1)
        if words and not words[0].startswith("#"):
            yield words[0], False, ""


def _robots_lines(body: bytes) -> Iterator[Entry]:
    # RFC 9309, 2.5: crawlers must read at least 500 KiB.
    for line in body[:512_000].decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip().lower() == "sitemap" and value.strip():
            yield value.strip(), True, ""


def _parse_xml(body: bytes, problems: list[str]) -> Iterator[Entry] | None:
    events = etree.iterparse(
        BytesIO(body),
        events=("end",),
        recover=True,
        remove_comments=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
    )
    try:
        _, first = next(iter(events))
    except (StopIteration, etree.XMLSyntaxError):
        return None
    if _local_name(first.getroottree().getroot().tag) not in _ROOTS:
        return None
    return _read_locations(events, problems)


def _read_locations(events: etree.iterparse, problems: list[str]) -> Iterator[Entry]:
    """Yields the <loc> of each <url> and <sitemap>, not those of images and videos, which are
    nested deeper. Frees each entry after reading it."""
    try:
        for _, element in events:
            name = _local_name(element.tag)
            if name not in ("url", "sitemap"):
                continue
            texts: dict[str, str] = {}
            for child in element:
                text = "".join(child.itertext("*")) if len(child) else child.text
                if text:
                    clean = text.strip(_AROUND).replace("&amp;", "&")
                    texts.setdefault(_local_name(child.tag), clean)
            element.clear()
            parent = element.getparent()
            # An <url> that is not closed holds the next one.
            while (
                _local_name(getattr(parent, "tag", "")) in _ROOTS
                and element.getprevious() is not None
            ):
                del parent[0]
            if texts.get("loc"):
                yield texts["loc"], name == "sitemap", texts.get("lastmod", "")
    except etree.XMLSyntaxError:
        # The file is no longer XML from here on; the entries before count.
        pass
    errors = list(events.error_log)
    if errors:
        problems.append(f"{_BROKEN} in line {errors[0].line}: {str(errors[0].message)[:100]}")


@lru_cache(maxsize=64)
def _local_name(tag: object) -> str:
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _is_robots(url: str) -> bool:
    try:
        return urlsplit(url).path.endswith("/robots.txt")
    except ValueError:
        return False


def _compile_pattern(written: str | None) -> regex.Pattern[str] | None:
    return selectors.compile_regex(written) if written is not None else None
