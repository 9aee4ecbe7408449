"""Decodes a hostile page's bytes to text and to a tree, and makes text storable. Pure, and never
raises.

It chooses the character set as browsers do: byte order mark, HTTP header, <meta> or XML
declaration; else UTF-8 where the body is valid UTF-8, else windows-1252. Labels of latin-1 mean
windows-1252; unknown labels count as missing.
"""

from __future__ import annotations

import re
import tomllib
from codecs import utf_8_decode
from functools import cached_property, lru_cache
from pathlib import Path

from lxml import etree
from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    to_unicode,
)

# A longer Content-Type header is cut.
TYPE_CHARS = 200
# Codes and amounts are shorter.
CODE_MAX = 100
# Byte order marks begin with these.
_BOMS = frozenset((b"\xef", b"\xfe", b"\xff", b"\x00"))
_NUL_OR_SURROGATE = re.compile("[\x00\ud800-\udfff]")
# Soft hyphens, zero-width spaces, marks of direction and the like. Joiners stay between letters,
# which some scripts and emoji join, but not next to ASCII, as in codes and amounts.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff"
    "\uffa0\ufff9-\ufffb]|(?:(?<=[\x01-\x7f])|^)[\u200c\u200d\ufe0f\U000e0020-\U000e007f]+(?!\u20e3)"
    "|[\u200c\u200d]+(?=[\x01-\x7f]|$)"
)
# Those of them that count as printable.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\ufe0f\uffa0")
_UTF8_LABELS = (b"charset=utf-8", b'charset="utf-8"', b"charset='utf-8'")
_PIECE_BYTES = 16_384
_LABEL = re.compile(r"((?:charset|encoding)\s*=\s*[\"']?\s*)([\w:-]+)", re.IGNORECASE).sub
_NAMES = {
    label: name
    for name, labels in tomllib.loads(
        Path(__file__).with_name("charset_labels.toml").read_text("utf-8")
    ).items()
    for label in labels.split()
}
# Browsers also obey a <meta> that they meet while they parse.
HEAD_BYTES, LATE_BYTES = 4096, 262_144
_NOT_TEXT_CODECS = frozenset(
    {
        *("hex", "base64", "bz2", "zlib", "rot-13", "quopri", "uu", "unicode_escape", "punycode"),
        *("raw-unicode-escape", "unicode-escape", "idna", "undefined"),
    }
)


class Decoded:
    """A page's text. Selectors read `utf8`. `raw` is the same, except for a page that declares
    UTF-8 wrongly: there it is the body as it came. Checking a large page for that takes a tenth of
    the time of reading it, so `utf8` does it when first used. `query_encoding`: that of the queries
    of its links, where it is not UTF-8."""

    def __init__(
        self,
        raw: bytes,
        label: str | None = None,
        *,
        checked: bool = True,
        query_encoding: str | None = None,
    ) -> None:
        self.raw = raw
        self._label = label
        self._checked = checked
        self.query_encoding = query_encoding

    @cached_property
    def utf8(self) -> bytes:
        if self._checked or _is_utf8(self.raw):
            return self.raw
        # A label in a comment does not count.
        encoding = self._label or _read_declaration(self.raw[:HEAD_BYTES])
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
        utf8 = Decoded(body, checked=False).utf8
        return Decoded(utf8, query_encoding=None if utf8 is body else "cp1252")
    unfit = encoding.startswith("utf") or encoding in _NOT_TEXT_CODECS
    query_encoding = None if unfit else encoding
    return Decoded(_convert_to_utf8(body, encoding), query_encoding=query_encoding)


@lru_cache(maxsize=256)
def _header_encoding(content_type: str) -> str | None:
    encoding: str | None = http_content_type_encoding(_LABEL(_name_label, content_type))
    return encoding


def _name_label(match: re.Match[str]) -> str:
    return "".join(match[1].split()) + _NAMES.get(match[2].lower(), match[2])


def _read_declaration(head: bytes) -> str | None:
    encoding: str | None = html_body_declared_encoding(_LABEL(_name_label, head.decode("latin-1")))
    return encoding


def _find_late_meta(body: bytes) -> bytes:
    """Returns a <meta> with a character set behind the first bytes of the page, or nothing."""
    late = body[HEAD_BYTES - 100 : LATE_BYTES].lower()
    at = late.find(b"charset")
    while at >= 0:
        start = late.rfind(b"<", 0, at)
        if late.startswith(b"<meta", start):
            return late[start : at + 100]
        at = late.find(b"charset", at + 7)
    return b""


def _declared_encoding(body: bytes) -> str | None:
    head = body[:HEAD_BYTES]
    small = head.lower()
    first = small.find(b"charset")
    # Most pages have this label and no other. It may be in a comment: UTF-8 is tried first anyway.
    if (
        small.startswith(_UTF8_LABELS, first)
        and b"charset" not in small[first + 7 :]
        and b"encoding=" not in small
    ):
        return "utf-8"
    encoding = None
    if first >= 0 or b"encoding" in small:
        encoding = _read_declaration(head)
    if encoding is None and len(body) > HEAD_BYTES:
        encoding = _read_declaration(_find_late_meta(body))
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
    """Returns the text without NUL and lone surrogates, which PostgreSQL and UTF-8 reject, without
    characters that people do not see, and with white space collapsed."""
    clean = " ".join(text.split())
    if clean.isascii():
        return " ".join(clean.replace("\x00", "").split()) if "\x00" in clean else clean
    if clean.isprintable() and (len(clean) > CODE_MAX or _BLANK.isdisjoint(clean)):
        return clean
    return " ".join(_UNSEEN.sub("", make_storable(clean)).split())


def make_storable(text: str) -> str:
    if "\x00" not in text:
        try:
            # Encoding is many times faster than searching for surrogates, which are very rare.
            text.encode("utf-8")
            return text
        except UnicodeEncodeError:
            pass
    return _NUL_OR_SURROGATE.sub("", text)
