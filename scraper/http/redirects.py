"""Where a redirect leads, and which headers and cookies go along. Pure: no I/O, no clock.

Owns one page's redirect chain: its hops, its cookies (kept for this chain only, unless an
identity's jar is given) and which request headers may follow to another origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Protocol
from urllib.parse import quote_from_bytes

import httpx
from w3lib.html import get_meta_refresh

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http.cookies import CookieJar
from scraper.http.request import Pairs

STATUSES = frozenset({301, 302, 303, 307, 308})
# A <meta> that sends readers on comes early, and they wait for it no longer than this.
REFRESH_BYTES, REFRESH_S = 4096, 10
# Browsers also obey "0, /x", and need no "url=".
_REFRESH = re.compile(
    r"""(content\s*=\s*["']?\s*[\d.]+)\s*[;,]\s*(?:url\s*=\s*(?:&quot;)?)?""", re.I
).sub
# Another origin gets these headers, which reveal languages and formats, but no Authorization,
# Cookie, or API key.
_HARMLESS = ("accept", "user-agent", "dnt", "sec-", "upgrade-insecure-requests",
             "cache-control", "pragma", "connection", "priority", "te")  # fmt: skip
_ASCII = bytes(range(0x21, 0x7F)).decode()


class CookieTarget(Protocol):
    """The parts of a URL that decide which cookies it gets."""

    @property
    def scheme(self) -> str: ...
    @property
    def raw_host(self) -> bytes: ...
    @property
    def path(self) -> str: ...


def next_url(current: httpx.URL, location: bytes) -> httpx.URL:
    """Returns the absolute http(s) URL that a Location header names, without fragment and userinfo.

    RFC 9110 10.2.2, with what browsers accept: relative references, spaces, UTF-8 or raw bytes
    beyond ASCII. Raises FetchError(MALFORMED).
    """
    try:
        text = location.strip().decode()
    except UnicodeDecodeError:
        text = quote_from_bytes(location.strip(), safe=_ASCII)
    try:
        url = current.join(text)
        if url.scheme not in ("http", "https"):
            raise FetchError(
                Outcome.MALFORMED,
                f"redirects to a {url.scheme[:20]!r} URL, which is not http or https",
            )
        if not url.raw_host:
            raise ValueError("it names no host")
        if url.fragment or url.userinfo:
            return url.copy_with(fragment=None, username=None, password=None)
        return url
    except (httpx.InvalidURL, ValueError) as error:
        raise FetchError(
            Outcome.MALFORMED, f"redirects to {text[:120]!r}, which is not a URL: {error}"
        ) from error


def find_refresh(headers: Mapping[str, str], body: bytes, url: str) -> bytes | None:
    """Returns where a page sends its readers at once, by the header `Refresh` or a <meta>. A page
    that loads itself again leads nowhere, nor does one whose target is not a web page, and a
    challenge is a page to judge."""
    content, head = headers.get("refresh"), body[:REFRESH_BYTES]
    if content is not None:
        head = f'<meta http-equiv=refresh content="{escape(content)}">'.encode()
    if b"refresh" not in head.lower():
        return None
    text = _REFRESH(r"\1;url=", head.decode("utf-8", "replace"))
    try:
        wait_s, target = get_meta_refresh(text, url)
    except ValueError:
        return None
    if target is None or wait_s is None or wait_s > REFRESH_S or "bm-verify=" in target:
        return None
    if not target.lower().startswith(("http://", "https://")):
        return None
    return target.encode() if target.partition("#")[0] != url.partition("#")[0] else None


def host_of(url: httpx.URL) -> str:
    """Returns host[:port] in lower case, without the scheme's own port: the key of politeness."""
    return url.netloc.decode("ascii")


class Chain:
    """The hops of one page so far."""

    def __init__(
        self, first: httpx.URL, headers: Pairs, redirects_max: int, jar: CookieJar | None = None
    ) -> None:
        self._first = first
        self._headers = headers
        self._redirects_max = redirects_max
        self._jar = CookieJar() if jar is None else jar
        self._seen = {(str(first), cookie_header(self._jar, first))}
        self.redirects = 0

    def follow(
        self, current: httpx.URL, status: int, location: bytes, set_cookies: Iterable[bytes]
    ) -> httpx.URL:
        """Takes one redirect. Raises FetchError(REDIRECT_LOOP) in a circle or past the limit, and
        MALFORMED as `next_url`."""
        for line in set_cookies:
            store_cookie(self._jar, current, line)
        url = next_url(current, location)
        self.redirects += 1
        if self.redirects > self._redirects_max:
            raise FetchError(
                Outcome.REDIRECT_LOOP,
                f"more than {self._redirects_max} redirects (the limit is SCRAPER_REDIRECTS_MAX)",
                status=status,
            )
        state = (str(url), cookie_header(self._jar, url))
        if state in self._seen:
            raise FetchError(Outcome.REDIRECT_LOOP, "redirects in a circle", status=status)
        self._seen.add(state)
        return url

    def headers_for(self, url: httpx.URL) -> Pairs:
        """Returns the next request's headers: all of them for the first URL's own host (not from
        https down to http), else the harmless ones; and cookies."""
        pairs = self._headers
        if not self._has_same_owner(url):
            pairs = [(name, value) for name, value in pairs if name.lower().startswith(_HARMLESS)]
        return with_cookies(pairs, self._jar, url)

    def _has_same_owner(self, url: httpx.URL) -> bool:
        first = self._first
        upgraded = (
            first.scheme == "http"
            and url.scheme == "https"
            and first.port is None
            and url.port is None
        )
        return url.raw_host == first.raw_host and (
            upgraded or (url.scheme, url.port) == (first.scheme, first.port)
        )


def store_cookie(jar: CookieJar, url: CookieTarget, line: bytes) -> None:
    """Stores one Set-Cookie line of a response to a request for `url`."""
    jar.store_set_cookie(url.raw_host.decode("ascii"), url.path or "/", line)


def cookie_header(jar: CookieJar, url: CookieTarget) -> str:
    host = url.raw_host.decode("ascii")
    return jar.cookie_header(host, url.path or "/", secure=url.scheme == "https")


def with_cookies(pairs: Pairs, jar: CookieJar, url: CookieTarget) -> Pairs:
    """Returns the headers with the jar's cookies for `url`, after the cookies that the site's
    definition sends itself."""
    cookies = cookie_header(jar, url)
    if not cookies:
        return pairs
    own = [value for name, value in pairs if name.lower() == "cookie"]
    return [
        *(pair for pair in pairs if pair[0].lower() != "cookie"),
        ("Cookie", "; ".join([*own, cookies])),
    ]
