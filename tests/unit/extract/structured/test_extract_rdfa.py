"""`rdfa:` as a source, on what shops and content management systems write. The objects are those
that extruct 0.18 (pyRdfa3) gives of the same pages, in schema.org's words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from scraper.extract.document import Document
from tests.unit.extract.extracting import URL, fetched, product, value

LITE = """<body vocab="https://schema.org/"><div typeof="Product"><h1 property="name">Kettle</h1>
<a property="brand" typeof="Brand" href="/b"><span property="name">Ferro</span></a>
<img property="image" src="/a.jpg"><div property="offers" typeof="Offer">
<span property="price" content="1299.00">1.299,00</span><meta property="priceCurrency" content="SEK">
<link property="availability" href="https://schema.org/OutOfStock"></div></div></body>"""
DRUPAL = """<body prefix="og: http://ogp.me/ns# schema: http://schema.org/">
<article about="/kettle" typeof="schema:Product"><span property="schema:name" content="Kettle"></span>
<div rel="schema:brand"><div typeof="schema:Brand" about="/ferro"><i property="schema:name">Ferro</i></div></div>
<div rel="schema:offers"><p>From</p><div typeof="schema:Offer"><b property="schema:price">1299.00</b>
<b property="schema:priceCurrency">SEK</b><link property="schema:availability" href="http://schema.org/OutOfStock"></div></div>
<img property="schema:image" src="/a.jpg"></article>
<section typeof="schema:Product"><b property="schema:name">Another</b><b property="schema:sku">OTHER</b></section></body>"""
IRIS = """<div resource="#p" typeof="http://schema.org/Product"><b property="http://schema.org/name">Kettle</b>
<span property="http://schema.org/brand" typeof="http://schema.org/Brand"><i property="http://schema.org/name">Ferro</i></span>
<div property="http://schema.org/offers" resource="#o" typeof="http://schema.org/Offer"><i property="http://schema.org/price">1299.00</i></div>
<img property="http://schema.org/image" src="/a.jpg"></div>
<div about="#o"><i property="http://schema.org/priceCurrency" content="SEK"></i>
<link property="http://schema.org/availability" href="http://schema.org/OutOfStock"></div>"""
FIELDS = {
    "name": ("{rdfa: name}", "Kettle"),
    "brand": ("{rdfa: brand.name}", "Ferro"),
    "image": ("{rdfa: image, type: url}", "https://shop.example/a.jpg"),
    "availability": ("{rdfa: offers.availability, type: bool}", False),
}


@pytest.mark.parametrize("page", [LITE, DRUPAL, IRIS], ids=["lite", "drupal", "iris"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_the_first_product(page: str, field: str) -> None:
    definition, expected = FIELDS[field]
    assert value(definition, page) == expected


@pytest.mark.parametrize("page", [LITE, DRUPAL, IRIS], ids=["lite", "drupal", "iris"])
def test_a_price_has_the_currency_next_to_it(page: str) -> None:
    read = product("price: {rdfa: offers.price, type: price}", page)
    assert read.products[0].data == {"price": Decimal("1299.00"), "price_currency": "SEK"}


def objects(body: str) -> list[dict[str, Any]]:
    return Document(fetched(body, URL, content_type="text/html; charset=utf-8"), URL).rdfa


@pytest.mark.parametrize(
    "page",
    [
        '<div typeof="Product"><b property="name">No vocabulary</b></div>',
        '<div vocab="http://example.org/" typeof="Product"><b property="name">Another</b></div>',
        '<div prefix="schema: http://example.org/" typeof="schema:Product"></div>',
        '<meta property="og:title" content="x"><b typeof="og:Product"></b>',
        '<div typeof="unknown:Product gr:Offering"><b property="gr:name">x</b></div>',
    ],
)
def test_words_of_other_vocabularies_are_not_read(page: str) -> None:
    assert objects(page) == []


def test_a_vocabulary_ends_with_its_element() -> None:
    page = '<div vocab="http://schema.org/"></div><p typeof="Product"></p>'
    assert objects(page) == []
    page = '<div vocab="http://schema.org/"><p vocab="" typeof="Product"></p></div>'
    assert objects(page) == []


def test_a_relation_outside_any_object_is_of_none() -> None:
    page = '<div vocab="http://schema.org/" rel="offers"><div typeof="Offer"></div></div>'
    assert objects(page) == [{"@type": ["Offer"]}]


def test_a_property_that_comes_twice_is_a_list() -> None:
    (item,) = objects(
        '<div vocab="http://schema.org/" typeof="Product"><i property="sku">1</i>'
        '<i property="sku mpn">2</i></div>'
    )
    assert item == {"@type": ["Product"], "sku": ["1", "2"], "mpn": "2"}


@pytest.mark.parametrize(
    "page",
    [
        '<p vocab="http://schema.org/" typeof="Product">' * 3000,
        '<b rel="x" property="' + "schema:name " * 20_000 + '" typeof="schema:Product">',
        '<p prefix="'
        + "a: b " * 20_000
        + '" typeof="schema:Product">'
        + "<i property=name>" * 9000,
        '<p about="#a" typeof="schema:Thing" property="schema:x" resource="#a">' * 50,
    ],
)
def test_hostile_pages_are_read_to_a_bound(page: str) -> None:
    assert len(objects(page)) <= 2000
    value("{rdfa: name}", page + "<i property=schema:name>x</i>")
