"""What shops write into structured data besides the plain values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from scraper.extract import values
from scraper.extract.heuristics.codes import read_gtin
from scraper.extract.structured.jsonld_blocks import load_json
from tests.support.growth import assert_linear
from tests.unit.extract.extracting import product, value

FAR, PAST = "2999-12-31", "2019-06-30"


def script(data: Any) -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    return f'<script type="application/ld+json">{text}</script><h1>Vase</h1>'


def offer_price(offers: Any, fields: str = "{jsonld: offers.price, type: price}") -> Any:
    return value(fields, script({"@type": "Product", "name": "Vase", "offers": offers}))


NOW = {"price": "70.5", "priceCurrency": "EUR"}


@pytest.mark.parametrize(
    "other",
    [
        {"price": "1", "priceType": "https://schema.org/MSRP"},
        {"price": "1", "priceType": "StrikethroughPrice"},
        {"price": "1", "priceType": ["http://schema.org/MinimumAdvertisedPrice"]},
        {"price": "1", "priceType": "schema:InvoicePrice"},
        {"price": "1", "priceType": "https://schema.org/RegularPrice", "validFrom": FAR},
        {"price": "1", "priceComponentType": "https://schema.org/Installment"},
        {"@type": "DeliveryChargeSpecification", "price": "1"},
        {"price": "1", "validForMemberTier": [{"name": "silver"}]},
        {"price": "1", "eligibleCustomerType": "http://purl.org/goodrelations/v1#Reseller"},
        {"price": "1", "eligibleQuantity": {"minValue": "12"}},
        {"price": "1", "eligibleQuantity": {"value": 12}},
        {"price": "1", "validThrough": f"{PAST}T23:59:59Z"},
        {"price": "1", "priceValidUntil": PAST},
        {"price": "1", "validFrom": FAR},
        {"price": "1", "referenceQuantity": {"value": "100", "unitCode": "GRM"}},
    ],
)  # fmt: skip
def test_the_price_is_what_everyone_pays_now_for_one_piece(other: dict[str, Any]) -> None:
    spec = "priceSpecification"
    for parts in ([other, NOW], [NOW, other]):
        assert offer_price({spec: parts}) == Decimal("70.5")
        assert offer_price(parts) == Decimal("70.5")
        assert offer_price({"@type": "AggregateOffer", "offers": parts}) == Decimal("70.5")
        assert offer_price([{spec: part} for part in parts]) == Decimal("70.5")


def test_a_sale_price_is_before_a_regular_one_until_it_expires() -> None:
    regular = {"price": "9", "priceType": "RegularPrice"}
    sale = {"price": "8", "priceType": "SalePrice", "validThrough": FAR}
    assert offer_price({"priceSpecification": [regular, sale]}) == 8
    assert offer_price({"priceSpecification": [regular, sale | {"validThrough": PAST}]}) == 9
    # An old date does not hide the only price.
    assert offer_price({"priceSpecification": [sale | {"validThrough": PAST}]}) == 8


def test_the_lower_end_of_a_range_counts_in_any_place() -> None:
    assert offer_price({"priceSpecification": {"minPrice": "5.5", "maxPrice": "9"}}) == 5.5
    assert offer_price({"@type": "AggregateOffer", "minPrice": 5.5}) == 5.5


VASE = '"name":"Vase","offers":{"price":"7.50","priceCurrency":"EUR"}}'


@pytest.mark.parametrize(
    "text",
    [
        f'{{"@type":"Product",/* a\ncomment, "x": */{VASE}',
        f'// first "line"\n{{"@type":"Product", // second\n{VASE}',
        f'{{"@type":"Product","url":"https://shop.example/*",/* x */{VASE}',
        f'{{"@type":"Product", <!-- x --> {VASE}',
        f'{{"@type":"Product","description":"5&quot; &amp; more // not a comment", // x\n{VASE}',
        f'{{"@type":"Product",{VASE}'.replace('"', "&#x22;"),
        f'{{"@type":"Product",{VASE}'.replace('"', "&amp;quot;"),
        '{"@type":"WebPage","mainEntity":{"@type":"Product",' + VASE.replace('"', "&#034;") + "}",
        '{"@type":"Product",' + VASE.replace('"Vase"', "&quot;A \\&quot;B\\&quot;&quot;"),
    ],
)
def test_comments_and_escaped_quotes_do_not_hide_a_product(text: str) -> None:
    field = "{jsonld: Product.offers.price, type: price}"
    assert value(field, script(text)) == Decimal("7.50")


@pytest.mark.parametrize("part", ["/*", "&quot;", "&quot;x", "//", '"\\', "<!--", '&#34;"'])
def test_reading_broken_jsonld_is_linear(part: str) -> None:
    assert_linear(lambda size: "{" + part * size, load_json, 20_000)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Plates &amp; Bowls", "Plates & Bowls"),
        ("Plates &amp;amp; Bowls", "Plates & Bowls"),
        ("L&#x2019;Atelier", "L’Atelier"),
        ("Bjørn &#38; Søn", "Bjørn & Søn"),
        ("AT&T; no reference", "AT&T; no reference"),
        ("a&copy=b", "a&copy=b"),
    ],
)  # fmt: skip
def test_references_in_structured_data_are_read_as_people_see_them(
    written: str, meant: str
) -> None:
    page = script({"@type": "Product", "name": written, "brand": {"name": written}})
    assert value("{auto: brand}", page) == meant
    meta = f'<meta property="product:brand" content="{written.replace("&", "&amp;")}">'
    assert value("{auto: brand}", meta) == meant


@pytest.mark.parametrize(
    ("written", "digits"),
    [
        *[(text, "5901234123457") for text in (
            "5901234123457", "EAN 5901234123457", "EAN-13: 5901234123457", "gtin13:5901234123457",
            "5901234123457.0", "urn:gtin:5901234123457", "Штрихкод: 5901234123457", "'5901234123457",
            "5 901234 123457", "590-1234-12345-7", "５９０１２３４１２３４５７",
        )],
        ("https://id.gs1.org/01/05901234123457", "05901234123457"),
        ("EAN-8 73513537", "73513537"),
        *[(text, None) for text in (
            "0000000000000", "00000000", "8888888888888", "5901234123458", "5901234123457.5",
            "5.90123E+12", "SKU-73513537", "AB5901234123457", "15901234123457890", "",
        )],
    ],
)  # fmt: skip
def test_forms_of_gtins(written: str, digits: str | None) -> None:
    assert read_gtin(written) == digits
    page = script({"@type": "Product", "name": "Vase", "gtin": written})
    (row,) = product("x: {auto: gtin}, title: h1", page).products
    assert row.data.get("x") == digits


@pytest.mark.parametrize(
    "text",
    """
    Soon back in stock | Will be available shortly | Available from 3 June 2031 | Not yet available
    Available: 03/06/2031 | Notify me when available | Expected back in stock next week
    In Kürze lieferbar | in kuerze verfuegbar | Voraussichtlich ab 3. Juni lieferbar | Noch nicht lieferbar
    Prochainement disponible | N’est pas encore disponible | Disponible dès le 03/06/2031
    Disponible próximamente | Aún no está disponible | Presto disponibile | Non è ancora disponibile
    Binnenkort beschikbaar | Nog niet op voorraad | Wkrótce dostępna | Nie jest jeszcze dostępny
    Em breve em stock | Ainda não disponível | Snart åter i lager | Inte längre i lager
    Snart tilgængelig | Pian saatavilla | Již brzy skladem | Zanedlho skladom, čoskoro skladom
    Hamarosan készleten | Curând în stoc | Çok yakında stokta | Вскоре в наличии | Невдовзі в наявності
    Σύντομα διαθέσιμα | 近日在庫あり | 即将有货 | 곧 구매 가능 | Uskoro na stanju | בקרוב במלאי | قريبا متوفر
    Available in 3 weeks | Wieder verfügbar ab 12.03. | Verfügbar ab März | Lieferbar ab Mitte Juni | Disponible mi-juin
    In 3 Wochen wieder verfügbar | Disponible dans 3 semaines | Disponible dans quelques jours | Retour en stock imminent
    Disponible en 3 semanas | De vuelta pronto | Presto in stock | Torna presto | Em breve | A caminho | Slut | Loppu varastosta
    Disponível dentro de 3 semanas | De volta ao estoque em breve | Snel weer op voorraad | Leverbaar vanaf 12 maart
    Dostępny za 3 tygodnie | Już wkrótce | Skladem za 3 týdny | Brzy naskladníme | Beräknas i lager v. 23 | Snart åter
    Revine în stoc | Disponibil în 3 săptămâni | Stokta bulunmuyor | 12 Mart'ta stokta | Yakında | Hamarosan | Скоро
    Διαθέσιμο από 12 Μαρτίου | Σύντομα | Доступен через 3 недели | Товар в пути | חסר במלאי | موجود نمی باشد | Sắp ra mắt
    近日再入荷 | 準備中 | 곧 출시 | 即将补货 | ใกล้มีสินค้า | not-available | TemporarilyOutOfStock | coming_soon | sdo:SoldOut
    "OutOfStock" | https:\\/\\/schema.org\\/OutOfStock | http://data-vocabulary.org/OutOfStock | nicht_verfuegbar
    Væntanlegt | Uppselt | Ekki til á lager | Laster eskuragarri | Sen existencias | Malapit na | Hindi available
    स्टॉक में नहीं है | जल्द ही उपलब्ध | Releases on 3 June 2031 | Coming Autumn 2031 | Отсутствует | Поступит 12 марта
    out_of_stock | OUT-OF-STOCK | OutOfStock/ | schema:SoldOut | https://schema.org/Discontinued# | ItemAvailability.BackOrder
    """.replace("\n", "|").split("|"),
)
def test_a_promise_is_not_a_stock(text: str) -> None:
    if text.strip():
        assert values.to_bool(text.strip()) is False


@pytest.mark.parametrize(
    "text",
    """
    Only 2 left, back soon in other colours | In stock, ships soon | Soon sold out | Bald ausverkauft | Presque épuisé
    Plus que 2 en stock | Casi agotado | Wieder lieferbar | De nouveau disponible | Auf Lager, bald mehr
    Á lager | Eskuragarri | उपलब्ध | May stock | Few left | 재고 3개 남음 | lowstock
    in_stock | IN-STOCK | InStock/ | schema:PreOrder | http://schema.org/ItemAvailability/InStock | made_to_order
    Availability: In stock | Lieferbar in 2 Tagen | Available in 2 sizes | Lieferbar in 3-4 Wochen | In stock 24/7
    3 sets in stock | Skladem 5 balení | 5 червоних в наявності | Disponible dès maintenant | Lagernd | חזר למלאי
    "InStock" | [InStock] | sdo:InStock | https:\\/\\/schema.org\\/InStock | http://schema.org//InStock | availableForOrder
    """.replace("\n", "|").split("|"),
)
def test_a_stock_is_not_a_promise(text: str) -> None:
    if text.strip():
        assert values.to_bool(text.strip()) is True
