"""The words by which shops say whether a product is available, from `stock_words.toml`. Pure.

They count anywhere in a short text, because shops write numbers and times around them. Denials are
matched first: "not in stock" contains "in stock". A promise is not a stock: "back in stock soon".
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path

# By language: what each of the keys says, see the head of the file.
_LANGUAGES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)
_DATES, _SINGLE, BUTTONS = (_LANGUAGES.pop(name) for name in ("dates", "single", "buttons"))
TRUE, FALSE = (frozenset(_SINGLE[key].split()) for key in ("true", "false"))
# By language: the phrases for "available", and the phrases for "not available".
WORDS = {
    name: (
        keys["available"],
        ", ".join(keys[key] for key in ("unavailable", "coming") if key in keys),
    )
    for name, keys in _LANGUAGES.items()
}
# Scripts without spaces around words, or whose signs for vowels do not count as letters.
_UNSPACED = re.compile(r"[\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_CLAUSE_END = re.compile(r"[,;|•·!?()\n。、，]|(?<!\d)\.\s|\s[-–—]\s|(?<=stock)\.")
_MONTH = rf"(?:{_DATES['months']})"
_DATE = (
    r"(?:\d{1,2}\.\s?\d{1,2}\.|(?!24/7)\d{1,2}/\d{1,2}\b|\d{4}-\d\d-\d\d|20[2-9]\d\b|\bkw\s?\d"
    rf"|\d{{1,2}}[月월]|\d{{1,2}}(?:st|nd|rd|th|er|\.|º)?\s(?:de\s)?{_MONTH}"
    rf"|{_MONTH}[^\W\d]{{0,8}}\.?\s\d|\b(?:{_DATES['before_month']})[\s-](?:{_DATES['whole_months']}))"
)
_WEEKS = rf"\b(?:{_DATES['before_weeks']})\s\d{{1,2}}(?:\W{{1,3}}\d{{1,2}})?\s(?:{_DATES['weeks']})"


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
    # The 3 in "3 left" means any number except 0.
    spaced = [phrase for phrase in phrases if not _UNSPACED.search(phrase)]
    whole = rf"\b(?:{_any_by_first(spaced)})\b".replace("3", r"[1-9]\d*") if spaced else ""
    unspaced = _any_by_first(phrase for phrase in phrases if _UNSPACED.search(phrase))
    return f"(?:{'|'.join(filter(None, (whole, unspaced)))})"


def _any_by_first(phrases: Iterable[str]) -> str:
    """Returns a pattern that is fast, because it looks at each first letter once."""
    grouped = groupby(sorted(phrases, key=lambda text: (text[0], -len(text))), lambda text: text[0])
    return "|".join(
        f"{first}(?:{'|'.join(re.escape(phrase[1:]) for phrase in group)})"
        for first, group in grouped
    )


def _any_of_all(*names: str) -> str:
    words = (keys[name] for keys in _LANGUAGES.values() for name in names if name in keys)
    return _any_phrase(*words)


_AVAILABLE = _any_of_all("available")
_AFFIRMED = re.compile(_AVAILABLE)
# A number of zero or a "no" next to a phrase, but not a size, a share or a part of another number.
_UNIT = (
    r"(?:units?|pieces?|pcs?|items?|products?|copies|articles?|artikel|stuck|stk|st|exemplar\w*"
    r"|unites?|unidades|unid|uds?|piezas?|pezzi|pz|unita|stuks?|sztuk\w*|szt|ks|kus\w*|db|kpl|adet"
    r"|buc|шт|[件個个点개])\b\.?"
)
_NOT_SIZE = "".join(f"(?<!{word} )" for word in ("size", "grosse", "taille", "talla", "maat", "us"))
_NONE = r"0(?:[.,]0+)?"
# "No. 1" is a number.
_NO = rf"(?:{'|'.join(_SINGLE['denials'].split())})\b(?!\.? ?\d)"
_ZERO = re.compile(
    rf"(?<![\w.,#£€$¥₹-]){_NOT_SIZE}(?:0 ?x? ?(?:{_UNIT} ?)?|{_NONE} ?x? ?{_UNIT} ?){_AVAILABLE}"
    rf"|(?:{_AVAILABLE}|{_any_of_all('counted')})"
    rf"(?: ?[:=：(] ?{_NONE} ?(?:{_UNIT})?| ?{_NONE} ?{_UNIT}| ?[:=：?] ?{_NO})"
    r"(?=$|[);|!]|[,.](?!\d)| [-–—(])"
    # In Dutch and Swedish "nu" is "now".
    r"|\b(?:stoc|disponibil) ?[:=：?] ?nu\b"
)
_DENIED = re.compile(_any_of_all("unavailable"))
_COMING = re.compile(_any_of_all("coming"))
# Without any of these an available product is available now.
_HINT = re.compile(rf"{_any_of_all('not', 'later')}|{_DATE}|{_WEEKS}")
_ALONE = re.compile(rf"\W*{_any_of_all('alone')}\W*").fullmatch


@cache
def _compile_dated() -> re.Pattern[str]:
    """Returns the pattern of what is available at a later date. To compile it takes as long as all
    others of this module, and few pages need it."""
    return re.compile(
        rf"{_AVAILABLE}\W{{1,3}}(?:[^\W\d]{{1,7}}\s){{0,3}}{_DATE}"
        # "Lieferbar" with a number of weeks is how long a delivery takes.
        rf"|{_AVAILABLE}(?<!lieferbar)(?<!leverbaar)\s{_WEEKS}|{_WEEKS}\w*\s(?:\w+\s)?{_AVAILABLE}"
        rf"|{_DATE}[\w']{{0,12}}\W{{0,3}}(?:[^\W\d]{{1,7}}\s){{0,2}}{_AVAILABLE}"
    )


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
    if _ALONE(text):
        return False
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
            later = bool(_COMING.search(clause) or _compile_dated().search(clause)) or any(
                not_now.search(clause) for not_now, _ in languages
            )
            promised |= later
            affirmed |= not later
    return affirmed if affirmed != denied else False if promised and not denied else None
