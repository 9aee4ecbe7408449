"""The number of products that a listing page or an interface's answer states. Pure.

Only texts that count the list are read: a range ("1-15 of 71"), or a sentence that is a count
alone ("71 products"). An advertisement ("over 10,000 products in stock") is neither.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

from scraper.extract.adapter import read_stated_total

TEXT_MAX_BYTES = 2_000_000
COUNT_MAX = 10_000_000
_N = r"(\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3})+|\d{1,8})"
_OF = r"(?:of|von|sur|de|di|van|av|af|z|ze|из|aus|/)"
_TO = r"(?:-|–|—|to|bis|à|a|al|tot|til|do|till)"
_RANGE = re.compile(rf"(?<![\d.,]){_N}\s*{_TO}\s*{_N}\s*\(?\s*{_OF}\s*{_N}(?![\d.,]*\d)", re.I)
_GOODS = (
    r"(?:products?|items?|item\(s\)|product\(s\)|articles?|results?|produkte?|artikel|ergebnisse"
    r"|treffer|produits?|résultats?|productos?|artículos?|resultados?|produtos?|artigos"
    r"|prodott[io]|articol[io]|risultat[io]|producten|artikelen|resultaten|produkter|varor|varer"
    r"|artiklar|tuotetta|produktów|produkty|wyników|produktů|termék|товар(?:ов|а)?)"
)
_LEAD = (
    r"(?:showing(?: all)?|there (?:are|is)|all|total:?|found|alle|insgesamt|es wurden|il y a|hay"
    r"|ci sono|affichage de|mostrando|visualizzati|toont alle)"
)
_TAIL = r"(?:found|gefunden|trouvés?|encontrad[oa]s|trovat[io]|gevonden|in total|insgesamt|total)"
_WHOLE = re.compile(rf"\(?(?:{_LEAD}\s+)?{_N}\s+{_GOODS}(?:\s+{_TAIL})?\)?[.:]?", re.I)
_UNSEEN = re.compile(
    r"<(script|style|template|noscript)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.I | re.S
)
_INLINE = re.compile(r"</?(?:b|i|em|strong|span|bdi|small|a|u|var|data|font)\b[^>]*(?:>|\Z)", re.I)
_TAG = re.compile(r"<[^>]*(?:>|\Z)")
_TOTAL = re.compile(rb'"(?:total_count|totalCount|total_products)"\s*:\s*(\d{1,8})')
_PAGE_PAIR = re.compile(
    r"(?:p|pg|page|paged|pageno|page_?number|seite|pagina|página|sida|side|strana|start|offset"
    r"|from|skip)=\d+",
    re.I,
)
_PAGE_PART = re.compile(
    r"(?:[-_/](?:page|seite|pagina|sida|side|strana|p)[-_/=]?|_s)\d+(?=/?$|\.\w+$)", re.I
)
_NUMBER_PART = re.compile(r"/\d+/?$")


def read_stated_count(body: bytes) -> int | None:
    """Returns the number of products that a listing page counts: the largest of its ranges, or a
    count alone; None if it counts nothing, or counts twice."""
    text = _UNSEEN.sub(" ", body[:TEXT_MAX_BYTES].decode("utf-8", "replace"))
    lines = html.unescape(_TAG.sub("\n", _INLINE.sub("", text))).split("\n")
    ranges, wholes = set(), set()
    for line in filter(None, map(str.strip, lines)):
        if len(line) > 200 or not any(map(str.isdigit, line)):
            continue
        match = _RANGE.search(line)
        if match is not None:
            first, last, count = map(_parse_count, match.groups())
            if first <= last <= count:
                ranges.add(count)
        elif (whole := _WHOLE.fullmatch(line)) is not None:
            wholes.add(_parse_count(whole[1]))
    counts = ranges or wholes
    return counts.pop() if len(counts) == 1 else None


def read_interface_count(headers: dict[str, str], body: bytes) -> int | None:
    """Returns the number of products that a platform's interface states."""
    stated = read_stated_total(headers)
    if stated is not None:
        return stated
    match = _TOTAL.search(body)
    return int(match[1]) if match is not None else None


def name_list(url: str) -> str:
    """Returns a list's URL without the number of its page."""
    parts = urlsplit(url)
    pairs = [pair for pair in parts.query.split("&") if pair and not _PAGE_PAIR.fullmatch(pair)]
    path = _PAGE_PART.sub("", parts.path)
    return urlunsplit((parts.scheme, parts.netloc, path, "&".join(pairs), ""))


def name_shorter_lists(url: str) -> Iterator[str]:
    """Yields a list's URL without one parameter that may belong to its pages, such as `?s=2` or
    `?sort=3d`, or without `/2` at the end."""
    parts = urlsplit(url)
    pairs = parts.query.split("&") if parts.query else []
    for at in range(len(pairs)):
        yield urlunsplit(parts._replace(query="&".join(pairs[:at] + pairs[at + 1 :])))
    path = _NUMBER_PART.sub("", parts.path)
    if path != parts.path:
        yield urlunsplit(parts._replace(path=path))
        yield urlunsplit(parts._replace(path=f"{path}/"))


def _parse_count(text: str) -> int:
    return min(COUNT_MAX, int(re.sub(r"\D", "", text)))
