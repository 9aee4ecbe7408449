"""`auto`: what a page's sources agree on, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper.domain import Kind
from scraper.errors import DefinitionError
from scraper.extract.document import Document
from scraper.extract.heuristics.auto import READERS
from scraper.extract.heuristics.codes import find_labelled_codes
from tests.support.growth import UNHURRIED, assert_linear
from tests.support.machine import examples
from tests.unit.extract.extracting import START, URL, fetched, site

LISTING = "listing: {products: a}\n"
OFFER = '{"@type":"Product","name":"Kettle","sku":"K-1","offers":%s}'


def read(body: str, fields: str = "auto", url: str = URL) -> dict[str, Any]:
    extractor = site(f"{START}{LISTING}product: {{fields: {fields}}}\n")
    (product,) = extractor.extract(
        Kind.PRODUCT,
        fetched(body, url, content_type="text/html; charset=utf-8"),
        page_url=url,
        depth=1,
    ).products
    return dict(product.data)


def jsonld(offers: str) -> str:
    return f'<script type="application/ld+json">{OFFER % offers}</script>'


def test_sources_that_agree_are_believed() -> None:
    row = read(
        jsonld(
            '{"price":"19.90","priceCurrency":"EUR","availability":"https://schema.org/InStock"}'
        )
        + '<h1>Kettle</h1><p class="price">19,90 €</p><p>Artikel-Nr. K-1</p><button>In den Warenkorb</button>'
    )
    assert (row["title"], row["price"], row["price_currency"]) == (
        "Kettle",
        Decimal("19.90"),
        "EUR",
    )
    assert (row["availability"], row["sku"]) == (True, "K-1")
    sure = [row[f"{name}_confidence"] for name in ("title", "price", "availability", "sku")]
    assert all(confidence >= Decimal("0.9") for confidence in sure)


@pytest.mark.parametrize(
    ("body", "price"),
    [
        # The price is what the page shows, if its price for machines is crossed out.
        (jsonld('{"price":"50"}') + "<h1>K</h1><p class=price><del>50,00 €</del> <b class=now>39,00 €</b></p>", "39.00"),
        # Prices of a list are other products'.
        (
            "<h1>K</h1><div class=product-price>12,00 €</div><ul>"
            + "".join(f"<li class=card><i class=price>{n},00 €</i></li>" for n in range(3, 9))
            + "</ul>",
            "12.00",
        ),
        ("<div class=cart-price>0,50 €</div><h1>K</h1><div>7,00 €</div><p class=shipping>4,90 €</p>", "7.00"),
        ('<h1>K</h1><meta property="product:price:amount" content="1299.5">', "1299.50"),
        ("<h1>K</h1><p>30,000원</p>", "30000.00"),
        # Cents in an element of their own.
        ("<h1>K</h1><p class=price><b>129</b><sup>95</sup> €</p>", "129.95"),
        ("<h1>K</h1><p><i>$</i> <i>1,049</i> <i>99</i></p>", "1049.99"),
        ("<h1>K</h1><p class=price-box><i class=price-int>24<i>.</i></i><i class=price-frac>50</i> $</p>", "24.50"),
        ("<h1>K</h1><p class=price>Now $12<sup>99</sup> each</p>", "12.99"),
        ("<h1>K</h1><p class=price>ab 1.299<sup class=price-cents>95</sup> €</p>", "1299.95"),
        ("<h1>K</h1><p class=price>Now $12<sup>99</sup> <s>$15<sup>99</sup></s></p>", "12.99"),
        ("<h1>K</h1><p class=price>$12.50 <sup>10</sup></p>", "12.50"),
        ("<h1>K</h1><p class=price>12x de R$ 49,90</p>", None),
        ("<h1>K</h1><p class=price>CHF 1’249.–</p>", "1249.00"),
        ("<h1>K</h1><p class=price>KWD 12.525</p>", "12.525"),
        # Parts of cents.
        (jsonld('{"price":"0.125"}') + "<h1>K</h1><p class=price>$0.125</p>", "0.1250"),
        (jsonld('{"price":"0.00035"}') + "<h1>K</h1>", "0.00035"),
        # The text before the price is something else.
        ("<h1>K</h1><p class=club>Mit Kundenkarte 49,90 €</p><p class=price>59,90 €</p>", "59.90"),
        ("<h1>K</h1><p>Was $80.00</p><p>Now $60.00</p>", "60.00"),
        ("<h1>K</h1><p>Tidigare pris 129:90 kr</p><p>99:90 kr</p>", "99.90"),
        ("<h1>K</h1><p>Only $30.00 away from free delivery</p><p>$12.00</p>", "12.00"),
        ("<h1>K</h1><p>Shipping: $5.99</p><p>$19.00</p>", "19.00"),
        (jsonld('{"price":50}') + "<h1>K</h1><del>50,00 €</del> <ins>40,00 €</ins>", "40.00"),
        (jsonld("{}") + '<h1>K</h1><script id=s type="application/json">{"product":{"name":"K","price":"77.50"}}</script>', "77.50"),
        ("<h1>K</h1><p>Since 1980, 5 kg and 3 g.</p>", None),
    ],
)  # fmt: skip
def test_the_price_is_the_products(body: str, price: str | None) -> None:
    value = read(body, "{title: auto, price: auto}").get("price")
    assert value == (None if price is None else Decimal(price))


@pytest.mark.parametrize("source", ["css: .price", "xpath: //p"])
def test_cents_of_their_own_are_parted_for_selectors_too(source: str) -> None:
    page = "<h1>K</h1><p class=price>1.299<sup>95</sup> <i>€</i></p>"
    row = read(page, f"{{title: auto, price: {{{source}, type: price}}}}")
    assert row["price"] == Decimal("1299.95")


def test_a_price_that_is_only_seen_is_less_sure_than_one_that_is_said_twice() -> None:
    seen = read("<h1>K</h1><div>7,00 €</div>", "{title: auto, price: auto}")
    said = read(
        jsonld('{"price":"7"}') + "<h1>K</h1><div>7,00 €</div>", "{title: auto, price: auto}"
    )
    assert seen["price_confidence"] < Decimal("0.9") <= said["price_confidence"]


@pytest.mark.parametrize(
    ("body", "available"),
    [
        ("<button>Add to cart</button>", True),
        ("<button disabled>Add to cart</button><button>Notify me when available</button>", False),
        ("<p class=stock>Ausverkauft</p>", False),
        (jsonld('[{"availability":"OutOfStock"},{"availability":"InStock"}]').replace('"sku":"K-1",', ""), True),
        ("<p>Nothing is said</p>", None),
        ("<button disabled>In den Warenkorb</button>", False),
        ("<form><select name=size></select><button disabled>Add to cart</button></form>", None),
        ('<a class="btn disabled">Acheter</a>', False),
        ("<p>Produkt niedostępny</p>", False),
        ("<button>Powiadom o dostępności</button>", False),
        ("<button>Pre-order now</button>", True),
        # A script shows them for another variant.
        ("<p class=stock hidden>Out of stock</p><button>Add to cart</button>", True),
        ('<div style="display: none"><p class=stock>Sold out</p></div><p class=stock>In stock</p>', True),
        ("<button class=d-none>Add to cart</button><p>Sold out</p>", False),
        ("<button hidden>Notify me</button><button>Add to cart</button>", True),
        # The button is another product's.
        (
            jsonld('{"availability":"OutOfStock"}') + "<p class=stock>Out of stock</p>"
            "<ul class=related><li><a href=/p/2>L</a> <button>Add to cart</button></ul>",
            False,
        ),
    ],
)  # fmt: skip
def test_whether_it_may_be_bought(body: str, available: bool | None) -> None:
    row = read(f"<h1>K</h1>{body}", "{title: auto, availability: auto}")
    assert row.get("availability") is available


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Artikel-Nr. 2800395267", "2800395267"),
        ("Product code:\n46286401", "46286401"),
        ("Product Code - 39139301", "39139301"),
        ("Article no.:\n002.937.72", "002.937.72"),
        ("Réf : VE900", "VE900"),
        ("Код товара: 73556", "73556"),
        ("SKU ABC", None),
        ("an article 2021 about", None),
        ("barcode: 12345", None),
    ],
)
def test_a_code_follows_its_label(text: str, code: str | None) -> None:
    assert [found.text for found in find_labelled_codes(text)] == ([] if code is None else [code])


def test_the_code_that_people_see_goes_before_one_for_machines() -> None:
    assert read(jsonld("{}") + "<h1>K</h1><p>Item number: 77-310</p>")["sku"] == "77-310"


@pytest.mark.parametrize(
    ("body", "sku"),
    [
        ('<p class="product-reference">1002/710</p>', "1002/710"),
        # The page's canonical address decides which of several is meant.
        (
            '<link rel=canonical href="https://shop.example/sofa-s99277508">'
            "<p>Article no: 903.294.89</p><p>Article no: 992.775.08</p>",
            "992.775.08",
        ),
        (
            '<form><input type=hidden name=product_id value="8812"><button>Buy</button></form>',
            "8812",
        ),
        ("<input name=product_id value=8812><input name=product_id value=8813>", None),
    ],
)
def test_a_code_without_a_label(body: str, sku: str | None) -> None:
    assert read(f"<h1>K</h1>{body}", "{title: auto, sku: auto}").get("sku") == sku


def test_an_unfilled_template_gives_no_value() -> None:
    page = '<script type="application/ld+json">{"@type":"Product","name":"K","brand":"$metabrand"}</script>'
    assert "brand" not in read(f"{page}<h1>K</h1>")


def test_a_gtin_without_its_check_digit_is_none() -> None:
    row = read(
        '<script type="application/ld+json">{"@type":"Product","name":"K","gtin":"1234567890123"}</script>'
    )
    assert "gtin" not in row
    assert read("<h1>K</h1>EAN: 4006381333931")["gtin"] == "4006381333931"


def test_auto_is_tried_after_the_source_before_it() -> None:
    fields = "{title: auto, p: {type: price, any: [{css: .known}, {auto: price}]}}"
    row = read('<h1>K</h1><b class="known">3 €</b><b class=price>9 €</b>', fields)
    assert row["p"] == 3 and "p_confidence" not in row
    row = read("<h1>K</h1><b class=price>9 €</b>", fields)
    assert row["p"] == 9 and row["p_confidence"] > 0


def test_a_field_that_it_does_not_know_is_refused_with_a_fix() -> None:
    with pytest.raises(DefinitionError, match="colour is not a field that `auto` knows"):
        site(f"{START}{LISTING}product: {{fields: {{colour: auto}}}}\n")


def test_a_field_cannot_take_the_name_of_a_confidence() -> None:
    with pytest.raises(DefinitionError, match="already gives price_confidence"):
        site(f"{START}{LISTING}product: {{fields: {{price: auto, price_confidence: h1}}}}\n")


@settings(max_examples=examples(60), deadline=None)
@given(st.text(alphabet="<>/=\"' pdivah1clasremtok€$.,0123456789:\n\u0660\u00a0", max_size=300))
def test_whatever_a_page_is_it_answers(body: str) -> None:
    document = Document(fetched(f"<h1>x</h1>{body}"), URL)
    for field in READERS:
        answer = document.auto.read(field)
        assert answer is None or (answer.text and 0 < answer.confidence <= 1)


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (lambda size: "<div class=price>1 €" * size, 3000),
        (lambda size: "<p class=stock role=button>" * size, 20_000),
        (lambda size: "<b class=price>1 €</b>" * size, 20_000),
        (
            lambda size: (
                f"<div><b>1 €</b>{'<u></u>' * size * 5}</div>{'<p class=list-price>2 €</p>' * size}"
            ),
            4000,
        ),
        (lambda size: "sku " * size, 90_000),
        (lambda size: "EAN: " * size, 70_000),
        (lambda size: "brand\n" + " " * size, 300_000),
    ],
)
def test_a_hostile_page_is_read_in_linear_time(body: Callable[[int], str], size: int) -> None:
    def parsed(count: int) -> Document:
        document = Document(fetched(f"<h1>x</h1>{body(count)}"), URL, UNHURRIED)
        assert document.dom is not None
        return document

    def read_fields(document: Document) -> None:
        for field in READERS:
            document.auto.read(field)

    assert_linear(parsed, read_fields, size)
