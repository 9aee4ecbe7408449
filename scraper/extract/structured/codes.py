"""The shop's own number of a product, where the page shows it behind a label: "Artikel-Nr. 28003".
Pure, and linear in the page."""

from __future__ import annotations

import re
from typing import NamedTuple

from scraper.rules.decoding import clean_text

# What is read of a page's text.
TEXT_MAX = 400_000
CODE_MAX = 32
# Words that are followed by the shop's number alone.
_STRONG = (
    r"sku|product[ -]?code|product[ -]?(?:no|number|id|nr)|item[ -]?(?:no|number|code|id|#)"
    r"|article[ -]?(?:no|number|code)|style[ -]?(?:no|number|code)"
    r"|stock[ -]?code|catalogue[ -]?number"
    r"|catalog[ -]?(?:no|number)|artikel-?(?: ?nummer| ?nr|code)"
    r"|art\.?-? ?nr|bestell-?(?:nummer|nr)"
    r"|produkt-?(?:nummer|nr)|référence|réf|référence produit"
    r"|code (?:produit|article)|referencia"
    r"|código (?:de )?(?:producto|produto|artículo)|cód|codice (?:articolo|prodotto)"
    r"|cod\.? (?:articolo"
    r"|produs|prodotto)|id produto|referência|ref\. produto|artikelnummer|productnummer|productcode"
    r"|bestelnummer|varenummer|varenr|artikelnr|tuotenumero|tuotekoodi"
    r"|tootekood|toote kood"
    r"|produkta kods|preces kods|prekės kodas|kod produktu|nr katalogowy"
    r"|numer katalogowy|kód produktu"
    r"|kód tovaru|kód zboží|katalogové číslo|objednací kód|cikkszám"
    r"|cod produs|šifra|šifra proizvoda"
    r"|артикул|код товара|код|ürün kodu|stok kodu"
    r"|딜번호|상품번호|상품코드|商品番号|品番|货号|商品编号"
    r"|رمز المنتج|ad id|listing id"
)
# Words that other things have as well.
_WEAK = (
    r"ref(?:erence)?|art(?:icle)?|item|code|codice|código|kod|kód|model(?: number| no)?|modèle|id"
    r"|nr"
)
_CODE = r"(?P<code>[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,30}[A-Za-z0-9])?)"
_BETWEEN = r"\s{0,3}(?:\.|n[°ºo]\.?)?\s{0,3}[:#：\-–]{0,2}\s{0,6}"
_LABELLED = re.compile(
    rf"(?<![\w-])(?:(?P<strong>{_STRONG})|(?P<weak>{_WEAK}))(?!\w){_BETWEEN}{_CODE}(?![\w/])", re.I
)


class Code(NamedTuple):
    text: str
    strong: bool


def labelled_codes(text: str) -> list[Code]:
    """The codes behind labels, in the order of the page, each once. A code has a digit."""
    codes: dict[str, Code] = {}
    for match in _LABELLED.finditer(text[:TEXT_MAX]):
        code = clean_text(match["code"])
        if not any(map(str.isdigit, code)) or len(code) < 3:
            continue
        strong = match["strong"] is not None
        # A weak label has a colon, or it is a word of a sentence.
        if not strong and not re.search(r"[:#：]", match[0]):
            continue
        if code not in codes or strong:
            codes.setdefault(code, Code(code, strong))
    return list(codes.values())
