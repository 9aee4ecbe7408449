"""The words by which shops say whether a product is available. Pure.

They count anywhere in a short text, because shops write numbers and times around them. Denials are
matched first: "not in stock" contains "in stock".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# By language: the phrases for "available", and the phrases for "not available".
WORDS: dict[str, tuple[str, str]] = {
    "Arabic": (
        "متوفر, متوفرة, متاح",
        "غير متوفر, غير متوفرة, غير متاح, نفدت الكمية, نفذت الكمية",
    ),
    "Bulgarian": ("в наличност", "изчерпан, няма наличност"),
    "Chinese": ("有货, 有貨, 现货, 現貨", "缺货, 缺貨, 无货, 無貨, 售罄, 售完"),
    "Croatian, Serbian, Slovene": (
        "dostupno, na stanju, na zalogi",
        "rasprodano, nedostupno, nije dostupno, nije na stanju, ni na zalogi",
    ),
    "Czech, Slovak": (
        "skladem, dostupné, dostupný, skladom, na sklade",
        "není skladem, vyprodáno, nedostupné, nedostupný, vypredané, nie je skladom, "
        "nie je na sklade",
    ),
    "Danish, Norwegian": ("på lager", "ikke på lager, udsolgt, utsolgt"),
    "Dutch": (
        "op voorraad, leverbaar, beschikbaar",
        "uitverkocht, niet op voorraad, niet leverbaar, niet beschikbaar, niet meer leverbaar",
    ),
    "English": (
        "in stock, available, 3 left, pre-order, preorder",
        "not in stock, not available, no longer in stock, no longer available, 0 left, 0 in stock, "
        "0 available, out of stock, sold out, unavailable, discontinued, backorder, back-order, "
        "backordered",
    ),
    "Estonian, Latvian, Lithuanian": (
        "saadaval, ir noliktavā, pieejams, yra sandėlyje",
        "läbi müüdud, izpārdots, nav pieejams, išparduota, nėra sandėlyje",
    ),
    "Finnish": (
        "varastossa, saatavilla",
        "ei varastossa, ei saatavilla, loppunut, loppuunmyyty",
    ),
    "French": (
        "en stock, disponible",
        "rupture de stock, en rupture, hors stock, épuisé, épuisée, indisponible, non disponible, "
        "plus disponible",
    ),
    "German": (
        "auf lager, vorrätig, verfügbar, lieferbar",
        "nicht auf lager, nicht mehr auf lager, nicht vorrätig, nicht mehr vorrätig, "
        "nicht verfügbar, nicht mehr verfügbar, nicht lieferbar, nicht mehr lieferbar, "
        "ausverkauft, vergriffen",
    ),
    "Greek": ("διαθέσιμο, σε απόθεμα", "μη διαθέσιμο, εξαντλήθηκε, εξαντλημένο"),
    "Hebrew": ("במלאי", "לא במלאי, אזל מהמלאי"),
    "Hungarian": (
        "raktáron, készleten, elérhető",
        "nincs raktáron, nincs készleten, elfogyott, nem elérhető",
    ),
    "Italian": ("disponibile", "non disponibile, esaurito, esaurita"),
    "Japanese": (
        "在庫あり, 在庫有り",
        "在庫なし, 在庫無し, 在庫切れ, 売り切れ, 売切れ, 品切れ, 完売",
    ),
    "Korean": ("재고 있음, 재고있음", "재고 없음, 재고없음, 품절"),
    "Polish": (
        "dostępny, dostępna, dostępne, na stanie",
        "niedostępny, niedostępna, niedostępne, brak w magazynie, chwilowy brak, wyprzedany, "
        "wyprzedana, wyprzedane",
    ),
    "Portuguese": (
        "em estoque, em stock, disponível",
        "esgotado, esgotada, indisponível, sem estoque, sem stock, fora de estoque, fora de stock, "
        "não disponível",
    ),
    "Romanian": (
        "în stoc, in stoc, disponibil",
        "stoc epuizat, indisponibil, nu este în stoc, nu este in stoc",
    ),
    "Russian, Ukrainian": (
        "в наличии, есть на складе, в наявності",
        "нет в наличии, нет на складе, распродано, немає в наявності",
    ),
    "Spanish": (
        "en stock, disponible",
        "agotado, agotada, sin stock, fuera de stock, sin existencias, no disponible",
    ),
    "Swedish": ("i lager", "slut i lager, ej i lager, inte i lager, slutsåld"),
    "Turkish": ("stokta", "stokta yok, tükendi"),
}
# Scripts that do not write spaces around words.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")


def _compile_phrases(lists: Iterable[str]) -> re.Pattern[str]:
    phrases = {phrase for words in lists for phrase in words.split(", ")}
    patterns = []
    for phrase in sorted(phrases, key=len, reverse=True):
        # The 3 in "3 left" means any number except 0.
        pattern = re.escape(phrase).replace("3", r"[1-9]\d*")
        patterns.append(pattern if _UNSPACED.search(phrase) else rf"\b{pattern}\b")
    return re.compile("|".join(patterns))


_AFFIRMED = _compile_phrases(affirming for affirming, _ in WORDS.values())
_DENIED = _compile_phrases(denying for _, denying in WORDS.values())


def parse_availability(text: str) -> bool | None:
    """Returns what a text in lower case says; None if it says neither or both."""
    rest, denials = _DENIED.subn(" ", text)
    affirmed = _AFFIRMED.search(rest) is not None
    return affirmed if affirmed != bool(denials) else None
