"""Prices as shops write them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.extract.prices import money
from scraper.extract.values import Mistyped


@pytest.mark.parametrize(
    ("text", "mark", "currency", "expected"),
    [
        ("£51.77", None, None, ("51.77", "GBP")),
        ("1.299,00 €", None, None, ("1299.00", "EUR")),
        ("$1,299.00", None, None, ("1299.00", "USD")),
        ("$12.99", None, "CAD", ("12.99", "CAD")),
        ("£12.99", None, "EUR", ("12.99", "GBP")),
        ("12.99", None, "EUR", ("12.99", "EUR")),
        ("12.99", None, None, ("12.99", None)),
        ("US$ 12.99", None, "CAD", ("12.99", "USD")),
        ("149 kr", None, None, ("149", "SEK")),
        ("149 kr", None, "NOK", ("149", "NOK")),
        ("1299 kr NOK", None, "SEK", ("1299", "NOK")),
        ("1 299:50 kr", None, None, ("1299.50", "SEK")),
        ("kr 99:90", None, None, ("99.90", "SEK")),
        ("Före 15:30 99:90 kr", None, None, ("99.90", "SEK")),
        ("99:- kr", None, None, ("99", "SEK")),
        ("$1,299.00 MXN", None, None, ("1299.00", "MXN")),
        ("Was $1,500 MXN Now $1,299.00 MXN", None, None, ("1299.00", "MXN")),
        ("$12.99 USD / $17.50 CAD", None, None, ("12.99", "USD")),
        ("$12.99 USD / $17.50 CAD", None, "CAD", ("17.50", "CAD")),
        # A code may be a word.
        ("TOP: Rs.1,999", None, None, ("1999", "INR")),
        ("CHF: 12.90", None, None, ("12.90", "CHF")),
        ("E£1,299", None, None, ("1299", "EGP")),
        ("12,500 TND", None, None, ("12.500", "TND")),
        ("1.250,000", None, "TND", ("1250.000", "TND")),
        ("1 250,000 TND", None, None, ("1250.000", "TND")),
        ("1 250 000,500 TND", None, None, ("1250000.500", "TND")),
        ("1 250,000 €", None, None, ("1250.000", "EUR")),
        ("1,250.500 TND", None, None, ("1250.500", "TND")),
        ("12,500 KWD", None, None, ("12500", "KWD")),
        ("Rs.1,299.00 PKR", None, None, ("1299.00", "PKR")),
        ("12,50 zł", None, None, ("12.50", "PLN")),
        ("¥1,980", None, None, ("1980", "JPY")),
        ("¥1,980", None, "CNY", ("1980", "CNY")),
        ("1.234 Kč", None, None, ("1234", "CZK")),
        ("CHF 1'299.90", None, None, ("1299.90", "CHF")),
        ("CHF 1’299.–", None, None, ("1299", "CHF")),
        ("KWD 12.500", None, None, ("12.500", "KWD")),
        ("129 95 €", None, None, ("129.95", "EUR")),
        ("€ 1.299", None, None, ("1299", "EUR")),
        ("PLN 12,50", None, "EUR", ("12.50", "PLN")),
        ("leider 12,00", None, "EUR", ("12.00", "EUR")),
        ("Now only £10.00 (was £20.00)", None, None, ("10.00", "GBP")),
        ("140.000", ",", "IDR", ("140000", "IDR")),
        ("1299.00 EUR", ",", None, ("1299.00", "EUR")),
        ("1299.9000", ",", None, ("1299.9000", None)),
        ("Free", None, "USD", ("0", "USD")),
        # The amount next to the currency.
        ("2 for £5", None, None, ("5", "GBP")),
        ("0.5 kg £3.00", None, None, ("3.00", "GBP")),
        ("Size 10 £ 45.00", None, None, ("45.00", "GBP")),
        ("1x 4.99 €", None, None, ("4.99", "EUR")),
        ("12.99 incl. 19 % VAT", None, "EUR", ("12.99", "EUR")),
        ("19,90 (0,5 l)", None, None, ("19.90", None)),
        ("12€50", None, None, ("12.50", "EUR")),
        # A mark behind a zero separates no thousands.
        *[("$0.125", None, None, ("0.125", "USD")), ("€ 0,035", None, None, ("0.035", "EUR"))],
        # Former prices, savings, prices of a unit, quantities, ranges.
        ("Save £5 £15.00", None, None, ("15.00", "GBP")),
        ("$5 off $20.00", None, None, ("20.00", "USD")),
        ("was £20.00 now £15.00", None, None, ("15.00", "GBP")),
        ("UVP 29,99 € 19,99 €", None, None, ("19.99", "EUR")),
        ("statt 29,99 € nur 19,99 €", None, None, ("19.99", "EUR")),
        ("A$29.95 was A$49.95", None, None, ("29.95", "AUD")),
        ("149 kr (tidligere 199 kr)", None, "DKK", ("149", "DKK")),
        ("£3.00 (£6.00 / kg)", None, None, ("3.00", "GBP")),
        ("5,99 € (1 kg = 11,98 €)", None, None, ("5.99", "EUR")),
        ("£5.00 each or 3 for £12", None, None, ("5.00", "GBP")),
        ("12,50 € / 100 g", None, None, ("12.50", "EUR")),
        ("£10.00 – £15.00", None, None, ("10.00", "GBP")),
        ("from $12.99 to $15.99", None, None, ("12.99", "USD")),
        # The second end of a range may be the lower one; after a minus it is a saving.
        ("€ 59 – € 39", None, None, ("39", "EUR")),
        ("59,90 – 59,50 €", None, None, ("59.50", "EUR")),
        ("€ 1.299 – € 999", None, None, ("999", "EUR")),
        ("€ 999 – € 1.299", None, None, ("999", "EUR")),
        ("from $59 to $39", None, None, ("39", "USD")),
        ("between $15 and $10", None, None, ("10", "USD")),
        ("99,90 € -50 €", None, None, ("99.90", "EUR")),
        # Instalments next to the whole price.
        ("R$ 598,80 ou 12x de R$ 49,90", None, None, ("598.80", "BRL")),
        ("$149.70 or 3 payments of $49.90", None, None, ("149.70", "USD")),
        # Lakhs and crores.
        ("₹1,29,999.00", None, None, ("129999.00", "INR")),
        ("Rs. 12,34,56,789", None, None, ("123456789", "INR")),
        # Cents of their own in a longer text.
        ("Now $12 99 each", None, None, ("12.99", "USD")),
        ("from € 1.299 95", None, None, ("1299.95", "EUR")),
        ("$12 99 was $15 99", None, None, ("12.99", "USD")),
        ("$12 10 pack", None, None, ("12", "USD")),
        ("$12 50 ml", None, None, ("12", "USD")),
        # A code within a word.
        ("12 USDT", None, None, ("12", None)),
        ("500 SEKunda", None, "EUR", ("500", "EUR")),
        ("Price: $1,234.56 $1,234.56", None, None, ("1234.56", "USD")),
        # With tax and without, side by side.
        ("£10.00 (£12.00 inc. VAT)", None, None, ("12.00", "GBP")),
        ("$12.10 inc GST ($11.00 ex GST)", None, None, ("12.10", "USD")),
        ("125,50 € (sis. alv) 100,00 € (alv 0 %)", None, None, ("125.50", "EUR")),
        ("1,000円 (税込1,100円)", None, None, ("1100", "JPY")),
        ("Excl. btw: € 10,00 Incl. btw: € 12,10", None, None, ("12.10", "EUR")),
        ("€ 10,00 excl. btw € 12,10 incl. btw", None, None, ("12.10", "EUR")),
        ("82,64 Kč bez DPH 100 Kč s DPH", None, None, ("100", "CZK")),
        ("19,99 € inkl. MwSt. zzgl. 4,99 € Versand", None, None, ("19.99", "EUR")),
        ("between $10 and $15", None, None, ("10", "USD")),
        ("zwischen 10,00 € und 15,00 €", None, None, ("10.00", "EUR")),
        ("$499.00 Pay $124.75 every two weeks with Zip", None, None, ("499.00", "USD")),
        # Other scripts' digits.
        ("١٢٫٥٠ ريال", None, None, ("12.50", "SAR")),
        ("１２．９９ €", None, None, ("12.99", "EUR")),
    ],
)
def test_price(
    text: str, mark: str | None, currency: str | None, expected: tuple[str, str | None]
) -> None:
    amount, code = money.to_price(text, mark, currency)
    assert (str(amount), code) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "Call us", "50% off", "x" * 501 + "£5"),
        *("£20.00 £15.00", "20 € 15 €", "10 € 45", "price 12.99 item 4711", "RRP £20.00 save £5"),
        *("10 € and 15 €", "£10.00 (£12.00 in blue)"),
        # Some shops write a saving in the form of a range.
        *("€ 100 – € 20", "100 - 20 €"),
        *("12 x $49.90", "12x de R$ 49,90", "3 × 4,99 €", "or 3 payments of $49.90"),
        *("4 interest-free payments of $12.50", "3 cuotas de $ 499,00"),
        *("1:299 kr", "-5 €", "\u2212$5.00", "-€ 5"),
    ],
)
def test_no_price(text: str) -> None:
    with pytest.raises(Mistyped):
        money.to_price(text)


@given(
    st.from_regex(
        r"[£€$¥₹]? ?([0-9]{1,6}|[0-9]{1,3}([.,][0-9]{3}){1,4})[.,][0-9]{2} ?[£€$¥₹]?",
        fullmatch=True,
    ),
    st.sampled_from([None, ".", ","]),
    st.sampled_from([None, "CAD", "EUR"]),
)
def test_the_fast_price_is_price_parsers(text: str, mark: str | None, currency: str | None) -> None:
    assert _price(money.to_price, text, mark, currency) == _price(
        money._to_price_slowly, text, mark, currency
    )


AMOUNT = st.decimals(1, 9999, places=2).map(lambda amount: f"£{amount}")
OTHERS = ["was {}", "RRP {}", "save {}", "statt {}", "{} off", "{} / kg", "{} per litre"]


@given(AMOUNT, AMOUNT, st.sampled_from(OTHERS), st.booleans())
def test_another_amount_next_to_the_price_is_never_taken_for_it(
    price: str, other: str, words: str, first: bool
) -> None:
    parts = [f"now {price}", words.format(other)]
    text = " ".join(parts if first else parts[::-1])
    try:
        amount, code = money.to_price(text)
    except Mistyped:
        return
    assert (f"£{amount}", code) == (price, "GBP"), text


@given(st.text(max_size=80))
def test_whatever_a_price_says_it_is_a_price_or_none(text: str) -> None:
    try:
        amount, _ = money.to_price(text)
    except Mistyped:
        return
    assert amount.is_finite()


def _price(
    read: Callable[..., tuple[Decimal, str | None]], *args: str | None
) -> tuple[str, str | None] | None:
    try:
        amount, code = read(*args)
    except Mistyped:
        return None
    return str(amount), code
