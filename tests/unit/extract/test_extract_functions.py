from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scraper.domain import Extracted, Kind, Link, Product
from scraper.extract import FunctionFailed, compile_site
from scraper.sites.loader import load_file
from scraper.sites.page import Page
from tests.unit.extract.extracting import START, URL, fetched, site

ROOT = Path(__file__).parents[3]
NUMBERS = itertools.count()
Run = Callable[..., Extracted]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a function as a site's own, for product pages or for listings."""
    module = types.ModuleType("shop_under_test")
    monkeypatch.setitem(sys.modules, "shop_under_test", module)

    def run(
        function: Callable[[Page], Any],
        kind: Kind = Kind.PRODUCT,
        body: str = "<h1>t</h1>",
        depth: int = 0,
    ) -> Extracted:
        # extractors are kept by content, and so are their functions
        name = f"f{next(NUMBERS)}"
        function.__module__ = "shop_under_test"
        setattr(module, name, function)
        if kind is Kind.PRODUCT:
            text = f"{START}listing: {{products: a}}\nproduct: {{function: 'shop_under_test:{name}'}}\n"
        else:
            text = f"{START}listing: {{function: 'shop_under_test:{name}'}}\nproduct: {{fields: {{a: b}}}}\n"
        return site(text).extract(kind, fetched(body), page_url=URL, depth=depth)

    return run


def test_a_product_function_yields_dicts_and_products(run: Run) -> None:
    def function(page: Page) -> Any:
        yield {
            "id": 7,
            "title": page.selector.css("h1::text").get(),
            "price": Decimal("1.50"),
            "on": date(2025, 3, 4),
            "tags": ("a", None),
        }
        yield Product("8", {"a": {"b": [1.5, True]}})
        yield Link("/other", Kind.PRODUCT)

    found = run(function)
    assert found.products == [
        Product(
            "7", {"title": "t", "price": Decimal("1.50"), "on": "2025-03-04", "tags": ["a", None]}
        ),
        Product("8", {"a": {"b": [1.5, True]}}),
    ]
    assert found.links == [Link("https://shop.example/other", Kind.PRODUCT)]


def test_a_dict_without_id_is_known_by_its_url(run: Run) -> None:
    assert run(lambda page: [{"a": 1}]).products[0].external_id == URL


def test_a_listing_function_yields_urls_and_links(run: Run) -> None:
    def function(page: Page) -> Any:
        yield "../p/1?utm_source=x"
        yield page.follow("/p/2")
        yield Link("/c/2", Kind.LISTING)
        yield "https://other.example/"
        yield "mailto:x@y.example"

    found = run(function, Kind.LISTING)
    assert found.links == [
        Link("https://shop.example/catalogue/p/1", Kind.PRODUCT),
        Link("https://shop.example/p/2", Kind.PRODUCT),
        Link("https://shop.example/c/2", Kind.LISTING),
    ]


def test_nothing_yielded_is_incomplete(run: Run) -> None:
    assert not run(lambda page: []).complete
    assert not run(lambda page: None).complete
    assert not run(lambda page: [], Kind.LISTING).complete
    assert run(lambda page: [], Kind.LISTING, depth=1).complete


def test_texts_are_made_safe(run: Run) -> None:
    found = run(
        lambda page: [
            {"id": "a\x00\ud800", "x": "b\x00\udfff", "y": "z" * 200_000, "l": list(range(5000))}
        ]
    )
    assert found.products[0].external_id == "a"
    assert found.products[0].data["x"] == "b"
    assert len(found.products[0].data["y"]) == 100_000
    assert len(found.products[0].data["l"]) == 1000


def nested() -> Any:
    value: Any = 1
    for _ in range(20):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({1, 2}, "set"),
        (object(), "object"),
        (2**70, "int"),
        (float("nan"), "float"),
        (Decimal("Infinity"), "Decimal"),
        (Decimal("1E+999999"), "Decimal"),
        (b"x", "bytes"),
        (nested(), "nested deeper"),
        ({1: 2}, "a key must be a text"),
    ],
)
def test_what_cannot_be_stored_fails_with_its_place(run: Run, value: Any, reason: str) -> None:
    with pytest.raises(FunctionFailed, match="product.x") as caught:
        run(lambda page: [{"id": 1, "x": value}])
    assert reason in str(caught.value)


def test_exceptions_become_function_failed_with_a_bounded_text(run: Run) -> None:
    def function(page: Page) -> Any:
        yield {"id": 1}
        raise KeyError("x" * 5000)

    with pytest.raises(FunctionFailed, match="KeyError") as caught:
        run(function)
    assert len(str(caught.value)) <= 500
    with pytest.raises(FunctionFailed, match="int"):
        run(lambda page: 3)
    with pytest.raises(FunctionFailed, match="yielded int"):
        run(lambda page: [3])
    with pytest.raises(FunctionFailed, match="id must have"):
        run(lambda page: [{"id": ""}])


def test_a_function_that_is_not_there_fails() -> None:
    with pytest.raises(FunctionFailed, match="cannot import 'nowhere_at_all'"):
        site(
            f"{START}listing: {{products: a}}\nproduct: {{function: 'nowhere_at_all:x'}}\n"
        ).extract(Kind.PRODUCT, fetched(""), page_url=URL, depth=0)


def test_endless_functions_are_cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scraper.extract.function_reader.LINKS_MAX", 10)

    def function(page: Page) -> Any:
        while True:
            yield "/x"

    assert "more than 10 results" in run(function, Kind.LISTING).problems[0]


def test_the_page_given_to_functions() -> None:
    page = Page(
        "https://shop.example/a/b",
        b'{"x": "\xc3\xbc"}',
        headers={"content-type": "application/json"},
    )
    assert page.json() == {"x": "ü"}
    assert page.follow("c?utm_source=x") == "https://shop.example/a/c"
    assert page.page_url == page.url
    with pytest.raises(ValueError, match="no link"):
        page.follow("javascript:void(0)")
    with pytest.raises(ValueError, match="no link"):
        page.follow(None)
    assert Page("https://shop.example/", b"").selector.css("h1::text").get() is None


def test_the_example_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    extractor = compile_site(load_file(ROOT / "sites/function-shop.yaml"), ("sites.function_shop",))
    body = '<script id="state">{"name": "Shirt", "variants": [{"sku": "S1", "size": "M", "cents": 1999}]}</script>'
    found = extractor.extract(
        Kind.PRODUCT,
        fetched(body, "https://shop.example.com/p/1"),
        page_url="https://shop.example.com/p/1",
        depth=1,
    )
    assert found.products == [
        Product(
            "S1", {"name": "Shirt", "size": "M", "price": Decimal("19.99"), "price_currency": "GBP"}
        )
    ]
