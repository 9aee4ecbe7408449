"""Bytes of a hostile page to text and to a tree; text to something that can be stored. Pure, and
never raises.

The character set, as browsers choose it: byte order mark, HTTP header, <meta> or XML declaration;
else UTF-8 where the body is valid UTF-8, else windows-1252. Labels of latin-1 mean windows-1252;
unknown ones count as missing.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from functools import cached_property, lru_cache

from lxml import etree
from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    to_unicode,
)

# What is longer in a Content-Type header says nothing more.
TYPE_CHARS = 200
# Byte order marks begin with these.
_BOMS = frozenset((b"\xef", b"\xfe", b"\xff", b"\x00"))
_NUL_OR_SURROGATE = re.compile("[\x00\ud800-\udfff]")
_UTF8_LABELS = (b"charset=utf-8", b'charset="utf-8"', b"charset='utf-8'")
_PIECE_BYTES = 16_384
_NOT_TEXT_CODECS = frozenset(
    {
        *("hex", "base64", "bz2", "zlib", "rot13", "quopri", "uu", "unicode_escape", "punycode"),
        *("raw-unicode-escape", "unicode-escape", "idna", "undefined"),
    }
)


class Decoded:
    """A page's text. `utf8` is what selectors see. `raw` is the same but for a page that says it is
    UTF-8 and is not: there it has what came. To look through a large page for that takes a tenth
    of the time that reading it takes, so it is done when `utf8` is asked for."""

    def __init__(self, raw: bytes, label: str | None = None, *, checked: bool = True) -> None:
        self.raw = raw
        self._label = label
        self._checked = checked

    @cached_property
    def utf8(self) -> bytes:
        if self._checked or _is_utf8(self.raw):
            return self.raw
        # A label in a comment is none.
        encoding = self._label or html_body_declared_encoding(self.raw[:4096])
        return _converted(self.raw, encoding)

    @cached_property
    def text(self) -> str:
        return self.utf8.decode("utf-8")


def decode_page(body: bytes, content_type: str | None) -> Decoded:
    encoding, bom = read_bom(body) if body[:1] in _BOMS else (None, None)
    if encoding is not None and bom is not None:
        return Decoded(_converted(body[len(bom) :], encoding))
    of_header = _of_header(content_type[:TYPE_CHARS]) if content_type else None
    encoding = of_header or _declared(body)
    if encoding == "utf-8":
        return Decoded(body, of_header, checked=False)
    if encoding is None:
        return Decoded(Decoded(body, checked=False).utf8)
    return Decoded(_converted(body, encoding))


@lru_cache(maxsize=256)
def _of_header(content_type: str) -> str | None:
    encoding: str | None = http_content_type_encoding(content_type)
    return encoding


def _declared(body: bytes) -> str | None:
    head = body[:4096]
    small = head.lower()
    first = small.find(b"charset")
    # What most pages say, and no other label in sight. In a comment or not: UTF-8 is what is tried
    # first anyway.
    if (
        small.startswith(_UTF8_LABELS, first)
        and b"charset" not in small[first + 7 :]
        and b"encoding=" not in small
    ):
        return "utf-8"
    if first < 0 and b"encoding" not in small:
        return None
    encoding = html_body_declared_encoding(head)
    # A <meta> that was read as ASCII cannot be UTF-16 (WHATWG HTML, "prescan a byte stream").
    return (
        "utf-8" if encoding is not None and encoding.startswith(("utf-16", "utf-32")) else encoding
    )


def _is_utf8(body: bytes) -> bool:
    """Piece by piece: a text as large as the page takes ten times as long, most of it for memory
    that the system has to clear first."""
    at, end = 0, len(body)
    try:
        while at < end:
            piece = body[at : at + _PIECE_BYTES]
            # A character that goes on in the next piece is read there.
            at += (
                len(piece)
                if piece.isascii()
                else utf_8_decode(piece, "strict", at + len(piece) == end)[1]
            )
    except UnicodeDecodeError:
        return False
    return True


def _converted(body: bytes, encoding: str | None) -> bytes:
    return _to_text(body, encoding or "cp1252").encode("utf-8", "replace")


def _to_text(body: bytes, encoding: str) -> str:
    if encoding not in _NOT_TEXT_CODECS:
        try:
            return to_unicode(body, encoding)
        except (LookupError, ValueError, TypeError, AttributeError):
            # These codecs of Python's are no character sets.
            pass
    return body.decode("cp1252", "replace")


def parse_html(utf8: bytes) -> etree._Element:
    """The root element; of anything at all. lxml stops at 2,048 levels of nesting, where browsers
    stop at 512."""
    if b"\x00" in utf8:
        utf8 = utf8.replace(b"\x00", b"")
    # A parser a page costs 0.4 us and lets threads parse side by side; ids are looked up in the
    # tree anyway.
    parser = etree.HTMLParser(encoding="utf-8", recover=True, no_network=True, huge_tree=True)
    try:
        root = etree.fromstring(utf8, parser)
    except (etree.XMLSyntaxError, ValueError):
        root = None
    return root if root is not None else etree.fromstring(b"<html/>", etree.HTMLParser())


def clean_text(text: str) -> str:
    """Without NUL and lone surrogates, which PostgreSQL and UTF-8 refuse; whitespace of all kinds
    collapsed."""
    plain = text.isascii() and "\x00" not in text
    return " ".join((text if plain else make_storable(text)).split())


def make_storable(text: str) -> str:
    if "\x00" not in text:
        try:
            # It is many times faster than looking for surrogates, which are next to never there.
            text.encode("utf-8")
            return text
        except UnicodeEncodeError:
            pass
    return _NUL_OR_SURROGATE.sub("", text)
