"""Labels that shops write before values, in many languages, and the values that follow them.
Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, NamedTuple

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import NODES_MAX, short_text, walk_visible
from scraper.extract.text import whole_text
from scraper.rules.decoding import clean_text

LABELS: dict[str, frozenset[str]] = {
    field: frozenset(word.strip() for word in words.split("|"))
    for field, words in {
        "price": (
            "price|our price|preis|prix|precio|prezzo|prijs|pris|cena|ár|hinta|hind|fiyat|цена|価格"
            "|販売価格|価格(税込)|가격|판매가|价格|售价|preço|kaina|preț|pret"
            "|السعر|מחיר|τιμή|giá|cijena|cena z ddv|hinta sis alv|ціна|sale price"
            "|preis inkl mwst"
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
            "|bestelnummer|n d'article|n article|numéro d'article|numéro article|réf article"
            "|n articolo|n de artículo|número de artículo|nº de referencia|sku-nr"
            "|رقم المنتج|رمز المنتج|رقم الموديل|κωδικός|κωδικός προϊόντος|šifra"
            "|šifra izdelka|šifra proizvoda|cod produs|cod articol|tootekood"
            "|preces kods|prekės kodas|produktkode|kód tovaru|objednací kód"
            "|kod towaru|nr katalogowy|indeks|код|код товару|арт|part #|model"
            "|model no|ürün no|mã sản phẩm|kode produk"
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
            "|الماركة|العلامة التجارية|מותג|μάρκα|κατασκευαστής|blagovna znamka"
            "|brend|zīmols|prekės ženklas|tootja|ražotājs|gamintojas|виробник"
            "|thương hiệu|producator|producător|brand name|merkenaam|manufactured by|made by"
            "|hergestellt von|fabriqué par|fabricado por|prodotto da|vervaardigd door|tillverkad av"
        ),
        "category": (
            "category|kategorie|catégorie|categoría|categoria|categorie|kategori|kategoria"
            "|kategória|категория|warengruppe|rayon"
            "|الفئة|קטגוריה|κατηγορία|kategorija|カテゴリ|分类|카테고리|категорія"
            "|kategorie produktu"
        ),
        "availability": (
            "availability|verfügbarkeit|disponibilité|disponibilidad|disponibilità"
            "|beschikbaarheid|tillgänglighet|lagerstatus|dostupnost|dostępność|stock"
            "|stock status|lager|lagerbestand|bestand|voorraad|stav|status|skladem|наличие"
            "|التوفر|حالة التوفر|الحالة|זמינות|διαθεσιμότητα|saatavuus|saadavus"
            "|pieejamība|prieinamumas|tilgængelighed|tilgjengelighet"
            "|disponibilitate|disponibilidade|estoque|razpoložljivost|zaloga"
            "|dostupnosť|elérhetőség|készlet|наявність|stok durumu|stok|在庫|在庫状況|库存"
            "|재고|lieferstatus|lagersaldo|lagertilstand"
            "|voorraadstatus|varasto|varastotilanne"
        ),
        # It may say that a product is sold out, but its numbers are days.
        "delivery": "delivery|lieferzeit",
    }.items()
}
TEXT_MAX = 120
LINES_MAX = 60
LABEL_MAX = 40
_EDGE = re.compile(r"^[\s\-–•*]+|[\s.:#：\-–]+$")
# A number may follow its label without a colon: "Réf. K42-1000".
_NUMBERED = re.compile(r"^([^\d:：#]{2,30}?)\s+((?=\S*\d)[A-Za-z0-9][\w./-]{2,31})$").match
_PAIR = re.compile(r"^([^:：#]{2,40}?)\s*[:：#]\s*(.+)$")


def match_label(text: str) -> list[str]:
    """Returns the fields that a label may name."""
    word = _normalize_label(text)
    return [field for field, words in LABELS.items() if word in words]


class Labelled(NamedTuple):
    """A field's source by its label. `element`: the element, if label and value are one text."""

    field: str
    source: dict[str, Any]
    element: LexborNode | None = None


def find_labelled(document: Document, without: Collection[int]) -> Iterator[Labelled]:
    """Yields sources for the values that follow a label: in the next cell, or after a colon."""
    for element in walk_visible(document.dom.root, without):  # type: ignore[arg-type]
        tag = element.tag or "*"
        yield from _labelled_lines(element, tag)
        # The whole text of each element would take time by the depth of the page squared.
        text = clean_text(whole_text(element)) if short_text(element, 2 * TEXT_MAX) else ""
        if not text or len(text) > TEXT_MAX:
            continue
        if len(text) <= LABEL_MAX:
            fields = match_label(text)
            if fields and '"' not in text and "\\" not in text:
                after = _next_element(element)
                if after is None:
                    continue
                css = f'{tag}:contains("{text}") + {after.tag}'
                if _has_text(after):
                    for field in fields:
                        yield Labelled(field, {"css": css})
                elif "brand" in fields and after.css_first("img[alt]") is not None:
                    # The brand's logo.
                    inner = "" if after.tag == "img" else " img"
                    yield Labelled("brand", {"css": f"{css}{inner}::attr(alt)"})
                continue
        pair = _PAIR.match(text) or _NUMBERED(text)
        if pair is None or '"' in pair[1] or "\\" in pair[1] or _holds_pair(element, pair[1]):
            continue
        mark = r"\s*[:：#]\s*" if pair.re is _PAIR else r"\s+"
        for field in match_label(pair[1]):
            if pair.re is not _PAIR and field not in ("sku", "gtin", "mpn"):
                continue
            label = pair[1].strip()
            regex = rf"{re.escape(label)}{mark}(\S.*)".replace("\\ ", " ")
            yield Labelled(field, {"css": f'{tag}:contains("{label}")', "regex": regex}, element)


def _labelled_lines(element: LexborNode, tag: str) -> Iterator[Labelled]:
    """Yields sources for the lines of one element, separated by <br>, that are pairs."""
    nodes = list(islice(element.iter(include_text=True), LINES_MAX))
    if not any(node.tag == "br" for node in nodes):
        return
    for node in nodes:
        text = clean_text(node.text_content or "") if node.is_text_node else ""
        pair = _PAIR.match(text) if len(text) <= TEXT_MAX else None
        if pair is None or '"' in pair[1] or "\\" in pair[1]:
            continue
        for field in match_label(pair[1]):
            label = pair[1].strip()
            regex = rf"^\s*{re.escape(label)}\s*[:：#]\s*(\S.*)".replace("\\ ", " ")
            yield Labelled(field, {"css": f'{tag}:contains("{label}")::text', "regex": regex})


def _holds_pair(element: LexborNode, label: str) -> bool:
    """Returns whether a child holds the pair: the element is a list of pairs, or the label is in an
    element of its own, before that of the value."""
    for child in element.iter(include_text=False):
        text = clean_text(whole_text(child))
        pair = _PAIR.match(text)
        if pair is not None and pair[1] == label:
            return True
        if _normalize_label(text) == _normalize_label(label) and _next_element(child) is not None:
            return True
    return False


def _next_element(element: LexborNode) -> LexborNode | None:
    after = element.next
    while after is not None and not after.is_element_node:
        after = after.next
    return after


def _has_text(element: LexborNode) -> bool:
    """Returns whether any of the first elements below this one, or itself, has a text of its
    own."""
    return any(
        node.is_text_node and (node.text_content or "").strip()
        for part in (element, *islice(walk_visible(element), NODES_MAX))
        for node in part.iter(include_text=True)
    )


def _normalize_label(text: str) -> str:
    word = _EDGE.sub("", text).casefold().replace("°", "")
    return re.sub(r"\s*\.\s*", " ", word).strip()
