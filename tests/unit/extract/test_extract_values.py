from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.extract import money, values
from scraper.extract.heuristics.stock_words import FALSE, TRUE, WORDS
from scraper.extract.values import Mistyped
from scraper.rules.decoding import clean_text, decode_page, parse_html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("22", 22),
        ("In stock (22 available)", 22),
        ("1,234 reviews", 1234),
        ("1.234 Bewertungen", 1234),
        ("1 234", 1234),
        ("١٬٢٣٤", 1234),
        ("２２ in stock", 22),
        ("1\u2019234\u2019567", 1_234_567),
        ("-5", -5),
        ("\u22125", -5),
        ("10-20", 10),
        ("A-5", 5),
        ("4.0", 4),
        ("2024 123", 2024),
    ],
)
def test_int(text: str, expected: int) -> None:
    assert values.to_int(text) == expected


@pytest.mark.parametrize("text", ["", "many", "4.5", "12,34,567", "9" * 20, "9" * 5000])
def test_no_int(text: str) -> None:
    with pytest.raises(Mistyped):
        values.to_int(text)


@pytest.mark.parametrize(
    ("text", "mark", "expected"),
    [
        ("4.5 stars", None, "4.5"),
        ("1.234", None, "1.234"),
        ("1.234", ",", "1234"),
        ("1,234", None, "1234"),
        ("1,234", ",", "1.234"),
        ("1.234,50", None, "1234.50"),
        ("1,234.50", None, "1234.50"),
        ("0,5 kg", None, "0.5"),
        ("1 234,5", None, "1234.5"),
        ("-0.5", None, "-0.5"),
        ("1.234.567", None, "1234567"),
        # The only mark cannot separate thousands.
        ("4.5", ",", "4.5"),
        ("-0.125", ",", "-0.125"),
    ],
)
def test_decimal(text: str, mark: str | None, expected: str) -> None:
    assert values.to_decimal(text, mark) == Decimal(expected)


@pytest.mark.parametrize("text", ["", "NaN", "Infinity", "1" * 39, "x" * 10])
def test_no_decimal(text: str) -> None:
    with pytest.raises(Mistyped):
        values.to_decimal(text)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", True),
        ("In Stock", True),
        ("https://schema.org/InStock", True),
        ("http://schema.org/OutOfStock", False),
        ("0", False),
        ("Sold out!", False),
        ("In stock (39 available)", True),
        ("Only 3 left", True),
        ("Not in stock", False),
        ("0 in stock", False),
        ("Temporarily out of stock", False),
        ("Currently unavailable.", False),
        ("Nicht auf Lager", False),
        ("Auf Lager, in 2 Tagen bei Ihnen", True),
        ("En stock", True),
        ("Pre-order now", True),
        ("https://schema.org/PreOrder", True),
        ("https://schema.org/BackOrder", False),
    ],
)
def test_bool(text: str, expected: bool) -> None:
    assert values.to_bool(text) is expected


@pytest.mark.parametrize(
    "text",
    ["perhaps", "In stock online, out of stock in store", "x" * 100 + " in stock", "unavailably"],
)
def test_no_bool(text: str) -> None:
    with pytest.raises(Mistyped, match="when"):
        values.to_bool(text)


@pytest.mark.parametrize(
    ("text", "layout", "dayfirst", "expected"),
    [
        ("2025-03-04", None, True, "2025-03-04"),
        ("2025-03-04T10:20:30Z", None, True, "2025-03-04T10:20:30+00:00"),
        ("2025-03-04 10:20", None, False, "2025-03-04T10:20:00"),
        ("2025-03-04T10:20:30+02:00", None, False, "2025-03-04T10:20:30+02:00"),
        ("March 4, 2025", None, False, "2025-03-04"),
        ("3/4/2025", None, False, "2025-03-04"),
        ("3/4/2025", None, True, "2025-04-03"),
        ("04.03.2025", "%d.%m.%Y", False, "2025-03-04"),
        ("04.03.2025 10:00", "%d.%m.%Y %H:%M", False, "2025-03-04T10:00:00"),
        ("4 March 2025 10:00 CST", None, False, "2025-03-04T10:00:00"),
    ],
)
def test_date(text: str, layout: str | None, dayfirst: bool, expected: str) -> None:
    assert values.to_date(text, layout, dayfirst) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "March 2025", "2025", "10:30", "31/02/2025", "2025-02-30", "9" * 90]
)
def test_a_date_needs_year_month_and_day(text: str) -> None:
    with pytest.raises(Mistyped):
        values.to_date(text)


def test_no_url() -> None:
    with pytest.raises(Mistyped):
        values.to_url("data:image/png;base64,xx", "https://shop.example/")
    assert (
        values.to_url("/a.png?utm_source=x#y", "https://shop.example/b")
        == "https://shop.example/a.png?utm_source=x"
    )


@given(st.text(alphabet=st.characters(), max_size=60))
def test_converters_answer_or_say_mistyped(text: str) -> None:
    for convert in (
        values.to_int,
        values.to_decimal,
        values.to_bool,
        values.to_date,
        money.to_price,
        lambda text: values.to_url(text, "https://shop.example/"),
        lambda text: values.to_date(text, "%d %B %Y"),
    ):
        try:
            convert(text)
        except Mistyped as error:
            assert len(str(error)) < 300


@given(st.text(alphabet=st.characters()))
def test_clean_text_can_be_stored(text: str) -> None:
    cleaned = clean_text(text + "\x00\ud800")
    cleaned.encode("utf-8")
    assert "\x00" not in cleaned
    assert cleaned == " ".join(cleaned.split())


@pytest.mark.parametrize(
    ("body", "header", "expected"),
    [
        ("ü".encode(), None, "ü"),
        (b"\xfc", None, "ü"),
        (b"\xfc", "text/html; charset=latin-1", "ü"),
        (b"\x80", "text/html; charset=iso-8859-1", "€"),
        ("ü".encode(), "text/html; charset=nonsense", "ü"),
        (b"\xfc", "text/html; charset=nonsense", "ü"),
        (b'<meta charset="windows-1251">\xe9', None, '<meta charset="windows-1251">й'),
        (b'<meta charset="utf-16">x', None, '<meta charset="utf-16">x'),
        (
            b'<meta charset="latin1">\xfc',
            "text/html; charset=utf-8",
            '<meta charset="latin1">\ufffd',
        ),
        (b"\xef\xbb\xbf\xc3\xbc", "text/html; charset=latin-1", "ü"),
        (b"\xff\xfeu\x00", None, "u"),
        (
            b'<?xml version="1.0" encoding="shift_jis"?>\x83\x65',
            None,
            '<?xml version="1.0" encoding="shift_jis"?>テ',
        ),
        (b"41", "text/html; charset=hex", "41"),
        (b"x", "text/html; charset=base64", "x"),
        (b"x", "text/html; charset=utf-7", "x"),
        (b"x", "text/html; charset=undefined", "x"),
        (b"x", "text/html; charset=mbcs", "x"),
        (b"x", "text/html; charset=idna", "x"),
        (b"", None, ""),
    ],
)
def test_decode(body: bytes, header: str | None, expected: str) -> None:
    decoded = decode_page(body, header)
    if "\ufffd" in expected:
        # the header was wrong; either is an answer
        assert decoded.text.endswith(("\ufffd", "ü"))
    else:
        assert decoded.text == expected
        assert decoded.utf8.decode() == expected


@given(
    st.binary(max_size=200),
    st.one_of(st.none(), st.text(max_size=30).map("text/html; charset=".__add__)),
)
def test_any_bytes_make_a_tree(body: bytes, header: str | None) -> None:
    decoded = decode_page(body, header)
    assert parse_html(decoded.utf8) is not None


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00", b" ", b"<!-- x -->", b"<?pi", b"<" * 5000, b"<div>" * 10_000, b"\xff\xfe\x00"],
)
def test_broken_markup_makes_a_tree(body: bytes) -> None:
    assert parse_html(body).tag == "html" or parse_html(body).tag is not None


@given(
    st.integers(-5, 5),
    st.sampled_from(["€", "é", "𝒳", "\u00a0"]).map(str.encode),
    st.sampled_from([b"", b"\x80", b"\xe2\x82", b"\xed\xa0\x80", b"\xff", b"\xc3"]),
    st.booleans(),
)
def test_a_body_is_utf8_as_a_whole_whatever_its_pieces_are(
    shift: int, character: bytes, broken: bytes, last: bool
) -> None:
    body = b"x" * (16_384 + shift) + character * 20_000
    body = body + broken if last else body[:16_380] + broken + body[16_380:]
    try:
        body.decode()
    except UnicodeDecodeError:
        assert decode_page(body, "text/html; charset=utf-8").utf8 != body
    else:
        assert decode_page(body, "text/html; charset=utf-8").utf8 is body


def test_the_words_that_the_docs_name_are_what_they_say_and_all_there_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "fields.md").read_text()
    (row,) = re.findall(
        r"^\| `bool` .*words\. True, alone: (.*)\. False, alone: (.*?)\. Within", page, re.M
    )
    alone = set()
    for words, meant in zip(row, (True, False), strict=True):
        single = words.replace("and schema.org's ", "").replace(", with or without its address", "")
        for word in single.split(", "):
            assert values.to_bool(word) is meant, word
            alone.add(word.lower())
    assert alone == TRUE | FALSE


@pytest.mark.parametrize("language", WORDS)
def test_the_words_for_in_stock_and_out_of_stock(language: str) -> None:
    for words, meant in zip(WORDS[language], (True, False), strict=True):
        for phrase in words.split(", "):
            assert values.to_bool(phrase) is meant, phrase
            assert values.to_bool(f"7 * {phrase.title()}!") is meant, phrase


@pytest.mark.parametrize(
    "text",
    [
        *("0 Units in Stock", "0 in stock", "Stock: 0", "Units in Stock: 0", "In stock (0)", "0 pcs. available"),
        *("0 auf Lager", "0 Stück auf Lager", "Bestand: 0", "Lagerbestand: 0 Stück", "Verfügbar: 0"),
        *("0 en stock", "0 pièces en stock", "Quantité disponible : 0", "0 op voorraad", "0 stuks op voorraad"),
        *("0 disponibles", "Existencias: 0", "Skladem: 0 ks", "Skladem 0 ks", "0 szt. w magazynie", "Stan magazynowy: 0"),
        *("0 шт. в наличии", "в наличии: 0 шт.", "Остаток: 0", "在庫: 0", "在庫数：0", "库存：0 件", "Stok: 0", "Lager: 0 st"),
        *("There are 0 units in stock.", "Availability: 0 in stock - 2 weeks", "In stock: 0.00", "Skladem: 0,00 ks"),
        *("0.00 pcs available", "In stoc: nu", "Disponibil: nu"),
        *("In stock: no", "In stock? No", "Available: false", "Auf Lager: nein", "En stock : non", "Disponible: No"),
        *("Op voorraad: nee", "Skladem: ne", "Dostępny: nie", "В наличии: нет", "Available: no. Back soon"),
    ],
)  # fmt: skip
def test_a_zero_or_a_no_next_to_a_phrase_is_out_of_stock(text: str) -> None:
    assert values.to_bool(text) is False


@pytest.mark.parametrize(
    "text",
    [
        *("10 Units in Stock", "100 in stock", "In stock (10)", "Units in stock: 20", "0.5 kg in stock", "1.0 units in stock"),
        *("0% financing, in stock", "In stock, 0 € shipping", "0 reviews In stock", "In stock 0 reviews", "Size 0 in stock"),
        *("Größe 0 auf Lager", "auf Lager: 0,5 m", "Auf Lager, 0-3 Tage", "Verfügbar: 07.2 Stück", "1.000 auf Lager"),
        *("Skladem 10 ks", "Skladem 0 hodnocení", "в наличии 20 шт.", "US 0 in stock", "PX-0 in stock", "In stock (0 reviews)"),
        *("Delivery: £0.00 Available", "Leverbaar: nu", "I lager: nu", "In stock: No. 1"),
        *("In stock: yes", "Available? Yes", "Available: no longer than 2 m", "In stock: no minimum order", "In stock: 10.00"),
    ],
)  # fmt: skip
def test_another_zero_next_to_a_phrase_is_in_stock(text: str) -> None:
    assert values.to_bool(text) is True


@pytest.mark.parametrize(
    "text", ["Stock: 5", "Lager: 0 Tage", "Bestand: 0,5", "Stock no. 0", "0 units"]
)
def test_a_number_without_a_phrase_is_not_a_bool(text: str) -> None:
    with pytest.raises(Mistyped):
        values.to_bool(text)


@pytest.mark.parametrize(
    "text", ["available now, sold out soon", "Lagerverkauf", "現代", "0 left, 3 left"]
)
def test_a_text_that_says_both_or_neither_is_not_a_bool(text: str) -> None:
    with pytest.raises(Mistyped):
        values.to_bool(text)
