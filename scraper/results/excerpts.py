"""Excerpts: the part of a page that people look at if a selector finds nothing, its markup without
head, scripts and styles. Pure, and linear in its input, whatever a shop sends."""

from __future__ import annotations

import re
from html import unescape

READ_BYTES = 400_000
# This much reaches the transaction, which looks for the known value in it.
EXCERPT_CHARS = 20_000
SHOWN_CHARS = 800
_NAMES = (b"script", b"style", b"svg", b"noscript", b"head")
_OPENS = re.compile(rb"<(?=[shn!])(?:(script|style|svg|noscript|head)\b|!--)", re.I)
_TAG = re.compile(r"<[^<>]*>")
_SPACE = re.compile(r"\s+")
_CONTENT = re.compile(rb"<(?:main|article|h1)\b", re.I)
_CLOSES = {name: re.compile(rb"</%b\s*>" % name, re.I) for name in _NAMES}


def make_excerpt(body: bytes) -> str:
    """Returns the markup from the main part (main, article or h1) on, or from the beginning."""
    markup = _without_scripts(body[:READ_BYTES])
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


def is_absent(excerpt: str, value: str) -> bool:
    """Returns True if a value is certainly absent from an excerpt's markup and text. Nothing is
    certain of an excerpt that was cut off."""
    wanted = _SPACE.sub(" ", value).strip().casefold()
    if len(excerpt) >= EXCERPT_CHARS or not wanted:
        return False
    markup = unescape(excerpt).casefold()
    return wanted not in markup and wanted not in _SPACE.sub(" ", _TAG.sub("", markup))


def _without_scripts(markup: bytes) -> bytes:
    kept, at = [], 0
    while (opened := _OPENS.search(markup, at)) is not None:
        kept.append(markup[at : opened.start()])
        if opened[1] is None:
            end = markup.find(b"-->", opened.end())
            at = end + 3 if end >= 0 else len(markup)
        else:
            closed = _CLOSES[opened[1].lower()].search(markup, opened.end())
            at = closed.end() if closed else len(markup)
    return b"".join([*kept, markup[at:]])
