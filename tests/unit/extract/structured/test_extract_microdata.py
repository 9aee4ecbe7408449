"""`microdata:` and `meta:` as sources: what shops write, nested, repeated, empty and hostile."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from scraper.errors import DefinitionError
from scraper.extract.bounds import ON_LOOP, TAGS_MAX, ParseElsewhere, ReadElsewhere
from scraper.extract.document import Document
from tests.support.growth import UNHURRIED, assert_linear
from tests.unit.extract.extracting import URL, fetched, product, site, value

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
def test_the_currency_of_a_price_is_next_to_it(source: str, amount: Decimal, currency: str) -> None:
    (read,) = product(f"x: {{{source}, type: price}}", PAGE).products
    assert (read.data["x"], read.data["x_currency"]) == (amount, currency)


@pytest.mark.parametrize(
    "body",
    [
        "<body itemscope itemtype=https://schema.org/Product>%s<b itemprop=name>Jug",
        "<body vocab=https://schema.org/ typeof=Product>%s<b property=name>Jug",
    ],
)
def test_an_object_may_be_far_above_its_properties(body: str) -> None:
    source = "microdata" if "itemscope" in body else "rdfa"
    assert value(f"{{{source}: name}}", body % ("<div>" * 50)) == "Jug"


def test_it_may_be_an_id() -> None:
    extracted = product("t: h1", PAGE, extra="  id: {microdata: name}\n")
    assert extracted.products[0].external_id == "Kettle 1.7 l"


@pytest.mark.parametrize("source", ["{microdata: Product}", "{meta: 'a b'}", "{meta: a, css: b}"])
def test_an_invalid_path_or_name_is_refused(source: str) -> None:
    with pytest.raises(DefinitionError):
        site(f"start: {URL}\nlisting: {{products: a}}\nproduct: {{fields: {{x: {source}}}}}")


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (lambda size: "<div itemprop=a>" * (size // 1250) + "x" * size, 500_000),
        (lambda size: "<div itemscope itemprop=a>" * size, 20_000),
        (lambda size: "<div itemscope>" + "<i itemprop=a>1</i>" * size, 50_000),
        (
            lambda size: "<div itemscope itemprop itemtype>" + "<p itemprop='@type a b'>" * size,
            20_000,
        ),
    ],
)
def test_a_hostile_page_is_read_in_linear_time(body: Callable[[int], str], size: int) -> None:
    def parsed(count: int) -> Document:
        document = Document(fetched(body(count)), URL, UNHURRIED)
        assert document.dom is not None
        return document

    def read_microdata(document: Document) -> None:
        assert isinstance(document.microdata, list)

    assert_linear(parsed, read_microdata, size)


PRODUCT = "<div itemscope><b itemprop=name>Kettle</b>"


@pytest.mark.parametrize(
    ("properties", "on_loop"),
    [pytest.param(40, True, id="few"), pytest.param(5000, False, id="many")],
)
def test_a_page_of_many_tags_with_few_properties_is_read_on_the_loop(
    properties: int, on_loop: bool
) -> None:
    body = PRODUCT + "<i itemprop=a>1</i>" * properties + "<p></p>" * 2 * TAGS_MAX
    document = Document(fetched(body), URL, ON_LOOP, parses_in_thread=True)
    if on_loop:
        with pytest.raises(ParseElsewhere) as parsing:
            assert document.microdata
        parsing.value.parse()
        assert document.microdata[0]["name"] == "Kettle"
    else:
        with pytest.raises(ReadElsewhere) as raised:
            assert document.microdata
        assert not isinstance(raised.value, ParseElsewhere)
