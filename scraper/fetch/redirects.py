"""Where a redirect leads, and what may go along. Pure: no I/O, no clock.

Owns one page's redirect chain: its hops, its cookies (kept for this chain alone, sent back to the host that set them)
and which request headers may follow to another origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote_from_bytes

import httpx

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.fetch.headers import Pairs

STATUSES = frozenset({301, 302, 303, 307, 308})
COOKIES_MAX = 50
COOKIE_MAX_BYTES = 4096
# What a header may reveal to another origin: languages and formats, but no Authorization, Cookie, or API key.
_HARMLESS = ("accept", "user-agent", "dnt", "sec-", "upgrade-insecure-requests", "cache-control", "pragma", "if-")
_ASCII = bytes(range(0x21, 0x7F)).decode()


def next_url(current: httpx.URL, location: bytes) -> httpx.URL:
    """The absolute http(s) URL that a Location header names, without fragment and userinfo.

    RFC 9110 10.2.2, with what browsers bear: relative references, spaces, UTF-8 or raw bytes beyond ASCII.
    Raises FetchError(MALFORMED).
    """
    try:
        text = location.strip().decode()
    except UnicodeDecodeError:
        text = quote_from_bytes(location.strip(), safe=_ASCII)
    try:
        url = current.join(text)
        if url.scheme not in ("http", "https"):
            raise FetchError(Outcome.MALFORMED, f"redirects to a {url.scheme[:20]!r} URL, which is not http or https")
        if not url.host:
            raise ValueError("it names no host")
        return url.copy_with(fragment=None, username=None, password=None) if _adorned(url) else url
    except (httpx.InvalidURL, ValueError) as error:
        raise FetchError(Outcome.MALFORMED, f"redirects to {text[:120]!r}, which is not a URL: {error}") from error


def _adorned(url: httpx.URL) -> bool:
    return bool(url.fragment or url.userinfo)


def host_of(url: httpx.URL) -> str:
    """host[:port] in lower case, the port where it is not the scheme's own: the key of politeness."""
    return url.netloc.decode("ascii")


class Chain:
    """The hops of one page so far. `headers` is what the next request sends."""

    def __init__(self, first: httpx.URL, headers: Pairs, redirects_max: int) -> None:
        self._first = first
        self._headers = headers
        self._redirects_max = redirects_max
        self._cookies: dict[str, dict[str, tuple[str, bool]]] = {}
        self._seen = {(str(first), "")}
        self.redirects = 0

    def follow(self, current: httpx.URL, status: int, location: bytes, set_cookies: Iterable[bytes]) -> httpx.URL:
        """Takes one redirect. Raises FetchError(REDIRECT_LOOP) in a circle or past the limit, MALFORMED as `next_url`."""
        for line in set_cookies:
            self._keep(current.host, line)
        url = next_url(current, location)
        self.redirects += 1
        if self.redirects > self._redirects_max:
            raise FetchError(
                Outcome.REDIRECT_LOOP,
                f"more than {self._redirects_max} redirects (the limit is SCRAPER_REDIRECTS_MAX)",
                status=status,
            )
        state = (str(url), self._cookie_header(url))
        if state in self._seen:
            raise FetchError(Outcome.REDIRECT_LOOP, "redirects in a circle", status=status)
        self._seen.add(state)
        return url

    def headers_for(self, url: httpx.URL) -> Pairs:
        """Everything to the first URL's own host (not from https down to http), else what is harmless; and cookies."""
        pairs = self._headers
        if not self._same_owner(url):
            pairs = [(name, value) for name, value in pairs if name.lower().startswith(_HARMLESS)]
        if cookies := self._cookie_header(url):
            own = [value for name, value in pairs if name.lower() == "cookie"]
            pairs = [pair for pair in pairs if pair[0].lower() != "cookie"]
            pairs.append(("Cookie", "; ".join([*own, cookies])))
        return pairs

    def _same_owner(self, url: httpx.URL) -> bool:
        first = self._first
        upgraded = first.scheme == "http" and url.scheme == "https" and first.port is None and url.port is None
        return url.host == first.host and (upgraded or (url.scheme, url.port) == (first.scheme, first.port))

    def _keep(self, host: str, line: bytes) -> None:
        """RFC 6265 5.2, as far as one chain needs it: name, value, Secure, and Max-Age=0 to delete. Host-only."""
        pair, *attributes = line.decode("latin-1").split(";")
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name or len(pair) > COOKIE_MAX_BYTES or not (pair.isascii() and pair.isprintable()):
            return
        flags = {attribute.strip().lower().replace(" ", "") for attribute in attributes}
        jar = self._cookies.setdefault(host, {})
        if flags & {"max-age=0", "max-age=-1"}:
            jar.pop(name, None)
        elif len(jar) < COOKIES_MAX or name in jar:
            jar[name] = (value, "secure" in flags)

    def _cookie_header(self, url: httpx.URL) -> str:
        jar = self._cookies.get(url.host)
        if not jar:
            return ""
        sent = ((name, value) for name, (value, secure) in jar.items() if url.scheme == "https" or not secure)
        return "; ".join(f"{name}={value}" for name, value in sent)
