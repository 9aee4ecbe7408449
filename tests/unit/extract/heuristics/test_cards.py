"""The values on a listing's cards."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Fetched
from scraper.extract.document import Document
from scraper.extract.heuristics.cards import CardValues, read_cards
from scraper.rules.urls import UrlRules

URL = "https://shop.example/all"


def read(html: str, *numbers: int) -> dict[str, CardValues]:
    page = Fetched(URL, 200, {"content-type": "text/html"}, html.encode())
    products = {f"https://shop.example/p/{number}" for number in numbers}
    return read_cards(Document(page, URL), products, UrlRules())


def test_a_card_has_the_price_of_its_own_product():
    html = """<div class="grid">
      <article><a href="/p/1"><img></a><h3><a href="p/1?utm_source=x">One</a></h3>
        <s>€ 20.00</s><b class="price">€ 15.00</b></article>
      <article><h3><a href="/p/2">Two</a></h3><b class="price">€ 9.50</b><i>Out of stock</i>
      </article></div><p class="price">€ 1.00</p>"""
    assert read(html, 1, 2) == {
        "https://shop.example/p/1": CardValues((Decimal("15.00"),), None),
        "https://shop.example/p/2": CardValues((Decimal("9.50"),), False),
    }


def test_links_without_a_card_say_nothing():
    assert read('<a href="/p/1">One</a><a href="/p/2">Two</a><a href="/p/9">No</a>', 1, 2) == {}


def test_a_single_product_is_a_card_too():
    cards = read('<body><div><a href="/p/1">One</a><b>$5.00</b></div></body>', 1)
    assert cards == {"https://shop.example/p/1": CardValues((Decimal("5.00"),), None)}


@given(st.lists(st.integers(1, 9999), min_size=2, max_size=12), st.integers(0, 6))
def test_prices_stay_with_their_products_however_deep_they_are(cents, depth):
    before, after = "<div>" * depth, "</div>" * depth
    html = "".join(
        f'<li>{before}<a href="/p/{n}">Thing</a>{after}'
        f"<span class=price>${value / 100:.2f}</span></li>"
        for n, value in enumerate(cents)
    )
    cards = read(f"<ul>{html}</ul>", *range(len(cents)))
    assert [cards[f"https://shop.example/p/{n}"].prices for n in range(len(cents))] == [
        (Decimal(value) / 100,) for value in cents
    ]


def test_a_card_is_known_by_the_address_that_a_crawl_requests():
    """In the page's own encoding, and without the parameters that products do not need."""
    body = """<meta charset=windows-1251><ul><li><a href="/p?q=чай&page=2">One</a><b>€ 5.00</b></li>
      <li><a href="/p?q=мёд&page=2">Two</a><b>€ 6.00</b></li></ul>""".encode("cp1251")
    products = {f"https://shop.example/p?q={word}" for word in ("%F7%E0%E9", "%EC%B8%E4")}
    document = Document(Fetched(URL, 200, {"content-type": "text/html"}, body), URL)
    cards = read_cards(document, products, UrlRules(strip=("page",)))
    assert {url: card.prices for url, card in cards.items()} == {
        "https://shop.example/p?q=%F7%E0%E9": (Decimal("5.00"),),
        "https://shop.example/p?q=%EC%B8%E4": (Decimal("6.00"),),
    }


def test_a_link_that_holds_the_link_of_another_product_has_no_card():
    outer = '<a href="/p/1"><table><tr><td><a href="/p/2">Two</a><b>€ 5.00</b></table></a>'
    assert read(outer, 1, 2) == {"https://shop.example/p/2": CardValues((Decimal("5.00"),), None)}
