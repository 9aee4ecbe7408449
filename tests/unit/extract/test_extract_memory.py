"""What extraction leaves behind: nothing. A worker reads millions of pages in one process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from scraper.crawl.context import make_context
from scraper.domain import Kind
from scraper.rules.decoding import parse_html
from scraper.settings import Settings
from scraper.sites.grammar import selectors
from scraper.sites.loader import load_text
from tests.unit.extract.extracting import fetched, site

PAGE = "<html><body><h1>A</h1><p class='price'>1.00</p><p>B</p><p>B</p><a href='/p/1'>x</a></body></html>"
DEFINITION = """
start: https://shop.example/
listing: {products: a}
product:
  id: {css: h1}
  fields:
    a: h1
    b: {css: "h1::text"}
    c: .price
    d: {xpath: "//p[has-class('price')]"}
    e: {xpath: "//p[re:test(., '1')]"}
    f: {xpath: "set:distinct(//p)"}
    g: {css: p, regex: B}
"""
PAGES = 300


def left_behind(once: Callable[[], object]) -> float:
    """Blocks of memory a call that are still there afterwards; the first calls fill caches."""
    for _ in range(20):
        once()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(PAGES):
        once()
    gc.collect()
    return (sys.getallocatedblocks() - before) / PAGES


@pytest.mark.parametrize("kind", [Kind.PRODUCT, Kind.LISTING])
def test_a_page_leaves_nothing_behind(kind: Kind) -> None:
    extractor, page = site(DEFINITION), fetched(PAGE)

    assert extractor.extract(kind, page, page_url=page.url, depth=1).complete
    assert left_behind(lambda: extractor.extract(kind, page, page_url=page.url, depth=1)) < 0.5


@pytest.mark.parametrize(
    "xpath", ["//p", "//p[has-class('price')]", "//p[re:test(., '1')]", "set:distinct(//p)"]
)
def test_an_evaluation_leaves_nothing_in_the_error_log(xpath: str) -> None:
    """lxml's are never emptied, and with the prefix of EXSLT's sets there was one more entry with
    each evaluation."""
    compiled: Any = selectors.compile_xpath(xpath)
    root = parse_html(PAGE.encode())

    assert all(compiled(root) for _ in range(3))
    assert len(compiled.error_log) == 0


def test_crawls_by_one_definition_share_it() -> None:
    """A worker keeps 2,000 crawls' contexts, of which the definition is three quarters."""
    config = Settings()
    contexts = [
        make_context(crawl_id, 1, load_text(DEFINITION, "shop.yaml"), config)
        for crawl_id in range(2)
    ]
    other = make_context(2, 1, load_text(f"rate: 1/s\n{DEFINITION}", "shop.yaml"), config)

    assert contexts[0].site is contexts[1].site is contexts[1].extractor.site
    assert other.site.rate_per_s == 1 != contexts[0].site.rate_per_s
