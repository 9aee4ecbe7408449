"""Prices among other amounts: labels for screen readers, deposits, instalments, two currencies."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from scraper.extract.heuristics.amounts import find_amounts
from scraper.extract.prices.money import to_price
from scraper.extract.values import Mistyped
from tests.unit.extract.extracting import product, value


def price_of(text: str, currency: str | None = None) -> tuple[str, str | None] | None:
    try:
        amount, code = to_price(text, currency=currency)
    except Mistyped:
        return None
    return str(amount), code


def read_both(body: str) -> tuple[Any, Any]:
    """Returns the price by a selector, and by `auto`."""
    fields = "x: {css: .price, type: price}, y: {auto: price, type: price}, title: h1"
    (row,) = product(fields, f"<h1>Jug</h1>{body}").products
    return row.data.get("x"), row.data.get("y")


LABELS = [
    ("Le prix d’origine était : ", "Le prix réduit est : "),
    ("Prezzo prima dello sconto: ", "Prezzo scontato: "),
    ("Cena przed obniżką: ", "Cena po obniżce: "),
    ("Cijena je bila: ", "Sada: "),
    ("Изначальная цена составляла ", "Текущая цена: "),
    ("以前の価格は ", "現在の価格は "),
    ("كان السعر ", "السعر الآن "),
]


@pytest.mark.parametrize(("before", "now"), LABELS)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(("31,00 €", "24,00 €"), ("$31.00", "$24.00"), ("31,00 kr.", "24,00 kr.")),
        ("31:00 kr", "24:00 kr"),
    ],
)
def test_labels_for_screen_readers_are_read_in_any_language(
    before: str, now: str, old: str, new: str
) -> None:
    for hidden in ("sr-only", "visually-hidden", "x1"):
        label = f'<span class="{hidden}">%s%s.</span>'
        body = (
            f'<p class="price"><del><b><i>{old}</i></b></del> {label % (before, old)} '
            f"<ins><b><i>{new}</i></b></ins> {label % (now, new)}</p>"
        )
        assert read_both(body) == (Decimal(24), Decimal(24))
        # Without a label for the current price, and where a style crosses out.
        styled = body.replace(label % (now, new), "").replace("del>", "span>", 2)
        styled = styled.replace("<span><b>", '<span style="text-decoration: line-through"><b>', 1)
        assert read_both(styled) == (Decimal(24), Decimal(24))


def test_a_price_that_is_only_crossed_out_is_read_and_a_pattern_sees_all_of_the_text() -> None:
    body = '<p class="price"><del>31,00 €</del> <span class="sr-only">Avant : 31,00 €</span></p>'
    assert value("{css: .price, type: price}", body) == 31
    body += '<p class="price">&nbsp;</p>'
    assert value("{css: .price, regex: 'Avant : ([0-9,]+)', type: price}", body) == 31


@pytest.mark.parametrize(
    ("text", "price"),
    [
        *[(text, "2.49") for text in (
            "2,49 € zzgl. 0,15 € Pfand", "2,49 € + 0,15 € Pfand", "2,49 € zzgl. Pfand 0,15 €", "2,49 € Pfand: 0,15 €",
            "2,49 € (inkl. 0,15 € Pfand)", "€ 2,49 excl. € 0,15 statiegeld", "2,49 € + consigne 0,15 €", "2,49 € più 0,15 € cauzione",
            "2,49 zł + kaucja 0,50 zł", "2,49 kr + pant 1,00 kr", "2,49 Kč + záloha 3,00 Kč", "2,49 лв. + депозит 0,20 лв.",
            "2,49 € Niedrigster Preis der letzten 30 Tage: 1,99 €", "2,49 zł Najniższa cena z 30 dni przed obniżką: 1,99 zł",
            "2,49 € (prix le plus bas des 30 derniers jours : 1,99 €)", "2,49 € Laagste prijs in 30 dagen € 1,99",
            "2,49 € or 3 payments of 0,83 €", "2,49 € oder 3 x 0,83 €", "2,49 € ou 3 fois 0,83 €", "R$ 2,49 em 3x de R$ 0,83",
            "2,49 € Ratenzahlung ab 0,83 €", "2,49 € o 3 plazos de 0,83 €", "2,49 zł 10 rat 0% po 0,25 zł", "2,49 € ή 3 δόσεις x 0,83 €",
            "2,49 Kč nebo 12 splátek po 0,42 Kč", "2,49 ₴ або від 0,42 ₴/міс", "2,49 лв. или 3 вноски по 0,83 лв.", "2,49 Ft havi 0,42 Ft",
            "2,49 € ou 3 prestações de 0,83 €", "2,49 円 月々0,42円", "₩2.49 월 0.42원", "¥2.49 或 12期 ¥0.21", "₪2.49 או 12 תשלומים של ₪0.21",
            "2,49 € Prezzo minimo ultimi 30 gg: 1,99 €", "2,49 zł Omnibus: 1,99 zł", "2,49 € sis. pantin 0,20 €", "2,49 € dont 0,50 € d'éco-participation",
            "2,49 € inkl. MwSt. 2,09 € exkl. MwSt.", "2,09 € exkl. MwSt. 2,49 € inkl. MwSt.", "€ 2,09 excl. BTW € 2,49 incl. BTW",
            "2,09 Kč bez DPH 2,49 Kč s DPH", "2,09 zł netto 2,49 zł brutto", "2,09 € HT 2,49 € TTC", "2.09円（税抜） 2.49円（税込）",
            "2,49 zł (15,96 zł za kg)", "2,49 ₽ 15,96 ₽/кг", "2,49 € (15,96 €/κιλό)", "2.49円 (100gあたり 1.60円)", "2,49 kr. Kg-pris 15,96 kr.",
            "2,49 € mit Gutschein 1,99 €", "2,49 € 1,99 € mit Code SOMMER", "2,49 zł z kodem LATO: 1,99 zł", "£2.49 £1.99 with coupon",
            "2,49 € Du sparst 0,50 €", "2,49 kr Spar kr 5", "2,49 ₽ Экономия 5 ₽", "2,49 TL Kazancınız 5,00 TL", "2,49 € Κερδίζετε 0,50 €",
            "2,49–3,99 €", "ab 2,49 bis 3,99 €", "van € 2,49 tot € 3,99", "desde 2,49 € hasta 3,99 €", "2.49円～3.99円", "249 p",
            "2,49 € oder 0,25 €/Monat", "2,49 zł lub 3 raty po 0,83 zł", "2,49 € zzgl. Versand 4,90 €",
        )],
        ("0,15 € zzgl. 0,25 € Pfand", "0.15"),
        *[(text, None) for text in ("2,49 € 1,99 €", "2,49 € Gold 1,99 €")],
    ],
)  # fmt: skip
def test_the_price_is_not_the_amount_for_something_else(text: str, price: str | None) -> None:
    read = price_of(text)
    assert (read and read[0]) == price


@pytest.mark.parametrize(
    ("text", "hint", "price"),
    [
        ("12,40 € / 24,25 лв.", None, ("12.40", "EUR")),
        ("24,25 лв. (12,40 €)", None, ("24.25", "BGN")),
        ("24,25 лв. (12,40 €)", "EUR", ("12.40", "EUR")),
        ("$12.40 (≈ 11,50 €)", None, ("12.40", "USD")),
        ("$12.40 (≈ 11,50 €)", "EUR", ("11.50", "EUR")),
        ("$12.40 (≈ 11,50 €)", "CAD", ("12.40", "CAD")),
        ("CHF 12.40 | EUR 13.00", "EUR", ("13.00", "EUR")),
        ("12.40 CHF / 13.00 EUR", None, ("12.40", "CHF")),
        ("124 kr (11 €)", "NOK", ("124", "NOK")),
        ("12 USD 11 EUR 10 GBP", "GBP", ("10", "GBP")),
        ("12 USD 11 EUR", None, None),
        ("12 € 11", "EUR", None),
    ],
)
def test_one_price_in_two_currencies(text: str, hint: str | None, price: Any) -> None:
    assert price_of(text, hint) == price


def test_a_lowest_price_and_a_deposit_in_elements_of_their_own() -> None:
    body = (
        '<div class="price"><span>8,00 €</span></div><div class="info"><p class="price-info">Lowest price '
        'in the last 30 days: <b>6,50 €</b></p><p class="price-info">+ Pfand <b>0,75 €</b></p></div>'
    )
    assert value("{auto: price, type: price}", f"<h1>Jug</h1>{body}") == 8


@pytest.mark.parametrize(
    ("body", "price"),
    [
        ("<p class=price>2,49 € <small>oder 12 x 0,21 € mit Klarna</small></p>", "2.49"),
        ("<p class=price>2,49 € <small>Clubprijs € 1,99</small></p>", "2.49"),
        ("<p class=price>2,49 € <span class=price-old>3,49 €</span></p>", "2.49"),
        ("<p class=price>24 Kč <small>Nejnižší cena za posledních 30 dní: 19 Kč</small></p>", "24"),
        ("<p class=price>UVP 3,99 € <b>2,49 €</b></p>", "2.49"),
        ("<p class=price>Versand 4,90 € <b>2,49 €</b></p>", "2.49"),
        ("<p class=price><b class=price-int>2</b>,<b class=price-dec>49</b> €</p>", "2.49"),
        ("<p class=price>from <b>£2.49</b> to <b>£3.99</b></p>", "2.49"),
        ("<p>10,00 € exkl. MwSt.</p><p>11,90 € inkl. MwSt.</p>", "11.90"),
        ("<p>nur 10,00 € netto</p>", "10"),
        ("<p>lub 10 rat x 4,90 zł</p><p>24,00 zł</p>", "24"),
        ("<p>ab 10 Stück: 20,00 €</p><p>24,00 €</p>", "24"),
        ("<p>1 kg = 15,96 €</p><p>24,00 €</p>", "24"),
        ("<p>Medlemspris 19 kr</p><p>24 kr</p>", "24"),
        ("<p>送料 500円</p><p>2,400円</p>", "2400"),
    ],
)
def test_the_price_next_to_another_amount(body: str, price: str) -> None:
    assert value("{auto: price, type: price}", f"<h1>Jug</h1>{body}") == Decimal(price)


PAIR = (
    '<div class="price-box"><p class="{0}"><b>$67.07</b></p> <p class="{1}"><b>$52.07</b></p></div>'
)


@pytest.mark.parametrize(
    ("usual", "reduced"),
    [
        ("normalprice", "productSpecialPrice"),
        ("regular-price", "sale-price"),
        ("price--standard", "price--reduced"),
        ("base-price", "now"),
        ("normalpreis", "aktionspreis"),
        ("regular", "special"),
    ],
)
def test_a_usual_price_next_to_a_reduced_one_is_a_former_price(usual: str, reduced: str) -> None:
    body = PAIR.format(usual, reduced)
    assert value("{auto: price, type: price}", f"<h1>Jug</h1>{body}") == Decimal("52.07")


@pytest.mark.parametrize(
    ("body", "price"),
    [
        ('<span class="regular-price"><span class="price">$67.07</span></span>', "67.07"),
        ('<p class="list-price">$67.07</p>', "67.07"),
        ('<div class="van-card__price">€ 67,07</div>', "67.07"),
        ('<p class="van-prijs">€ 67,07</p><p class="prijs">€ 52,07</p>', "52.07"),
        ('<p class="old-price">$67.07</p>', None),
        ('<p class="list-price">Was $67.07</p>', None),
        # Other amounts next to it are for something else, or for other products.
        ('<p class="list-price">$67.07</p> <p>Shipping: $5.00</p>', "67.07"),
        ('<p class="list-price">$67.07</p> <p>$9.00 / kg</p>', "67.07"),
        ('<p class="list-price">$67.07</p> <p>$99.00</p>', "67.07 99.00"),
        ('<p class="list-price">$67.07</p> <p>$52.07</p>', "52.07"),
        (
            '<div class="regular-price">$67.07</div>'
            '<ul><li><a href="/b">B</a> <p class="price">$5.00</p></ul>',
            "67.07 5.00",
        ),
        (
            '<ul><li><a href="/a">A</a> <p class="regular-price">$67.07</p>'
            '<li><a href="/b">B</a> <p class="regular-price">$67.07</p><p>$52.07</p></ul>',
            "67.07 52.07",
        ),
    ],
)
def test_a_regular_price_alone_is_the_price(body: str, price: str | None) -> None:
    root = LexborHTMLParser(f"<h1>Jug</h1><div><div>{body}</div></div>").root
    assert root is not None
    listed = [amount for amount in find_amounts(root) if not (amount.struck or amount.aside)]
    assert [str(amount.value) for amount in listed] == (price or "").split()


@pytest.mark.parametrize(
    "body",
    [
        # A reduced price that only some customers pay.
        PAIR.format("regular", "member-special"),
        PAIR.format("normal", "bulk-special-price"),
        # Another product's card.
        '<ul><li><a href="/a">A</a><p class="normal">$67.07</p></li><li><a href="/b">B</a>'
        '<p class="special-price">$52.07</p></li></ul>',
        # No word for a reduced price, or none for a usual one.
        PAIR.format("normal", "vip"),
        PAIR.format("large", "special-price"),
        # The reduced price is not lower, or there are three prices.
        '<p><b class="normal">$52.07</b> <b class="special-price">$67.07</b></p>',
        '<p><b class="normal">$67.07</b> <b class="special-price">$52.07</b> <i>$9.00</i></p>',
        '<p class="normal">$67.07</p>',
    ],
)
def test_other_prices_next_to_a_usual_one_do_not_make_it_a_former_price(body: str) -> None:
    root = LexborHTMLParser(body).root
    assert root is not None
    assert not any(amount.struck for amount in find_amounts(root))


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("$67.07 $52.07 Save: 22% off", None),
        ("$52.07 Save: 22% off", "52.07"),
        ("$52.07 Save 22%", "52.07"),
        ("65 € Rabatt: 20 %", "65"),
        ("52,07 € Save for later", "52.07"),
        ("$15.00 saved $52.07", "52.07"),
        ("$15.00 off $80.00", "80.00"),
    ],
)
def test_a_saving_behind_a_price_is_not_the_price(text: str, price: str | None) -> None:
    read = price_of(text)
    assert (read and read[0]) == price
