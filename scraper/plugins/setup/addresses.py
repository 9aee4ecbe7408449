"""The addresses in a text that a person pastes: one a line, a column of a spreadsheet. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scraper.rules import urls

ADDRESSES_MAX = 500
# What a refused line shows of itself.
SHOWN_CHARS = 80
_NAME = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?([/?].*)?|localhost(:\d+)?([/?].*)?").fullmatch


class Pasted(NamedTuple):
    """`refused`: a sentence for each line without a usable address."""

    urls: list[str]
    refused: list[str]


def parse_addresses(text: str, *, private: bool = True) -> Pasted:
    """Returns the addresses, each once, in their order. `private`: whether those in the own network
    are usable.

    >>> parse_addresses("shop.example\\nKettles\\thttps://b.example/all\\tyes")
    Pasted(urls=['https://shop.example/', 'https://b.example/all'], refused=[])
    """
    pasted = Pasted([], [])
    for line in text.splitlines():
        if not line.strip():
            continue
        url = next(_find_addresses(line), None)
        shown = line.strip()[:SHOWN_CHARS]
        if url is None:
            pasted.refused.append(f"{shown!r} has no address such as https://shop.example/all")
        elif not private and urls.is_private(url):
            pasted.refused.append(f"{shown!r} is in your own network (SCRAPER_SETUP_PRIVATE=0)")
        elif url not in pasted.urls:
            pasted.urls.append(url)
    return pasted


def _find_addresses(line: str) -> Iterator[str]:
    """Yields the addresses in the cells of a line."""
    for cell in re.split(r"[\t;, ]+", line):
        word = cell.strip("\"'<>()")
        if not re.match(r"https?://", word, re.IGNORECASE):
            if not _NAME(word):
                continue
            word = f"https://{word}"
        url = urls.clean(word)
        if url is not None:
            yield url
