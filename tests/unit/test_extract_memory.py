"""What extraction leaves behind: nothing. A worker reads millions of pages in one process."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from lxml import etree

from scraper.crawl_context import make_context
from scraper.domain import Kind
from scraper.settings import Settings
from scraper.sites import names, selectors
from scraper.sites.decode import parse_html
from scraper.sites.loader import load_text
from tests.unit.extracting import fetched, site

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


@pytest.mark.parametrize("xpath", ["//p", "//p[has-class('price')]", "//p[re:test(., '1')]", "set:distinct(//p)"])
def test_an_evaluation_leaves_nothing_in_the_error_log(xpath: str) -> None:
    """lxml's are never emptied, and with the prefix of EXSLT's sets there was one more entry with each evaluation."""
    compiled: Any = selectors.compile_xpath(xpath)
    root = parse_html(PAGE.encode())

    assert all(compiled(root) for _ in range(3))
    assert len(compiled.error_log) == 0


def test_crawls_by_one_definition_share_it() -> None:
    """A worker keeps 2,000 crawls' contexts, of which the definition is three quarters."""
    config = Settings()
    contexts = [make_context(crawl_id, 1, load_text(DEFINITION, "shop.yaml"), config) for crawl_id in range(2)]
    other = make_context(2, 1, load_text(f"rate: 1/s\n{DEFINITION}", "shop.yaml"), config)

    assert contexts[0].site is contexts[1].site is contexts[1].extractor.site
    assert other.site.rate_per_s == 1 != contexts[0].site.rate_per_s


def test_names_that_a_shop_makes_up_are_not_kept() -> None:
    """21 MB of pages in a process of its own, each with 2,000 attributes that no other has: 30 MB if all were kept."""
    script = """
import psutil
from scraper.sites.decode import parse_html
def size(): return psutil.Process().memory_info().rss
def page(number): return b"".join(b"<p data-%08x%04x=''>a</p>" % (number, each) for each in range(2000))
for number in range(100): parse_html(page(number))
before = size()
for number in range(100, 500): parse_html(page(number))
print((size() - before) / 1e6)
"""
    grown_mb = float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)

    assert grown_mb < 10


def test_trees_outlive_the_names_they_were_made_of() -> None:
    """And a parser that somebody keeps goes on working, in a thread that never forgets as in one that does."""
    parser = etree.HTMLParser()
    kept: list[Any] = []
    for number in range(50):
        names.forget()
        kept.append(parse_html(b"<div data-%d='a'><p>b</p></div>" % number))
        kept.append(etree.fromstring(b"<html><body><div data-%d='a'><p>b</p></div></body></html>" % number, parser))
        kept[0].append(kept[-1].find(".//p"))
    gc.collect()

    assert [list(root.find(".//div").attrib) for root in kept] == [[f"data-{n}"] for n in range(50) for _ in range(2)]
    assert len(kept[0].findall("p")) == 50
    assert b"data-0" in etree.tostring(kept[0])
