"""Recognises that a product page leads elsewhere, by its redirect or its canonical link. Pure.

A shop that adds a session, a language, `https`, `www.` or a final slash leads to the same page, and
so does a login that returns to the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import UUID

from scraper.domain import Extracted, Fetched, LeasedPage
from scraper.extract.structured.metas import find_canonical
from scraper.rules.urls import canonical, clean, fingerprint
from scraper.sites.definition import Site
from scraper.sites.grammar.selectors import compile_regex, find_first

HEAD_BYTES = 200_000
SAID_CHARS = 80
_LANGUAGE = re.compile(r"/[a-z]{2}(?:[-_][a-z]{2})?(?=/|$)")


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a product page leads: by a redirect, or by its canonical link. `bare` is the address
    without its query. `alike`: a product's id can be read from the address; None if ids are
    elsewhere. `names` are the fields with the product's name there. `says`: what a page at its own
    address says, which is that it has no product; then `poor`: it shows none, and `called` names
    the fields that a product's name may be in."""

    url: str
    target: UUID
    bare: UUID
    redirected: bool
    home: bool
    alike: bool | None
    names: Mapping[str, Any]
    says: str = ""
    poor: bool = False
    called: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        if self.says:
            return f"the product is no longer on its page, which says: {self.says[:SAID_CHARS]}"
        verb = "it redirects" if self.redirected else "its canonical link leads"
        return f"the product is no longer on its page: {verb} to {self.url}"


def find_departure(
    page: LeasedPage, fetched: Fetched, extracted: Extracted | None, site: Site
) -> Departure | None:
    """Returns where a product page leads, or None if it is at its own address."""
    redirected = fetched.redirects > 0
    url = fetched.url if redirected else _find_canonical(page, fetched)
    target = None if url is None else clean(url, fetched.url, site.product_url_rules)
    if (
        target is None
        or is_same(page.url, target)
        or _names_page(target, page.url)
        or _shares_id(target, page.url, site)
    ):
        return None
    path, bare = _strip_language(urlsplit(target).path), target.partition("?")[0]
    return Departure(
        url=target,
        target=fingerprint(target),
        bare=fingerprint(bare),
        redirected=redirected,
        home=redirected and not path and bare == target,
        alike=_has_id(target, site),
        names=read_names(extracted, site),
    )


def is_same(one: str, other: str) -> bool:
    """Returns whether two URLs differ at most by scheme, `www.`, language, a final slash, or letter
    case.

    >>> is_same("http://shop.example/p/1", "https://www.shop.example/de/p/1/")
    True
    """
    return _simplify_url(one) == _simplify_url(other)


def _simplify_url(url: str) -> tuple[str, str, str]:
    parts = urlsplit(canonical(url).casefold())
    host = parts.netloc.removeprefix("www.")
    return host, _strip_language(parts.path), parts.query


def _strip_language(path: str) -> str:
    return _LANGUAGE.sub("", path.casefold().rstrip("/"), count=1)


def _names_page(target: str, url: str) -> bool:
    """Returns whether the target is the page with further parameters or below another path, or
    names the page that it is for."""
    page, parts = urlsplit(url), urlsplit(target)
    path = page.path.rstrip("/")
    if not path and not page.query:
        return True
    whole = f"{path}?{page.query}" if page.query else path
    if re.search(re.escape(unquote(whole)) + r"(?![\w-])", unquote(target), re.I):
        return True
    same_path = parts.path.rstrip("/").casefold().endswith(path.casefold())
    return same_path and {*parse_qsl(page.query)} <= {*parse_qsl(parts.query)}


def read_names(extracted: Extracted | None, site: Site) -> dict[str, Any]:
    """Returns the fields that name the product."""
    data = extracted.products[0].data if extracted is not None and extracted.products else {}
    return {name: data[name] for name in find_naming_fields(site) if name in data}


def find_naming_fields(site: Site) -> tuple[str, ...]:
    """Returns the fields that a product's name may be in."""
    return tuple(
        name
        for name, spec in site.product.all_fields.items()
        if spec.type == "text" and (spec.required or name in ("name", "title"))
    )


def _has_id(url: str, site: Site) -> bool | None:
    """Returns whether a product's id can be read from the URL; None if ids are elsewhere."""
    patterns = _find_patterns(site)
    if not patterns:
        return None
    with suppress(TimeoutError):
        return any(find_first(compile_regex(pattern), url) for pattern in patterns)
    return True


def _shares_id(target: str, url: str, site: Site) -> bool:
    """Returns whether both URLs have the same product's id: they differ in other parameters."""
    with suppress(TimeoutError):
        for pattern in map(compile_regex, _find_patterns(site)):
            own = find_first(pattern, url)
            if own and own == find_first(pattern, target):
                return True
    return False


def _find_patterns(site: Site) -> list[str]:
    """Returns the patterns that read ids from URLs."""
    spec = site.product.id
    return [] if spec is None else [source.url for source in (*spec.any, spec) if source.url]


def _find_canonical(page: LeasedPage, fetched: Fetched) -> str | None:
    """Returns the canonical link of a page that was good before."""
    head = fetched.body[:HEAD_BYTES]
    if page.last_content is None or b"canonical" not in head:
        return None
    return find_canonical(head)
