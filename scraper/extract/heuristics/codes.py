"""Finds the shop's own number of a product, as shown after a label: "Artikel-Nr. 28003". Pure, and
linear in the page."""

from __future__ import annotations

import re
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

from scraper.extract.heuristics.amounts import naming_words, short_text
from scraper.extract.values import ascii_digits
from scraper.rules.decoding import clean_text

# How many characters of a page's text are read.
TEXT_MAX = 400_000
CODE_MAX = 32
ELEMENTS_MAX = 400
# Where structured data states a product's GTIN.
GTIN_NAMES = ("gtin13", "gtin", "gtin14", "gtin12", "gtin8", "ean", "isbn")
GTIN_PATHS = (*GTIN_NAMES, *(f"offers.{name}" for name in GTIN_NAMES))
# Labels that only the shop's product number follows.
_STRONG = (
    r"sku|product[ -]?code|product[ -]?(?:no|number|id|nr)|item[ -]?(?:no|number|code|id|#)"
    r"|article[ -]?(?:no|number|code)|style[ -]?(?:no|number|code)|stock[ -]?code"
    r"|catalogue[ -]?number|catalog[ -]?(?:no|number)|artikel-?(?: ?nummer| ?nr|code)|art\.?-? ?nr"
    r"|bestell-?(?:nummer|nr)|produkt-?(?:nummer|nr)|référence|réf|référence produit"
    r"|code (?:produit|article)|referencia|código (?:de )?(?:producto|produto|artículo)|cód"
    r"|codice (?:articolo|prodotto)|cod\.? (?:articolo|produs|prodotto)|id produto|referência"
    r"|ref\. produto|artikelnummer|productnummer|productcode|bestelnummer|varenummer|varenr"
    r"|artikelnr|tuotenumero|tuotekoodi|tootekood|toote kood|produkta kods|preces kods|prekės kodas"
    r"|kod produktu|nr katalogowy|numer katalogowy|kód produktu|kód tovaru|kód zboží"
    r"|katalogové číslo|objednací kód|cikkszám|cod produs|šifra|šifra proizvoda|артикул|код товара"
    r"|код|ürün kodu|stok kodu|딜번호|상품번호|상품코드|商品番号|品番"
    r"|货号|商品编号|رمز المنتج|ad id|listing id"
)
# Labels that other numbers have as well.
_WEAK = (
    r"ref(?:erence)?|art(?:icle)?|item|code|codice|código|kod|kód|model(?: number| no)?|modèle|id"
    r"|nr"
)
_CODE = r"(?P<code>[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,30}[A-Za-z0-9])?)"
_BETWEEN = r"\s{0,3}(?:\.|n[°ºo]\.?)?\s{0,3}[:#：\-–]{0,2}\s{0,6}"
_LABELLED = re.compile(
    rf"(?<![\w-])(?:(?P<strong>{_STRONG})|(?P<weak>{_WEAK}))(?!\w){_BETWEEN}{_CODE}(?![\w/])", re.I
)

# Elements whose class or other name says that they hold the product number.
_CODED = ", ".join(
    f"[{attribute}*={name} i]"
    for attribute in ("class", "id", "data-testid", "data-test", "data-qa", "data-qa-qualifier")
    for name in ("sku", "reference", "number", "nummer", "artnr", "code", "itemno", "artno")
)
_CODED_WORD = re.compile(
    r"(?<![a-z])(?:sku|(?:product|article|item|artikel|cat|catalogu?e?|style)[ _-]?"
    r"(?:code|number|num|no|nr|nummer|ref(?:erence)?)|artnr|reference)(?![a-z])",
    re.I,
)
_IS_CODE = re.compile(r"(?=.*\d)[A-Za-z0-9][A-Za-z0-9._/-]{1,30}[A-Za-z0-9]").fullmatch
# The inputs by which a form names the product that it puts into the cart.
_SENT = ", ".join(
    f"input[name={name} i]"
    for name in ("sku", "product_id", "productid", "product-id", "products_id", "id_product",
                 "item_id", "itemid", "article_id", "pid")
) + ", [data-sku], [data-product-sku], [data-product_sku]"  # fmt: skip
# Groups of 14, 13, 12 or 8 digits, but not a part of a longer or a broken number.
_GTIN = re.compile(
    r"(?<![\d.])\d(?:(?:[ -]{0,2}\d){13}|(?:[ -]{0,2}\d){11,12}|(?:[ -]{0,2}\d){7})"
    r"(?!\d|[.,]0*[1-9]|E)",
    re.I,
).search
_GTIN_LABEL = re.compile(r"\W*$|.*(?:ean|gtin|upc|isbn|jan|bar)", re.I | re.S).match


class Code(NamedTuple):
    text: str
    strong: bool


def find_labelled_codes(text: str) -> list[Code]:
    """Returns the codes after labels, in page order, without repeats. A code has a digit."""
    codes: dict[str, Code] = {}
    for match in _LABELLED.finditer(text[:TEXT_MAX]):
        code = clean_text(match["code"])
        if not any(map(str.isdigit, code)) or len(code) < 3:
            continue
        strong = match["strong"] is not None
        # Without a colon a weak label is a word in a sentence.
        if not strong and not re.search(r"[:#：]", match[0]):
            continue
        if code not in codes or strong:
            codes.setdefault(code, Code(code, strong))
    return list(codes.values())


def find_named_codes(dom: LexborHTMLParser) -> list[Code]:
    """Returns the codes in elements whose names say that they hold one."""
    codes = []
    for element in dom.css(_CODED)[:ELEMENTS_MAX]:
        if _CODED_WORD.search(naming_words(element)):
            text = short_text(element, CODE_MAX)
            if _IS_CODE(text):
                codes.append(Code(text, True))
    return list(dict.fromkeys(codes))


def find_form_code(dom: LexborHTMLParser) -> str | None:
    """Returns the code in form inputs and data attributes, if there is exactly one."""
    codes = set()
    for element in dom.css(_SENT)[:ELEMENTS_MAX]:
        attributes = element.attributes
        names = ("data-sku", "data-product-sku", "data-product_sku", "value")
        text = next((text for name in names if (text := attributes.get(name))), "")
        if _IS_CODE(text):
            codes.add(text)
    return codes.pop() if len(codes) == 1 else None


def read_gtin(text: str) -> str | None:
    """Returns the digits of a GTIN as shops write it: "EAN 4006381333931", "4006381333931.0"; None
    without the right check digit (GS1 General Specifications, 7.9), or if the digits only fill the
    field, such as 0000000000000."""
    match = _GTIN(ascii_digits(text[: CODE_MAX * 2]))
    digits = re.sub(r"\D", "", match[0]) if match is not None else ""
    if match is None or len(set(digits[:-1].lstrip("0"))) < 3:
        return None
    label = text[: match.start()]
    # Numbers of other kinds have letters before them.
    is_labelled = _GTIN_LABEL(label) or (len(digits) > 8 and not label[-1].isalnum())
    return digits if is_labelled and gtin_check_digit(digits[:-1]) == digits[-1] else None


def is_gtin(text: str) -> bool:
    return read_gtin(text) is not None


def gtin_check_digit(digits: str) -> str:
    """Returns the check digit that follows the digits of a GTIN of any length."""
    total = sum(int(digit) * (3 if at % 2 == 0 else 1) for at, digit in enumerate(reversed(digits)))
    return str(-total % 10)
