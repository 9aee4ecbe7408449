"""Words that shops write beside values, in the languages that shops are written in, and the values
that stand beside them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.structured.amounts import elements_of
from scraper.extract.text import whole_text
from scraper.rules.decoding import clean_text

LABELS: dict[str, frozenset[str]] = {
    field: frozenset(word.strip() for word in words.split("|"))
    for field, words in {
        "price": (
            "price|our price|preis|prix|precio|prezzo|prijs|pris|cena|ár|hinta|hind|fiyat|цена|価格"
            "|販売価格|価格(税込)|가격|판매가|价格|售价|preço|kaina|preț|pret"
        ),
        "sku": (
            "sku|商品番号|品番|型番|商品コード|상품번호"
            "|상품코드|货号|商品编号|article|article no|article number|art no|art|art nr|artnr"
            "|artikelnummer"
            "|artikel nr|artikel|artikelnr|artikel-nr|bestellnummer|bestellnr|best nr|item"
            "|item no|item number|item code|item #|product code|product id|product no"
            "|product number|produktnummer|produkt nr|code|code produit|code article|référence"
            "|reference|ref|réf|référence produit|referencia|codice|codice articolo"
            "|codice prodotto|cod|cód|código|codigo|cod articolo|referência|varenummer|varenr"
            "|vare nr|artikelkod|tuotekoodi|tuotenumero|katalogové číslo|kód|kód produktu"
            "|kod produktu|numer katalogowy|symbol|cikkszám|артикул|код товара|stock code"
            "|catalog no|catalogue number|upc|ürün kodu|stok kodu|productcode|productnummer"
            "|bestelnummer"
        ),
        "gtin": (
            "jan|janコード"
            "|ean|gtin|upc|isbn|isbn-13|isbn13|ean-code|ean code|ean13|ean-13|gtin13|gtin-13"
            "|barcode|bar code|strichcode|code-barres|code barre|código de barras"
            "|codigo de barras|codice ean|codice a barre|streckkod|čárový kód|kod ean|vonalkód"
            "|штрихкод|viivakoodi|gencod"
        ),
        "mpn": (
            "mpn|manufacturer part number|part number|part no|mfr part|mfg part|model number"
            "|model no|hersteller-nr|herstellernummer|hersteller-artikelnummer"
            "|herstellerartikelnummer|hersteller nr|référence fabricant|réf fabricant"
            "|referencia del fabricante|codice produttore|fabrikantcode"
            "|tillverkarens artikelnummer|kod producenta|manufacturer code|modellnummer"
        ),
        "brand": (
            "brand|ブランド|メーカー|브랜드|제조사|品牌|marke|hersteller|manufacturer|marque|fabricant|marca|fabricante|produttore"
            "|merk|fabrikant|varumärke|märke|tillverkare|mærke|producent|merke|merkki"
            "|valmistaja|značka|výrobce|marka|márka|gyártó|бренд|производитель|vendor|maker"
            "|label|brands"
        ),
        "category": (
            "category|kategorie|catégorie|categoría|categoria|categorie|kategori|kategoria"
            "|kategória|категория|warengruppe|rayon"
        ),
        "availability": (
            "availability|verfügbarkeit|disponibilité|disponibilidad|disponibilità"
            "|beschikbaarheid|tillgänglighet|lagerstatus|dostupnost|dostępność|stock"
            "|stock status|lager|lagerbestand|bestand|voorraad|stav|status|skladem|наличие"
        ),
    }.items()
}
TEXT_MAX = 120
LABEL_MAX = 40
_EDGE = re.compile(r"^[\s\-–•*]+|[\s.:#：\-–]+$")
_PAIR = re.compile(r"^([^:：#]{2,40}?)\s*[:：#]\s*(.+)$")


def fields_of_label(text: str) -> list[str]:
    """Which fields a label is written beside."""
    word = _normal(text)
    return [field for field, words in LABELS.items() if word in words]


def labelled(document: Document, without: Collection[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(field, source) of what stands beside a label: in the next cell, or behind a colon."""
    for element in elements_of(document.dom.root, without):  # type: ignore[arg-type]
        text = clean_text(whole_text(element))
        if not text or len(text) > TEXT_MAX:
            continue
        tag = element.tag or "*"
        if len(text) <= LABEL_MAX:
            fields = fields_of_label(text)
            if fields and '"' not in text and "\\" not in text:
                after = element.next
                while after is not None and after.is_text_node:
                    after = after.next
                if after is not None and after.is_element_node and clean_text(whole_text(after)):
                    for field in fields:
                        yield field, {"css": f'{tag}:contains("{text}") + {after.tag}'}
                continue
        pair = _PAIR.match(text)
        if pair is None or '"' in pair[1] or "\\" in pair[1] or _holds_pair(element, pair[1]):
            continue
        for field in fields_of_label(pair[1]):
            label = pair[1].strip()
            yield (
                field,
                {
                    "css": f'{tag}:contains("{label}")',
                    "regex": rf"{re.escape(label)}\s*[:：#]\s*(\S.*)",
                },
            )


def _holds_pair(element: LexborNode, label: str) -> bool:
    """Whether one of its children says the same: it is a list of such pairs."""
    return any(
        (pair := _PAIR.match(clean_text(whole_text(child)))) is not None and pair[1] == label
        for child in element.iter(include_text=False)
    )


def _normal(text: str) -> str:
    word = _EDGE.sub("", text).casefold().replace("°", "")
    return re.sub(r"\s*\.\s*", " ", word).strip()
