"""The page "Search" of the Crawls tab: the products of all shops by GTIN, article number, id, or
words of their names. PostgreSQL's index of words answers, and a table is never read through."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scraper.feed.prices import CURRENCY, as_number, format_amount, stock_field, title_of
from scraper.infra.statements import sql
from scraper.results.products import parse_data

TITLE = "Search"
SCRIPT = Path(__file__).with_name("search.js")
ANSWERS = Path(__file__).with_name("answers.json")
ACTIONS: Mapping[str, Callable[..., str]] = {}
LIMIT = 50
# A person who has seen as many pages adds a word.
PAGES_MAX = 40
WORDS_MAX = 8
WORD_CHARS = 60
# A shorter word is found only whole: too many words begin with its letters.
PREFIX_MIN = 3
FIND = sa.text(sql("plugins/flower/search/found_products.sql"))
# Few products have a rare word, and the planner takes a common one for rare, or the reverse.
# Rows come in the order of the table, so that pages follow each other: by a bitmap of the index,
# and without parallel workers.
USE_INDEX = sa.text(
    "SELECT set_config('enable_seqscan', 'off', true), "
    "set_config('enable_indexscan', 'off', true), "
    "set_config('max_parallel_workers_per_gather', '0', true)"
)
_DROPPED = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_AROUND = "\"'.,;:!?()[]{}<>*&|"


def read(connection: sa.Connection, query: Mapping[str, str]) -> dict[str, Any]:
    """Answers `?q=TEXT&page=NUMBER` with products that have all words of the text, on each page
    those on sale first."""
    asked = query.get("page", "1")
    number = int(asked) if re.fullmatch("[0-9]{1,4}", asked) else 1
    number = min(max(number, 1), PAGES_MAX)
    now = connection.execute(sa.text("SELECT now()")).scalar_one()
    words = split_words(query.get("q", ""))
    if not words:
        return {"now": now, "products": [], "words": [], "page": 1, "more": False}
    connection.execute(USE_INDEX)
    values = {
        "codes": make_query(words, with_codes=True),
        "words": make_query(words, with_codes=False),
    }
    rows = connection.execute(
        FIND, {**values, "most": LIMIT + 1, "after": (number - 1) * LIMIT}
    ).all()
    return {
        "now": now,
        "words": words,
        "products": [_describe_product(row) for row in rows if row.place <= number * LIMIT],
        "page": number,
        "more": len(rows) > LIMIT and number < PAGES_MAX,
    }


def split_words(text: str) -> list[str]:
    """Returns the words to look for, without signs around them.

    >>> split_words('Kettle, (AB-12/3) "1.7 l"')
    ['kettle', 'ab-12/3', '1.7', 'l']
    """
    folded = fold_accents(_DROPPED.sub(" ", text))
    words = (word.strip(_AROUND)[:WORD_CHARS] for word in folded.split())
    return list(dict.fromkeys(word for word in words if word))[:WORDS_MAX]


def fold_accents(text: str) -> str:
    """Returns a text in small letters without accents, as the index has it.

    >>> fold_accents("Größe Café ﬁ")
    'grosse cafe fi'
    """
    letters = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text))
    return letters.lower().replace("ß", "ss")


def make_query(words: list[str], *, with_codes: bool) -> str:
    """Returns the condition that all words, or longer ones, are there. `with_codes`: also a GTIN
    with other zeros before it.

    >>> make_query(["it's", "l"], with_codes=True)
    "'it''s':* & 'l'"
    >>> make_query(["04006381333931"], with_codes=True)
    "('04006381333931':* | '4006381333931')"
    """
    return " & ".join(_make_term(word, with_codes=with_codes) for word in words)


def _make_term(word: str, *, with_codes: bool) -> str:
    quoted = _quote_word(word) + (":*" if len(word) >= PREFIX_MIN else "")
    digits = word.lstrip("0")
    if with_codes and digits != word and digits.isdecimal():
        return f"({quoted} | {_quote_word(digits)})"
    return quoted


def _quote_word(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _describe_product(row: sa.Row[Any]) -> dict[str, Any]:
    data = parse_data(row.data)
    stock, price = stock_field(data), as_number(data.get("price"))
    currency = data.get(f"price{CURRENCY}")
    return {
        "site": row.site,
        "id": row.id,
        "title": title_of(data),
        "price": None if price is None else format_amount(price, currency),
        "stock": None if stock is None else bool(data[stock]),
        "gtin": data.get("gtin"),
        "url": row.url,
        "changed_at": row.changed_at,
        "delisted_at": row.delisted_at,
    }
