"""A request's URL and headers, and the headers of its answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import httpx

from scraper.domain import Validators
from scraper.rules import urls
from scraper.rules.revisit import ETAG_MAX

Pairs = list[tuple[str, str]]


def headers_dict(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Names in lower case, values as latin-1, repeated ones joined by ", " (RFC 9110 5.3).
    Set-Cookie stays out."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name = raw_name.decode("latin-1").lower()
        value = raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    headers.pop("set-cookie", None)
    headers.pop("set-cookie2", None)
    return headers


def merged(base: Pairs, extra: Mapping[str, str]) -> Pairs:
    """`extra` over `base`, by name in any case; ours keep their place in the order, new ones come
    last."""
    over = {name.lower(): (name, value) for name, value in extra.items()}
    pairs = [(name, over.pop(name.lower(), (name, value))[1]) for name, value in base]
    return [*pairs, *over.values()]


def request_headers(base: Sequence[tuple[str, str]], extra: Mapping[str, str] | None) -> Pairs:
    """What one page's requests send: the site's headers, the page's own over them."""
    return merged(list(base), extra) if extra else list(base)


def conditions(validators: Validators | None) -> Pairs:
    """What makes a request conditional (RFC 9110, 13.1.2 and 13.1.3)."""
    if validators is None:
        return []
    given = (("If-None-Match", validators.etag), ("If-Modified-Since", validators.last_modified))
    return [(name, value) for name, value in given if value and _sendable(value)]


def _sendable(value: str) -> bool:
    """A validator goes back as it came or not at all: it was a server's header once, and is one of
    ours now."""
    return value.isascii() and value.isprintable() and len(value) <= ETAG_MAX


def parsed(url: str) -> httpx.URL:
    """`httpx.URL(url)`, raising what it raises. A plain URL takes the parts of its origin, which
    are parsed once: parsing each page's URL costs 18 us.

    Sets what is not public in httpx; a property test compares it with `httpx.URL`.
    """
    plain = urls.split_plain_url(url)
    if plain is None:
        return httpx.URL(url)
    origin, path, query = plain
    root = _root(origin)
    fast = httpx.URL.__new__(httpx.URL)
    fast._uri_reference = root._uri_reference._replace(path=path, query=query)  # noqa: SLF001
    return fast


@lru_cache(maxsize=4096)
def _root(origin: str) -> httpx.URL:
    return httpx.URL(origin + "/")
