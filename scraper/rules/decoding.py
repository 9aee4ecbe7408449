"""Decodes a hostile page's bytes to text and to a tree, and makes text storable. Pure, and never
raises.

It chooses the character set as browsers do: byte order mark, HTTP header, <meta> or XML
declaration; else UTF-8 where the body is valid UTF-8, else windows-1252. Labels of latin-1 mean
windows-1252; unknown labels count as missing.
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

# A longer Content-Type header is cut.
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
    """A page's text. Selectors read `utf8`. `raw` is the same, except for a page that declares
    UTF-8 wrongly: there it is the body as it came. Checking a large page for that takes a tenth of
    the time of reading it, so `utf8` does it when first used."""

    def __init__(self, raw: bytes, label: str | None = None, *, checked: bool = True) -> None:
        self.raw = raw
        self._label = label
        self._checked = checked

    @cached_property
    def utf8(self) -> bytes:
        if self._checked or _is_utf8(self.raw):
            return self.raw
        # A label in a comment does not count.
        encoding = self._label or html_body_declared_encoding(self.raw[:4096])
        return _convert_to_utf8(self.raw, encoding)

    @cached_property
    def text(self) -> str:
        return self.utf8.decode("utf-8")


def decode_page(body: bytes, content_type: str | None) -> Decoded:
    encoding, bom = read_bom(body) if body[:1] in _BOMS else (None, None)
    if encoding is not None and bom is not None:
        return Decoded(_convert_to_utf8(body[len(bom) :], encoding))
    header_encoding = _header_encoding(content_type[:TYPE_CHARS]) if content_type else None
    encoding = header_encoding or _declared_encoding(body)
    if encoding == "utf-8":
        return Decoded(body, header_encoding, checked=False)
    if encoding is None:
        return Decoded(Decoded(body, checked=False).utf8)
    return Decoded(_convert_to_utf8(body, encoding))


@lru_cache(maxsize=256)
def _header_encoding(content_type: str) -> str | None:
    encoding: str | None = http_content_type_encoding(content_type)
    return encoding


def _declared_encoding(body: bytes) -> str | None:
    head = body[:4096]
    small = head.lower()
    first = small.find(b"charset")
    # Most pages have this label and no other. It may be in a comment: UTF-8 is tried first anyway.
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
    """Returns whether the body is valid UTF-8. It is decoded in pieces: a text as large as the page
    takes ten times as long, mostly for memory that the system has to clear first."""
    at, end = 0, len(body)
    try:
        while at < end:
            piece = body[at : at + _PIECE_BYTES]
            # A character that continues in the next piece is decoded there.
            at += (
                len(piece)
                if piece.isascii()
                else utf_8_decode(piece, "strict", at + len(piece) == end)[1]
            )
    except UnicodeDecodeError:
        return False
    return True


def _convert_to_utf8(body: bytes, encoding: str | None) -> bytes:
    return _decode_text(body, encoding or "cp1252").encode("utf-8", "replace")


def _decode_text(body: bytes, encoding: str) -> str:
    if encoding not in _NOT_TEXT_CODECS:
        try:
            return to_unicode(body, encoding)
        except (LookupError, ValueError, TypeError, AttributeError):
            # Python's codecs include some that are not character sets.
            pass
    return body.decode("cp1252", "replace")


def parse_html(utf8: bytes) -> etree._Element:
    """Returns the root element of any bytes. lxml stops at 2,048 levels of nesting, browsers at
    512."""
    if b"\x00" in utf8:
        utf8 = utf8.replace(b"\x00", b"")
    # A parser for each page costs 0.4 µs, and lets threads parse concurrently; ids are looked up in
    # the tree anyway.
    parser = etree.HTMLParser(encoding="utf-8", recover=True, no_network=True, huge_tree=True)
    try:
        root = etree.fromstring(utf8, parser)
    except (etree.XMLSyntaxError, ValueError):
        root = None
    return root if root is not None else etree.fromstring(b"<html/>", etree.HTMLParser())


def clean_text(text: str) -> str:
    """Returns the text without NUL and lone surrogates, which PostgreSQL and UTF-8 reject, and with
    white space collapsed."""
    plain = text.isascii() and "\x00" not in text
    return " ".join((text if plain else make_storable(text)).split())


def make_storable(text: str) -> str:
    if "\x00" not in text:
        try:
            # Encoding is many times faster than searching for surrogates, which are very rare.
            text.encode("utf-8")
            return text
        except UnicodeEncodeError:
            pass
    return _NUL_OR_SURROGATE.sub("", text)
