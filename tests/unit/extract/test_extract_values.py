from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.extract import values
from scraper.extract.heuristics.stock_words import FALSE, TRUE, WORDS
from scraper.extract.prices.money import to_price
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
        to_price,
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
