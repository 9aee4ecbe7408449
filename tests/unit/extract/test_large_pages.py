"""The benchmark's large pages: what is on them is what its truth says, however it is read."""

from __future__ import annotations

import pytest

from benchmarks.large.definition import READS, definition
from benchmarks.large.pages import fields_of, product, product_page, size_of
from scraper.domain import Fetched, Kind
from scraper.extract import compile_site
from scraper.sites.loader import load_text

SHOP = "https://127.0.0.1:4430"


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("size", [50_000, 250_000])
def test_a_large_page_says_what_its_truth_says(read: str, size: int) -> None:
    body, truth = product_page(7, size, SHOP), product(7, SHOP)
    assert abs(len(body) - size_of(7, size)) < 0.05 * size
    extractor = compile_site(load_text(definition(SHOP, 64, read), "bench.yaml"))
    page = Fetched(f"{SHOP}/p/7", 200, {"content-type": "text/html; charset=utf-8"}, body)
    extracted = extractor.extract(Kind.PRODUCT, page, page_url=page.url, depth=1)
    assert extracted.products[0].external_id == "7"
    assert dict(extracted.products[0].data) == {name: truth[name] for name in fields_of(read)}


def test_sizes_are_spread_as_those_of_shops() -> None:
    sizes = sorted(size_of(number, 600_000) for number in range(2_000))
    assert sizes[1_000] == pytest.approx(600_000, rel=0.1)
    assert 0.07 < sum(size > 1_500_000 for size in sizes) / 2_000 < 0.13
