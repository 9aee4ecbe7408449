"""The part of a page that people look at when a selector finds nothing: its markup without head,
scripts and styles. Pure, and linear in what it reads, whatever a shop sends."""

from __future__ import annotations

import re
from html import unescape

READ_BYTES = 400_000
# So much of it travels to the transaction, so that a known value can be looked for.
EXCERPT_CHARS = 20_000
SHOWN_CHARS = 800
_NAMES = ("script", "style", "svg", "noscript", "head")
_OPENS = re.compile(r"<(script|style|svg|noscript|head)\b|<!--", re.I)
_TAG = re.compile(r"<[^<>]*>")
_SPACE = re.compile(r"\s+")
_CONTENT = re.compile(r"<(?:main|article|h1)\b", re.I)
_CLOSES = {name: re.compile(rf"</{name}\s*>", re.I) for name in _NAMES}


def make_excerpt(body: bytes) -> str:
    """From its main part (main, article or h1) on, or from its beginning."""
    text = _without_scripts(body[:READ_BYTES].decode("utf-8", "replace"))
    content = _CONTENT.search(text)
    begin = content.start() if content else 0
    return text[begin : begin + EXCERPT_CHARS].replace("\x00", "")


def shorten_excerpt(text: str, known: str | None) -> str:
    """What is stored of an excerpt: the surroundings of a value that the product is known to have,
    or its beginning."""
    at = text.find(known) if known else -1
    begin = max(0, at - SHOWN_CHARS // 2) if at >= 0 else 0
    return text[begin : begin + SHOWN_CHARS]


def is_absent(text: str, known: str) -> bool:
    """Whether a value is certainly in no place of an excerpt: not in its markup, and not in its
    text. False of one that is cut off."""
    if len(text) >= EXCERPT_CHARS or not known.strip():
        return False
    value = _SPACE.sub(" ", known).strip().casefold()
    markup = unescape(text).casefold()
    return value not in markup and value not in _SPACE.sub(" ", _TAG.sub("", markup))


def _without_scripts(text: str) -> str:
    kept, at = [], 0
    while (opened := _OPENS.search(text, at)) is not None:
        kept.append(text[at : opened.start()])
        if opened[1] is None:
            end = text.find("-->", opened.end())
            at = end + 3 if end >= 0 else len(text)
        else:
            closed = _CLOSES[opened[1].lower()].search(text, opened.end())
            at = closed.end() if closed else len(text)
    return _SPACE.sub(" ", "".join([*kept, text[at:]])).strip()
