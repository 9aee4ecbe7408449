"""Excerpts: the part of a page that people look at if a selector finds nothing, its markup without
head, scripts and styles. Pure, and linear in its input, whatever a shop sends."""

from __future__ import annotations

import re
from html import unescape

from scraper.rules.decoding import clean_text

READ_BYTES = 400_000
# This much reaches the transaction, which looks for the known value in it.
EXCERPT_CHARS = 20_000
SHOWN_CHARS = 800
_OPENS = re.compile(rb"<(?:(script|style|svg|noscript|head)(?=[\s/>]|\Z)|!--)", re.I)
_CLOSES = {
    b"script": re.compile(rb"</script\s*>", re.I),
    b"style": re.compile(rb"</style\s*>", re.I),
    b"svg": re.compile(rb"</svg\s*>|(?<=<svg)[^<>]*/>", re.I),
    b"noscript": re.compile(rb"</noscript\s*>", re.I),
    # The tags of a head may be left out.
    b"head": re.compile(rb"</head\s*>|(?=<body\b)", re.I),
    b"": re.compile(rb"-->"),
}
# Browsers take the rest of a page for these if they are not closed.
_HIDE_THE_REST = (b"script", b"style", b"")
_TAG = re.compile(r"<[^<>]*>")
_CONTENT = re.compile(rb"<(?:main|article|h1)\b", re.I)


def make_excerpt(utf8: bytes) -> str:
    """Returns the markup from the main part (main, article or h1) on, or from the beginning."""
    markup = _without_scripts(utf8[:READ_BYTES])
    content = _CONTENT.search(markup)
    begin = content.start() if content else 0
    excerpt = ""
    end = begin
    size = EXCERPT_CHARS
    while len(excerpt) <= EXCERPT_CHARS and end < len(markup):
        size *= 2
        end = begin + size
        # A regular expression takes ten times as long.
        excerpt = " ".join(markup[begin:end].decode("utf-8", "replace").split())
    return excerpt[:EXCERPT_CHARS].replace("\x00", "")


def shorten_excerpt(text: str, known: str | None) -> str:
    """Returns the part of an excerpt that is stored: the surroundings of the product's known value,
    or the beginning."""
    at = text.find(known) if known else -1
    begin = max(0, at - SHOWN_CHARS // 2) if at >= 0 else 0
    return text[begin : begin + SHOWN_CHARS]


def is_absent(excerpt: str, value: str, *, cut: bool) -> bool:
    """Returns True if a value is certainly absent from an excerpt's markup and text. Nothing is
    certain of an excerpt that was cut off, or of one of a page that was (`cut`)."""
    wanted = _fold_text(value)
    if cut or len(excerpt) >= EXCERPT_CHARS or not wanted:
        return False
    markup = unescape(excerpt)
    return wanted not in _fold_text(markup) and wanted not in _fold_text(_TAG.sub("", markup))


def _fold_text(text: str) -> str:
    # Whether a tag separates words depends on styles.
    return clean_text(text).replace(" ", "").casefold()


def _without_scripts(markup: bytes) -> bytes:
    kept, at = [], 0
    # A search for their ends would find none either.
    unclosed: set[bytes] = set()
    while (opened := _OPENS.search(markup, at)) is not None:
        name = (opened[1] or b"").lower()
        closed = None if name in unclosed else _CLOSES[name].search(markup, opened.end())
        if closed is not None or name in _HIDE_THE_REST:
            kept.append(markup[at : opened.start()])
            at = closed.end() if closed else len(markup)
        else:
            unclosed.add(name)
            kept.append(markup[at : opened.end()])
            at = opened.end()
    return b"".join([*kept, markup[at:]])
