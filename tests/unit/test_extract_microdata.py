"""`microdata:` and `meta:` as sources: what shops write, nested, repeated, empty and hostile."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from scraper.errors import DefinitionError
from scraper.extract.document import Document
from tests.unit.extracting import URL, fetched, product, site, value

PAGE = """
<meta property="og:title" content="Kettle, meta"><meta name="Description" content=" It boils. ">
<meta property="product:price:amount" content="12.50"><meta property="product:price:currency" content="eur">
<meta property="og:empty" content=""><meta property="og:empty" content="second">
<div itemscope itemtype="https://schema.org/BreadcrumbList">
  <span itemprop="itemListElement" itemscope><a itemprop="item" href="/k"><b itemprop="name">Kitchen</b></a></span>
</div>
<div itemscope itemtype="http://schema.org/Product">
  <h1 itemprop="name">Kettle <small>1.7 l</small></h1>
  <img itemprop="image" src="/a.jpg"><img itemprop="image" src="/b.jpg">
  <a itemprop="brand" href="/brands/ferro">Ferro</a>
  <div itemprop="offers" itemscope itemtype="http://schema.org/Offer">
    <span itemprop="price" content="1299.00">1.299,00</span><meta itemprop="priceCurrency" content="SEK">
    <link itemprop="availability" href="https://schema.org/OutOfStock">
  </div>
  <div itemprop="isRelatedTo" itemscope itemtype="http://schema.org/Product"><i itemprop="sku">OTHER</i></div>
</div>
<div itemscope itemtype="http://schema.org/Product"><i itemprop="sku">SECOND</i></div>
"""


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{microdata: name}", "Kettle 1.7 l"),
        ("{microdata: Product.name}", "Kettle 1.7 l"),
        ("{microdata: brand.name}", "Ferro"),
        ("{microdata: offers.availability, type: bool}", False),
        ("{microdata: image, type: url}", "https://shop.example/a.jpg"),
        (
            "{microdata: image, type: url, many: true}",
            ["https://shop.example/a.jpg", "https://shop.example/b.jpg"],
        ),
        ("{microdata: 'BreadcrumbList.itemListElement[0].name'}", "Kitchen"),
        ("{meta: 'og:title'}", "Kettle, meta"),
        ("{meta: 'OG:Title'}", "Kettle, meta"),
        ("{meta: description}", "It boils."),
        ("{meta: 'og:title', regex: '(\\w+)$'}", "meta"),
        ("{meta: 'og:empty'}", "second"),
        ("{meta: 'og:nothing'}", None),
        ("{any: [{microdata: gtin}, {meta: 'og:title'}]}", "Kettle, meta"),
    ],
)
def test_what_a_page_says_for_machines(field: str, expected: object) -> None:
    assert value(field, PAGE) == expected


def test_another_product_fills_no_gap() -> None:
    assert value("{microdata: sku}", PAGE) is None


@pytest.mark.parametrize(
    ("source", "amount", "currency"),
    [
        ("microdata: offers.price", Decimal("1299.00"), "SEK"),
        ("meta: 'product:price:amount'", Decimal("12.50"), "EUR"),
    ],
)
def test_the_currency_of_a_price_stands_beside_it(
    source: str, amount: Decimal, currency: str
) -> None:
    (read,) = product(f"x: {{{source}, type: price}}", PAGE).products
    assert (read.data["x"], read.data["x_currency"]) == (amount, currency)


def test_it_may_be_an_id() -> None:
    extracted = product("t: h1", PAGE, extra="  id: {microdata: name}\n")
    assert extracted.products[0].external_id == "Kettle 1.7 l"


@pytest.mark.parametrize("source", ["{microdata: Product}", "{meta: 'a b'}", "{meta: a, css: b}"])
def test_what_is_no_path_or_name_is_refused(source: str) -> None:
    with pytest.raises(DefinitionError):
        site(f"start: {URL}\nlisting: {{products: a}}\nproduct: {{fields: {{x: {source}}}}}")


@pytest.mark.parametrize(
    "body",
    [
        "<div itemprop=a>" * 400 + "x" * 500_000,
        "<div itemscope itemprop=a>" * 20_000,
        "<div itemscope>" + "<i itemprop=a>1</i>" * 50_000,
        "<div itemscope itemprop itemtype>" + "<p itemprop='@type a b'>",
    ],
)
def test_a_hostile_page_takes_no_long_time(body: str) -> None:
    document = Document(fetched(body), URL)
    assert document.dom is not None
    began = time.process_time()
    assert isinstance(document.microdata, list)
    assert time.process_time() - began < 2
