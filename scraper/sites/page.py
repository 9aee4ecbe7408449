"""`Page`: what a site's own Python function gets. A value: it fetches and changes nothing.

from scraper.domain import Kind, Link
from scraper.sites.page import Page

def product(page: Page):
    data = page.json()
    price = Decimal(data["price"])
    yield {"id": data["sku"], "title": data["name"], "price": price, "price_currency": "EUR"}

def listing(page: Page):
    for card in page.selector.css("article"):
        # A string is a product page's URL.
        yield page.follow(card.css("a::attr(href)").get())
    yield Link(page.follow("?page=2"), Kind.LISTING)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from parsel import Selector

from scraper.rules import urls
from scraper.rules.decoding import Decoded, decode_page, parse_html


class Page:
    """One fetched page.

    - `url`: the final URL, after redirects
    - `page_url`: the requested URL
    - `status`: the HTTP status
    - `headers`: a mapping with lower-case names
    - `body`: the unpacked bytes
    - `depth`: 0 for a start page
    """

    def __init__(
        self,
        url: str,
        body: bytes,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        page_url: str | None = None,
        depth: int = 0,
        rules: urls.UrlRules = urls.DEFAULT_RULES,
    ) -> None:
        self.url = url
        self.page_url = page_url or url
        self.status = status
        self.headers = headers or {}
        self.body = body
        self.depth = depth
        self._rules = rules

    @cached_property
    def _decoded(self) -> Decoded:
        return decode_page(self.body, self.headers.get("content-type"))

    @property
    def text(self) -> str:
        """The body as text, decoded by its character set."""
        return self._decoded.text

    @cached_property
    def selector(self) -> Selector:
        """A `parsel.Selector` over the page, created on first use."""
        return Selector(root=parse_html(self._decoded.utf8), type="html", base_url=self.url)

    def json(self) -> Any:
        """Returns the body as JSON. Raises `ValueError` if it is not JSON."""
        return json.loads(self.text)

    def follow(self, url: str | None) -> str:
        """Returns `url` as a clean, absolute URL. Raises `ValueError` unless it is a web URL."""
        absolute = urls.clean(url, self.url, self._rules) if url else None
        if absolute is None:
            raise ValueError(f"no link that can be followed: {str(url)[:200]!r}")
        return absolute
