"""Pages as browsers read them: character sets, products that refer to other elements, other
products on the page, thousands in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scraper.domain import Fetched
from scraper.extract.document import Document
from scraper.rules import urls
from scraper.rules.decoding import clean_text, decode_page
from tests.unit.extract.extracting import URL, product, value

RUSSIAN = "Чайник «Волга»"
LATE = b"<script>var charset = 1</script>" + b" " * 6000


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        *[(label, "cp1251", RUSSIAN) for label in ("x-cp1251", "windows-1251", "CP1251")],
        *[(label, "koi8-r", "Чайник") for label in ("koi", "koi8", "KOI8-R")],
        *[(label, "cp949", "주전자") for label in ("windows-949", "ks_c_5601-1989", "csEUCKR")],
        *[(label, "gb18030", "水壶") for label in ("x-gbk", "gb_2312", "csGB2312", "GB_2312-80")],
        *[(label, "big5", "水壺") for label in ("x-x-big5", "cn-big5")],
        *[(label, "euc_jp", "やかん") for label in ("x-euc-jp", "csEUCPkdFmtJapanese")],
        *[(label, "iso8859-8", "קומקום") for label in ("logical", "visual", "iso-8859-8-i")],
        *[(label, "cp1252", "Bücher – €") for label in ("iso88591", "x-cp1252", "iso_8859-1:1987")],
        *[(label, "utf-8", "Bücher 水") for label in ("unicode-1-1-utf-8", "unicode", "utf8")],
        ("iso88599", "cp1254", "Çaydanlık"), ("dos-874", "cp874", "กาน้ำ"), ("sun_eu_greek", "iso8859-7", "Βάζο"),
    ],
)  # fmt: skip
def test_labels_of_character_sets_mean_what_they_mean_in_browsers(
    label: str, codec: str, text: str
) -> None:
    body = text.encode(codec)
    for head in (b"", LATE):
        meta = head + f"<meta charset={label}><p>".encode() + body
        assert decode_page(meta, None).text.endswith(text)
        pragma = f'<meta http-equiv="Content-Type" content="text/html; charset={label}"><p>'
        assert decode_page(head + pragma.encode() + body, "text/html").text.endswith(text)
    if label != "unicode":
        assert decode_page(body, f"text/html; charset={label}").text == text
        assert decode_page(body, f"text/html;charset= {label} ").text == text


@pytest.mark.parametrize("codec", ["base64", "hex", "rot13", "uu", "quopri", "idna", "undefined"])
def test_codecs_of_python_alone_do_not_encode_links(codec: str) -> None:
    page = Fetched(URL, 200, {"content-type": f"text/html; charset={codec}"}, b"<p>")
    link = Document(page, URL).clean_link("/p?q=ü")
    assert link == "https://shop.example/p?q=%C3%BC"


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        ("AB\u200b-12\ufeff3", "AB-123"),
        ("1\u200d2\u200c3", "123"),
        ("\u200e 19,90\u2060 €\u200f", "19,90 €"),
        ("Schrau\u00adben\u00adzieher", "Schraubenzieher"),
        ("a \u200b b", "a b"),
        ("AB\u115f-\u28001\ufe0f2\U000e0030", "AB-12"),
        ("\ufe0f\u3164K-7\uffa0", "K-7"),
        ("5\ufe0f\u20e3 ❤\ufe0f", "5\ufe0f\u20e3 ❤\ufe0f"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d🔧 set", "👩\u200d🔧 set"),
        ("x\x00y \ud800z", "xy z"),
    ],
)
def test_characters_that_people_do_not_see_are_removed(written: str, clean: str) -> None:
    assert clean_text(written) == clean


def test_a_price_and_a_code_with_unseen_characters() -> None:
    body = "<p class=price>\u200e1\u200b.299\u2060,00\u00a0€</p><p class=sku>K\u200b-\u00ad7</p>"
    fields = "x: {css: .price, type: price}, y: .sku"
    (row,) = product(fields, body).products
    assert (row.data["x"], row.data["y"]) == (1299, "K-7")


def test_itemref_adds_the_properties_of_other_elements() -> None:
    body = (
        '<div itemscope itemtype="https://schema.org/Product" itemref="a b nowhere"><h1 itemprop=name>Jug</h1></div>'
        "<p id=a>No. <b itemprop=sku>J-1</b></p><div id=b itemprop=offers itemscope itemref=c></div><i id=c itemprop=price>7.5</i>"
    )
    fields = "x: {microdata: sku}, y: {microdata: offers.price, type: price}"
    (row,) = product(fields, body).products
    assert row.data["x"] == "J-1" and row.data["y"] == 7.5


def test_objects_may_share_what_they_refer_to() -> None:
    scope = '<div itemscope itemtype="https://schema.org/Product" itemref="maker"><b itemprop=name>'
    body = (
        f"<h1>Jug</h1><p id=maker><b itemprop=brand>Acme</b></p><p id=maker><b itemprop=brand>Other</b></p>"
        f"{scope}Vase</b></div>{scope}Jug</b></div>"
    )
    (row,) = product("x: {microdata: brand}, y: {microdata: name}", body).products
    assert row.data["x"] == "Acme" and row.data["y"] == "Jug"


def product_script(*products: dict[str, Any]) -> str:
    scripts = (json.dumps({"@type": "Product", **data}) for data in products)
    return "".join(f'<script type="application/ld+json">{text}</script>' for text in scripts)


@pytest.mark.parametrize("same", ["url", "@id", "name"])
def test_the_first_product_may_be_another_one(same: str) -> None:
    seen = {"name": "Vase", "url": "/other", "sku": "V", "offers": {"price": "3"}}
    own = {"name": "Jug &amp; Cup" if same == "name" else "", "sku": "J", "offers": {"price": "7"}}
    own |= {same: URL} if same != "name" else {}
    body = product_script(seen, own) + "<h1> Jug &amp; Cup </h1>"
    fields = (
        "x: {jsonld: sku}, y: {jsonld: offers.price, type: price}, z: {auto: price, type: price}"
    )
    (row,) = product(fields, body).products
    assert (row.data["x"], row.data["y"], row.data["z"]) == ("J", 7, 7)
    scopes = "".join(
        f'<div itemscope itemtype="https://schema.org/Product"><b itemprop=name>{name}</b><b itemprop=sku>{sku}</b></div>'
        for name, sku in (("Vase", "V"), ("Jug &amp; Cup", "J"))
    )
    assert value("{microdata: sku}", f"<h1>Jug &amp; Cup</h1>{scopes}") == "J"


@pytest.mark.parametrize(
    ("head", "own"),
    [
        ("", {"url": URL + "/"}),
        ("", {"url": URL.replace("https:", "http:")}),
        ("", {"@id": URL + "#product"}),
        ("", {"mainEntityOfPage": {"@type": "WebPage", "@id": URL}}),
        ("", {"offers": {"url": URL, "price": "7"}}),
        ("<link rel=canonical href=/jug>", {"url": "/jug"}),
        ("<h1>Jug – blue, 1 l</h1>", {"name": "Jug"}),
        ("<h1>Jug & Cup, blue</h1>", {"name": "Jug &amp; Cup"}),
    ],
)
def test_the_own_product_is_known_by(head: str, own: dict[str, Any]) -> None:
    seen = {"name": "Ju", "url": "/other", "@id": "#recent", "offers": {"price": "3"}}
    body = head + product_script(seen, {"offers": {"price": "7"}} | own)
    assert value("{jsonld: offers.price, type: price}", body) == 7


def test_a_first_product_with_the_pages_name_stays_first() -> None:
    reviewed = {"@id": URL, "aggregateRating": {"ratingValue": 5}}
    body = "<h1>Jug</h1>" + product_script({"name": "Jug", "sku": "J"}, reviewed)
    assert value("{jsonld: sku}", body) == "J"


def test_the_own_product_may_be_rdfa() -> None:
    scopes = "".join(
        f"<div vocab=https://schema.org/ typeof=Product><b property=name>{name}</b><b property=sku>{sku}</b></div>"
        for name, sku in (("Vase", "V"), ("Jug", "J"))
    )
    assert value("{rdfa: sku}", f"<h1>Jug</h1>{scopes}") == "J"


@pytest.mark.parametrize(
    ("stated", "shown", "price"),
    [
        ("1.299", "1.299 €", 1299),
        ("1.299", "€ 1 299,00", 1299),
        ("12.500", "12.500,00 kr", 12500),
        ("1.299", "1.299 € 1.499 €", 1299),
        ("1.299", "1.299 kg, 5 €", "1.299"),
        ("1.299", "", "1.299"),
        ("12.525", "KWD 12.525", "12.525"),
    ],
)
def test_thousands_in_json_are_those_that_the_page_shows(
    stated: str, shown: str, price: Any
) -> None:
    body = (
        product_script({"name": "Jug", "offers": {"price": stated}})
        + f"<h1>Jug</h1><p class=price>{shown}</p>"
    )
    assert str(value("{jsonld: offers.price, type: price}", body)) == str(price)


@pytest.mark.parametrize(
    ("stated", "code", "shown", "price"),
    [
        ("12.500", "KWD", "KWD 12.500", "12.500"),
        ("12.500", "TND", "12,500", "12.500"),
        ("1299.000", "EUR", "1.299,00 €", "1299.000"),
        ("1299.000", "VND", "1.299.000 ₫", "1299000"),
        ("1.299", "EUR", "1.299 €", "1299"),
    ],
)
def test_three_decimals_are_those_of_the_currency_next_to_the_price(
    stated: str, code: str, shown: str, price: str
) -> None:
    offers = {"price": stated, "priceCurrency": code}
    metas = {"product:price:amount": stated, "product:price:currency": code}
    body = product_script({"name": "Jug", "offers": offers}) + "".join(
        f'<meta property="{name}" content="{content}">' for name, content in metas.items()
    )
    body += f"<h1>Jug</h1><p class=price>{shown}</p>"
    fields = "j: {jsonld: offers.price, type: price}, m: {meta: 'product:price:amount', type: price"
    (found,) = product(f"{fields}, decimal: ','}}", body).products
    assert [str(found.data[key]) for key in ("j", "m")] == [price, price]
    assert found.data["m_currency"] == code


@pytest.mark.parametrize(
    ("source", "price"),
    [
        ("any: [{jsonld: offers.price}, .price]", "14.161"),
        ("any: [{jsonld: offers.lowPrice}, .price]", "14.16"),
        ("jsonld: offers.highPrice", "1299.00"),
        ("auto: price", "14.16"),
    ],
)
def test_a_decimal_comma_is_the_pages_and_not_the_datas(source: str, price: str) -> None:
    offers = {"price": "14.161", "highPrice": "1299.00"}
    body = product_script({"name": "Jug", "offers": offers}) + "<h1>Jug</h1><p class=price>14,16 €"
    assert str(value(f"{{type: price, decimal: ',', {source}}}", body)) == price


@pytest.mark.parametrize(
    ("link", "clean"),
    [
        ("/p/1;jsessionid=0A1B2C3D4E5F.node1?x=1", "/p/1?x=1"),
        ("/p/1?PHPSESSID=0a1b2c3d&x=1", "/p/1?x=1"),
        ("/p/1?x=1&osCsid=0a1b2c3d", "/p/1?x=1"),
        ("/p/1?OCSESSID=0a1b2c3d&zenid=7", "/p/1"),
        ("/(S(ht5xb3uwqjm0v2ylfakz4d1n))/p/1", "/p/1"),
        ("/p/1?sid=0a1b2c3d4e5f60718293a4b5", "/p/1"),
        ("/p/1?sid=42", "/p/1?sid=42"),
        ("/p/1?s=blue+vase", "/p/1?s=blue+vase"),
        ("/p/vase(blue)", "/p/vase(blue)"),
    ],
)
def test_links_lose_their_session(link: str, clean: str) -> None:
    assert urls.clean(link, "https://shop.example/") == f"https://shop.example{clean}"
