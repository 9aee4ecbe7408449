"""The words by which shops say whether a product is available, from `stock_words.toml`. Pure.

They count anywhere in a short text, because shops write numbers and times around them. Denials are
matched first: "not in stock" contains "in stock". A promise is not a stock: "back in stock soon".
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import lru_cache
from pathlib import Path

# By language: what each of the keys says, see the head of the file.
_LANGUAGES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)
# By language: the phrases for "available", and the phrases for "not available".
WORDS = {
    name: (
        keys["available"],
        ", ".join(keys[key] for key in ("unavailable", "coming") if key in keys),
    )
    for name, keys in _LANGUAGES.items()
}
# Scripts that do not write spaces around words.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_CLAUSE_END = re.compile(r"[,;|•·!?()\n。、，]|(?<!\d)\.\s|\s[-–—]\s|(?<=stock)\.")
_MONTH = (
    r"(?:jan|ene|gen|sty|led|feb|fev|lut|uno|mar|brez|apr|avr|abr|kwi|dub|mai|may|mag|maj|kve|jun"
    r"|juin|giu|cze|jul|juil|lug|lip|cerv|aug|aou|ago|sie|srp|sep|set|wrz|zari|oct|okt|ott|out|paz"
    r"|rij|nov|lis|dec|dez|dic|gru|pros|янв|фев|мар|апр|ма[йя]|июн|июл|авг|сен|окт|ноя|дек)"
)
_DATE = (
    r"(?:\d{1,2}\.\s?\d{1,2}\.|\d{1,2}/\d{1,2}\b|\d{4}-\d\d-\d\d|20[2-9]\d\b|\bkw\s?\d|\d{1,2}月"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|\.|º)?\s(?:de\s)?{_MONTH}|{_MONTH}[^\W\d]{{0,8}}\.?\s\d"
    r"|\b(?:in|im|en|em)\s(?:janu|janv|enero|febr|fevr|marz|march|mars\b|april|avril|abril|mai\b"
    r"|may\b|mayo|juni\b|june|juin|juli\b|july|juil|julio|august\b|aout|agosto|sept|okto|octo"
    r"|outub|novem|noviem|dezem|decem|dicie))"
)


def fold_text(text: str) -> str:
    """Returns the text in lower case and without accents, which shops often leave out."""
    text = text.casefold()
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFD", text.replace("ı", "i").replace("\u2019", "'"))
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))


def _any_phrase(*lists: str) -> str:
    """Returns a pattern that matches any phrase of the lists, the longest first."""
    phrases = {fold_text(phrase) for words in lists for phrase in words.split(", ")}
    by_length = sorted(phrases, key=len, reverse=True)
    # The 3 in "3 left" means any number except 0.
    spaced = [
        re.escape(phrase).replace("3", r"[1-9]\d*")
        for phrase in by_length
        if not _UNSPACED.search(phrase)
    ]
    unspaced = [phrase for phrase in by_length if _UNSPACED.search(phrase)]
    whole = rf"\b(?:{'|'.join(spaced)})\b" if spaced else ""
    return f"(?:{'|'.join(filter(None, (whole, *unspaced)))})"


def _any_of_all(*names: str) -> str:
    words = (keys[name] for keys in _LANGUAGES.values() for name in names if name in keys)
    return _any_phrase(*words)


_AVAILABLE = _any_of_all("available")
_AFFIRMED = re.compile(_AVAILABLE)
# A number of zero next to a phrase, but not a size, a share or a part of another number.
_UNIT = (
    r"(?:units?|pieces?|pcs?|items?|products?|copies|articles?|artikel|stuck|stk|st|exemplar\w*"
    r"|unites?|unidades|unid|uds?|piezas?|pezzi|pz|unita|stuks?|sztuk\w*|szt|ks|kus\w*|db|kpl|adet"
    r"|buc|шт|[件個个点개])\b\.?"
)
_NOT_SIZE = "".join(f"(?<!{word} )" for word in ("size", "grosse", "taille", "talla", "maat", "us"))
_ZERO = re.compile(
    rf"(?<![\w.,#-]){_NOT_SIZE}0 ?x? ?(?:{_UNIT} ?)?{_AVAILABLE}"
    rf"|(?:{_AVAILABLE}|{_any_of_all('counted')})(?: ?[:=：(] ?0 ?(?:{_UNIT})?| ?0 ?{_UNIT})"
    r"(?=$|[);|!]|[,.](?!\d)| [-–—(])"
)
_DENIED = re.compile(_any_of_all("unavailable"))
_COMING = re.compile(_any_of_all("coming"))
_DATED = re.compile(
    rf"{_AVAILABLE}\W{{1,3}}(?:[^\W\d]{{1,7}}\s){{0,3}}{_DATE}"
    rf"|{_DATE}\W{{0,3}}(?:[^\W\d]{{1,7}}\s){{0,2}}{_AVAILABLE}"
)
# Without any of these an available product is available now.
_HINT = re.compile(rf"{_any_of_all('not', 'later')}|{_DATE}")


@lru_cache(maxsize=64)
def _compile_language(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Returns the patterns of a denial or a promise, and of what is almost sold out."""
    keys = {key: _any_phrase(words) for key, words in _LANGUAGES[name].items()}
    spaced = _UNSPACED.search(_LANGUAGES[name]["available"]) is None
    between = r"\W(?:[\w']+\s){0,2}" if spaced else r"\s?"
    now, later = keys["available"], keys["later"]
    return (
        re.compile(rf"{keys['not']}(?! que\b|-){between}{now}|{later}.*{now}|{now}.*{later}"),
        re.compile(rf"{keys['almost']}\s?{keys['unavailable']}"),
    )


@lru_cache(maxsize=1024)
def parse_availability(text: str) -> bool | None:
    """Returns what a text says; None if it says neither or both."""
    text, zeros = _ZERO.subn(",", fold_text(text))
    if not zeros and _DENIED.search(text) is None and _COMING.search(text) is None:
        if _AFFIRMED.search(text) is None:
            return None
        if _HINT.search(text) is None:
            return True
    languages = [_compile_language(name) for name in _LANGUAGES]
    affirmed, denied, promised = False, zeros > 0, False
    for _, almost in languages:
        text, times = almost.subn(" ", text)
        affirmed |= times > 0
    for clause in _CLAUSE_END.split(text):
        rest, denials = _DENIED.subn(" ", clause)
        denied |= denials > 0
        promised |= _COMING.search(clause) is not None
        if _AFFIRMED.search(rest):
            later = bool(_COMING.search(clause) or _DATED.search(clause)) or any(
                not_now.search(clause) for not_now, _ in languages
            )
            promised |= later
            affirmed |= not later
    return affirmed if affirmed != denied else False if promised and not denied else None
