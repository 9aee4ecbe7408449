"""What else a page says of a field that it is read from."""

from __future__ import annotations

from decimal import Decimal

import pytest

from scraper.domain import Fetched, Kind, Vote
from scraper.extract.extractor import compile_site
from scraper.extract.heuristics import evidence
from scraper.results import excerpts
from scraper.results.judgement.plausibility import sources_agree
from scraper.sites.definition import Site

PAGE = """<html><head><meta property="og:title" content="Oak Lamp | The Shop">
<script type="application/ld+json">{"@type": "Product", "name": "Oak Lamp", "sku": "A-1",
"offers": {"price": "12.34", "priceCurrency": "GBP"}}</script></head>
<h1>Oak  Lamp</h1><p class=price>%s</p><p class=sku>A-1</p><p class=brand>Ercol</p></html>"""
FIELDS = {
    "name": "h1",
    "price": {"css": ".price", "type": "price"},
    "sku": ".sku",
    "brand": {"any": [{"css": ".brand"}, {"jsonld": "brand.name"}]},
}


@pytest.fixture(autouse=True)
def _every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "SAMPLE", 1)


def votes(price: str, fields: object = FIELDS) -> set[Vote]:
    site = Site.model_validate(
        {
            "name": "shop",
            "start": "https://shop.example/",
            "listing": {"products": "a"},
            "product": {"fields": fields},
        }
    )
    page = Fetched("https://shop.example/p", 200, {}, (PAGE % price).encode())
    extracted = compile_site(site).extract(Kind.PRODUCT, page, page_url=page.url, depth=1)
    assert extracted.complete
    return set(extracted.votes)


def test_sources_agree() -> None:
    assert votes("£12.34") == {
        Vote("name", "jsonld", True),
        Vote("price", "jsonld", True),
        Vote("sku", "jsonld", True),
    }


@pytest.mark.parametrize("price", ["£9.99", "$12.34", "nothing"])
def test_a_selector_that_meets_something_else_is_contradicted(price: str) -> None:
    assert Vote("price", "jsonld", False) in votes(price)


def test_a_source_does_not_confirm_itself_and_no_document_is_built_for_others() -> None:
    fields = {"name": {"jsonld": "name"}, "price": {"jsonld": "offers.price", "type": "price"}}
    assert votes("£9.99", fields) == set()


def test_the_same_pages_are_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "SAMPLE", 8)
    urls = [f"https://shop.example/p/{number}" for number in range(4000)]
    chosen = [url for url in urls if evidence.is_sampled(url)]
    assert 400 < len(chosen) < 600 and chosen == [url for url in urls if evidence.is_sampled(url)]


def test_amounts_are_compared_as_amounts() -> None:
    one = {"price": Decimal("12.50"), "price_currency": None}
    assert evidence.values_agree("price", one, {"price": Decimal("12.5"), "price_currency": "EUR"})
    assert not evidence.values_agree(
        "price", {}, {"price": Decimal("12.5"), "price_currency": "EUR"}
    )


def test_a_few_votes_decide_nothing() -> None:
    assert sources_agree({"jsonld": (5, 0)}) and sources_agree({"jsonld": (60, 3), "meta": (30, 0)})
    assert (
        not sources_agree({})
        and not sources_agree({"jsonld": (4, 0)})
        and not sources_agree({"jsonld": (60, 9)})
    )


def test_a_value_is_nowhere_on_a_page_only_if_the_whole_page_was_searched() -> None:
    page = "<h1>Lamp</h1><p>Marks &amp; Sons</p><p>Er<b>col</b> 1920<br>Mül&shy;ler</p>"
    assert excerpts.is_absent(page, "Thonet", cut=False)
    for known in ("Marks & Sons", "ercol  1920", "1920 Müller", "Lamp", " "):
        assert not excerpts.is_absent(page, known, cut=False), known
    assert not excerpts.is_absent(page + " " * excerpts.EXCERPT_CHARS, "Thonet", cut=False)
    assert not excerpts.is_absent(page, "Thonet", cut=True)


@pytest.mark.parametrize(
    "page",
    [
        "<html><head><title>x</title><body><p>Thonet",
        "<html><head><title>x</title><p>Thonet",
        "<svg class=a /><p>Thonet</p>",
        "<svg><path><p>Thonet</p>",
        "<svg-icon></svg-icon><p>Thonet</p>",
    ],
)
def test_a_value_after_a_tag_that_is_not_closed_is_on_the_page(page: str) -> None:
    assert "Thonet" in excerpts.make_excerpt(page.encode())
