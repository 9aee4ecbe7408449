"""A request's URL and headers, and the headers of its response. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

import httpx

from scraper.domain import Validators
from scraper.rules import urls
from scraper.rules.revisit import ETAG_MAX

Pairs = list[tuple[str, str]]


def headers_dict(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Returns headers with names in lower case, values as latin-1, and repeated ones joined by ", "
    (RFC 9110 5.3), without Set-Cookie."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name = raw_name.decode("latin-1").lower()
        value = raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    headers.pop("set-cookie", None)
    headers.pop("set-cookie2", None)
    return headers


def merge_headers(base: Pairs, extra: Mapping[str, str]) -> Pairs:
    """Returns `base` with the values of `extra`, by name in any case. Headers of `base` keep their
    place in the order; new ones come last."""
    over = {name.lower(): (name, value) for name, value in extra.items()}
    pairs = [(name, over.pop(name.lower(), (name, value))[1]) for name, value in base]
    return [*pairs, *over.values()]


def request_headers(base: Sequence[tuple[str, str]], extra: Mapping[str, str] | None) -> Pairs:
    """Returns the site's headers with the page's own over them."""
    return merge_headers(list(base), extra) if extra else list(base)


def conditional_headers(validators: Validators | None) -> Pairs:
    """Returns the headers that make a request conditional (RFC 9110, 13.1.2 and 13.1.3)."""
    if validators is None:
        return []
    pairs = (("If-None-Match", validators.etag), ("If-Modified-Since", validators.last_modified))
    return [(name, value) for name, value in pairs if value and _is_sendable(value)]


def _is_sendable(value: str) -> bool:
    """Checks that a server's header may be sent back. A validator is sent unchanged or not
    at all."""
    return value.isascii() and value.isprintable() and len(value) <= ETAG_MAX


class RequestUrl(NamedTuple):
    """A URL in the form that a request needs.

    `origin` names the host, and `target` is the path and query, for the extension of httpx of that
    name. All pages of a host share one `origin`, since parsing each page's URL costs 22 us.
    """

    text: str
    origin: httpx.URL
    target: bytes

    @property
    def scheme(self) -> str:
        return self.origin.scheme

    @property
    def raw_host(self) -> bytes:
        """The host in ASCII. httpx's `host` decodes names such as xn--mnchen-3ya.de, and raises
        UnicodeError for names of emoji."""
        return self.origin.raw_host

    @property
    def path(self) -> str:
        return unquote(self.target.partition(b"?")[0].decode("ascii"))


def split_url(text: str) -> RequestUrl:
    """Splits a URL for a request. Raises what `httpx.URL(text)` raises."""
    parts = urls.split_plain_url(text)
    if parts is None:
        url = httpx.URL(text)
        return RequestUrl(text, url, url.raw_path)
    origin, path, query = parts
    target = path if query is None else f"{path}?{query}"
    return RequestUrl(text, _parse_origin(origin), target.encode("ascii"))


@lru_cache(maxsize=4096)
def _parse_origin(origin: str) -> httpx.URL:
    return httpx.URL(origin + "/")


def target_of(request: httpx.Request) -> bytes:
    """Returns the path and query that a request asks for."""
    target: bytes = request.extensions.get("target") or request.url.raw_path
    return target


def absolute_target_of(request: httpx.Request) -> bytes:
    """Returns the whole URL that a request asks for, without userinfo and fragment."""
    url = request.url
    return b"%b://%b%b" % (url.raw_scheme, url.netloc, target_of(request))
