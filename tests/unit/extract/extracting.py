"""Shorthands of the extraction tests: a definition from YAML, a page from HTML."""

from __future__ import annotations

from scraper.domain import Extracted, Fetched, Kind
from scraper.extract import Extractor, compile_site
from scraper.sites.loader import load_text

URL = "https://shop.example/catalogue/item_7/index.html"
START = "start: https://shop.example/catalogue/page-1.html\n"


def site(text: str) -> Extractor:
    return compile_site(load_text(text, "shop.yaml"), ("shop_under_test", "nowhere_at_all"))


def fetched(body: str | bytes, url: str = URL, **headers: str) -> Fetched:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fetched(url, 200, names, body.encode() if isinstance(body, str) else body)


def product(
    fields: str, body: str | bytes, url: str = URL, extra: str = "", **headers: str
) -> Extracted:
    """`fields` is the inside of a YAML flow mapping."""
    extractor = site(f"{START}listing: {{products: a}}\nproduct:\n  fields: {{{fields}}}\n{extra}")
    return extractor.extract(Kind.PRODUCT, fetched(body, url, **headers), page_url=url, depth=1)


def value(field: str, body: str | bytes, url: str = URL, **headers: str) -> object:
    """What one field, `x`, gives; None where it gives nothing."""
    (found,) = product(f"x: {field}, page: {{xpath: 'name(/*)'}}", body, url, **headers).products
    return found.data.get("x")


def listing(
    spec: str,
    body: str | bytes,
    url: str,
    depth: int = 0,
    extra: str = "",
    asked: str | None = None,
) -> Extracted:
    extractor = site(f"{START}listing: {spec}\nproduct: {{fields: {{a: b}}}}\n{extra}")
    return extractor.extract(Kind.LISTING, fetched(body, url), page_url=asked or url, depth=depth)


def urls(extracted: Extracted, kind: Kind = Kind.PRODUCT) -> list[str]:
    return [
        link.url.removeprefix("https://shop.example/")
        for link in extracted.links
        if link.kind is kind
    ]
