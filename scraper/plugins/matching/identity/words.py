"""The words of a title by which offers find each other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

WORDS_MAX = 30
_WORD = re.compile(r"[^\W_]+(?:[-./][^\W_]+)*")
_MODEL = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")


def fold_text(text: str) -> str:
    """Returns a text without case and accents, for comparison."""
    text = unicodedata.normalize("NFKD", text).casefold()
    return "".join(char for char in text if not unicodedata.combining(char))


def split_words(folded: str) -> list[str]:
    """Returns the distinct words of a folded title: each part, and whole model numbers without
    their separators.

    >>> split_words("sony dsc-w120/b 8gb")
    ['sony', 'dscw120b', 'dsc', 'w120', '8gb']
    """
    words: dict[str, None] = {}
    for match in _WORD.finditer(folded):
        whole = match[0]
        parts = re.split(r"[-./]", whole)
        if len(parts) > 1 and _MODEL.match(whole):
            words["".join(parts)[:40]] = None
        for part in parts:
            if len(part) > 1:
                words[part[:40]] = None
    return list(words)[:WORDS_MAX]


def model_words(words: Iterable[str]) -> frozenset[str]:
    """Returns the words with letters and digits that are long enough to be a model number."""
    return frozenset(word for word in words if len(word) >= 4 and _MODEL.match(word))
