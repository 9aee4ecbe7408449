"""Recognises a page with status 200 that says that its product does not exist, in a heading or a
message. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html import unescape
from itertools import islice

from scraper.domain import Extracted, Fetched, LeasedPage
from scraper.plugins.departures.addresses import (
    HEAD_BYTES,
    Departure,
    find_naming_fields,
    read_names,
)
from scraper.rules.decoding import clean_text, decode_page
from scraper.rules.urls import fingerprint
from scraper.sites.definition import Site

HEADINGS_MAX = 24
# A heading of more characters is a text.
HEADING_CHARS_MAX = 120
# A page with more than this share of the fields shows some product.
POOR_SHARE = 0.5
HEADING_MAX_BYTES = 1200
_OPENING = re.compile(
    rb"<(?:(title|h[1-4])(?:\s[^<>]{0,700})?|(div|p|span|section|li)\s[^<>]{0,700})>"
).finditer
# An element with such a word in its class, id or role is a message.
_NAMES = re.compile(rb"""\s(?:class|id|role)\s*=\s*("[^"]*"|'[^']*'|[^\s"']+)""").findall
_MARK = re.compile(rb"alert|message|error|warning|notice|not-?_?found|404").search
_CLOSING = {
    tag: re.compile(rb"</%b\s*>" % tag).search
    for tag in b"title h1 h2 h3 h4 div p span section li".split()
}
_TAG = re.compile(r"<[^<>]*>")
_ABSENT = re.compile(
    r"\b(?:(?:page|product|item|article) (?:was |is |could )?(?:not|unavailable|unknown|removed)\b"
    r"|(?:was|could)(?: not|n['’]t) (?:be )?found|not found|no longer (?:available|exists?|sold)"
    r"|does(?: not|n['’]t) exist|error 404|404 error|page 404"
    r"|nicht (?:mehr )?(?:gefunden|verfügbar|vorhanden|erhältlich)|existiert nicht|fehler 404"
    r"|introuvable|n['’]existe (?:pas|plus)|n['’]est plus disponible|pas été trouvée?|erreur 404"
    r"|no (?:se ha )?encontrad[oa]|no existe|ya no está disponible|no disponible"
    r"|non (?:è stat[oa] )?trovat[oa]|non esiste|non è più disponibile"
    r"|não (?:foi )?encontrad[oa]|não existe|não está mais disponível"
    r"|niet (?:meer )?(?:gevonden|beschikbaar)|bestaat niet"
    r"|nie (?:została? )?znalezion[oya]|nie istnieje|nenalezena?|nebyla? nalezena?|neexistuje"
    r"|ikke fundet|findes ikke|ikke funnet|finnes ikke|hittades inte|finns inte"
    r"|ei löyd\w*|ei löytynyt"
    r"|nem található|nem létezik|nu (?:a fost găsit|există)\w*|bulunamadı|mevcut değil"
    r"|δεν (?:βρέθηκε|υπάρχει)|не найдена?о?|не существует|не знайдено|не існує)(?!\w)"
    r"|見つかりません|存在しません|找不到|不存在|未找到|찾을 수 없|존재하지 않|غير موجود|לא נמצא",
    re.IGNORECASE,
).search


def find_absence(
    page: LeasedPage, fetched: Fetched, extracted: Extracted | None, site: Site
) -> Departure | None:
    """Returns what a product page says if that is that it has no product, else None. Of a page that
    shows the fields of a product, only its name counts."""
    poor = _is_poor(extracted, site)
    if poor:
        texts = list(_read_headings(fetched))
    else:
        texts = [str(name) for name in read_names(extracted, site).values()]
    if not any(map(_ABSENT, texts)):
        return None
    own = fingerprint(page.url)
    return Departure(
        url=page.url,
        target=own,
        bare=own,
        redirected=False,
        home=False,
        alike=True,
        names={},
        says=" / ".join(dict.fromkeys(texts)),
        poor=poor,
        called=find_naming_fields(site),
    )


def _is_poor(extracted: Extracted | None, site: Site) -> bool:
    """Returns whether a page shows at most half of a product's fields."""
    return (
        extracted is None
        or not extracted.products
        or extracted.fields_found <= POOR_SHARE * len(site.product.all_fields)
    )


def _read_headings(fetched: Fetched) -> Iterator[str]:
    head = decode_page(fetched.body[:HEAD_BYTES], fetched.headers.get("content-type")).utf8
    for heading in islice(_find_headings(head), HEADINGS_MAX):
        text = clean_text(unescape(_TAG.sub(" ", heading.decode("utf-8", "replace"))))
        if text and len(text) <= HEADING_CHARS_MAX:
            yield text


def _find_headings(source: bytes) -> Iterator[bytes]:
    """Yields what is in headings and messages, none within another. A single pattern for both takes
    five times as long."""
    lowered = source.lower()
    end = 0
    for opening in _OPENING(lowered):
        if opening.start() < end or (opening[1] is None and not _is_message(opening[0])):
            continue
        begin = opening.end()
        closing = _CLOSING[opening[1] or opening[2]](lowered, begin, begin + HEADING_MAX_BYTES)
        if closing is not None:
            end = closing.end()
            yield source[begin : closing.start()]


@lru_cache(maxsize=4096)
def _is_message(tag: bytes) -> bool:
    return any(map(_MARK, _NAMES(tag)))
