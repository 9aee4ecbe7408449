"""Reads and unpacks bodies within bounds: a decompression bomb ends at the limit, not in memory.

Owns the two size limits and the content codings. Does not guess charsets or media types and knows
no URLs: its errors carry outcome and message, and the caller adds the rest.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from xxhash import xxh3_64_intdigest

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http import codings
from scraper.http.held_bodies import SMALL_BYTES
from scraper.infra.optional import import_first

deflate = import_first("deflate")
# ISA-L has the interface of zlib, and takes less than half the time.
zlib = import_first("isal.isal_zlib", "zlib")
WaitForRoom = Callable[[int], Awaitable[None]]

ACCEPT_ENCODING = "gzip, deflate"
# Each gzip member costs a decompressor, and bgzip's 64 KB blocks make 800 of a 50 MB sitemap.
MEMBERS_MAX = 4096
# Each member makes zlib copy what follows: small slices keep many members linear, and their output
# fits into memory that Python already has.
_SLICE_BYTES = 16_384
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_MEMBER = re.compile(rb"\x1f\x8b\x08")
# RFC 1951: a match of 258 bytes takes two bits.
_GZIP_RATIO_MAX = 1032
# Any other name is not a coding: real servers send charsets, media types and words such as "none".
_CODINGS = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate", "br": "br", "zstd": "zstd"}
CODINGS_MAX = 3


async def read_body(
    stream: AsyncIterable[bytes],
    *,
    coding: str = "",
    length: str = "",
    wire_max_bytes: int,
    body_max_bytes: int,
    truncate: bool = False,
    wait_for_room: WaitForRoom | None = None,
) -> bytes:
    """Reads a body to its end and unpacks it.

    `coding` is the Content-Encoding header, `length` the Content-Length. `wait_for_room` is awaited
    with the size of a large body so far, and returns as soon as more may be read.

    Raises FetchError: TOO_LARGE past either limit (with `truncate`, returns the first
    `body_max_bytes` instead), MALFORMED for an unknown coding or a body that does not unpack.
    Errors of the stream pass through.
    """
    if not truncate and length.isdecimal() and int(length) > wire_max_bytes:
        raise _too_large("on the wire", wire_max_bytes, "SCRAPER_WIRE_MAX_BYTES")
    unpacker = make_unpacker(coding, body_max_bytes)
    chunks: list[bytes] = []
    wire = size = 0
    async for chunk in stream:
        wire += len(chunk)
        if wire > wire_max_bytes and not truncate:
            raise _too_large("on the wire", wire_max_bytes, "SCRAPER_WIRE_MAX_BYTES")
        if unpacker is not None:
            chunk = unpacker.feed(chunk)
        chunks.append(chunk)
        size += len(chunk)
        if size > body_max_bytes:
            if truncate:
                break
            raise _too_large("unpacked", body_max_bytes, "SCRAPER_BODY_MAX_BYTES")
        if wire > wire_max_bytes:
            break
        if wait_for_room is not None and size > SMALL_BYTES:
            await wait_for_room(size)
    else:
        if unpacker is not None:
            unpacker.finish()
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    return body[:body_max_bytes] if truncate else body


def unpack(data: bytes, coding: str, max_bytes: int) -> bytes:
    """Unpacks a body that is already in memory, such as a sitemap.xml.gz. Raises FetchError as
    `read_body` does."""
    body = _unpack_single_member(data, max_bytes) if coding == "gzip" and deflate else None
    if body is not None:
        return body
    unpacker = make_unpacker(coding, max_bytes)
    body = data if unpacker is None else unpacker.feed(data)
    if len(body) > max_bytes:
        raise _too_large("unpacked", max_bytes, "SCRAPER_BODY_MAX_BYTES")
    if unpacker is not None:
        unpacker.finish()
    return body


def _unpack_single_member(data: bytes, max_bytes: int) -> bytes | None:
    """Unpacks one gzip member whose last four bytes are its size, as nearly every body is; None for
    any other. libdeflate takes four fifths of the time that a stream takes."""
    size = int.from_bytes(data[-4:], "little")
    if (
        not 0 < size <= min(max_bytes, len(data) * _GZIP_RATIO_MAX)
        or not _GZIP_MEMBER.match(data)
        or _GZIP_MEMBER.search(data, 1)
    ):
        return None
    try:
        body = deflate.gzip_decompress(data, size)
    except deflate.DeflateError:
        return None
    return bytes(body) if len(body) == size else None


def hash_body(packed: bytes, headers: Mapping[str, str]) -> int:
    """Returns a signed 64-bit hash of a packed body and the headers that say how to read it.

    Not a signature: a shop that forges the hash deceives only itself, as with an ETag.
    """
    read_as = f"{headers.get('content-encoding')}\n{headers.get('content-type')}"
    return xxh3_64_intdigest(packed, xxh3_64_intdigest(read_as.encode())) - 2**63


class Unpacker(Protocol):
    def feed(self, data: bytes) -> bytes: ...
    def finish(self) -> None: ...


def make_unpacker(coding: str, max_bytes: int) -> Unpacker | None:
    """Returns the unpacker for a Content-Encoding; None for a body that is not packed, as browsers
    take one whose coding they do not know. Raises FetchError(MALFORMED) for a coding that no
    request asks for."""
    if not coding:
        return None
    names = [name for part in coding.split(",") if (name := part.strip().lower()) in _CODINGS]
    if not names:
        return None
    wanting = [name for name in names if name in ("br", "zstd") and not codings.has_library(name)]
    if wanting or len(names) > CODINGS_MAX:
        raise FetchError(
            Outcome.MALFORMED,
            f"unknown content-encoding {coding[:60]!r} ({ACCEPT_ENCODING} was asked for)",
        )
    unpackers = [_make_single(_CODINGS[name], max_bytes) for name in names]
    return unpackers[0] if len(unpackers) == 1 else _UnpackerChain(unpackers[::-1])


def _make_single(name: str, max_bytes: int) -> Unpacker:
    if name in ("gzip", "deflate"):
        return ZlibUnpacker(name, max_bytes)
    return (codings.BrotliUnpacker if name == "br" else codings.ZstdUnpacker)(max_bytes)


class _UnpackerChain:
    """Unpacks several codings, the last one first (RFC 9110, 8.4)."""

    def __init__(self, unpackers: Sequence[Unpacker]) -> None:
        self._unpackers = unpackers

    def feed(self, data: bytes) -> bytes:
        for unpacker in self._unpackers:
            data = unpacker.feed(data)
        return data

    def finish(self) -> None:
        for unpacker in self._unpackers:
            unpacker.finish()


def _too_large(where: str, limit: int, setting: str) -> FetchError:
    message = f"the body is larger than {limit} bytes {where} (the limit is {setting})"
    return FetchError(Outcome.TOO_LARGE, message)


class ZlibUnpacker:
    """Unpacks gzip (several members, trailing garbage ignored) and deflate (RFC 9110 says zlib;
    many servers send it raw).

    Returns at most `max_bytes` + 1 bytes in all: the caller sees the excess and stops.
    """

    def __init__(self, coding: str, max_bytes: int) -> None:
        self._gzip = coding == "gzip"
        self._budget = max_bytes + 1
        self._head = b""
        self._members = 0
        self._inflate: Any = None
        self._done = False

    def feed(self, data: bytes) -> bytes:
        if len(data) <= _SLICE_BYTES:
            return self._feed_slice(data)
        slices = (data[at : at + _SLICE_BYTES] for at in range(0, len(data), _SLICE_BYTES))
        return b"".join([self._feed_slice(part) for part in slices if self._budget > 0])

    def finish(self) -> None:
        """Raises FetchError(MALFORMED) if the packed data ends early. An empty body is valid."""
        if (self._inflate is not None and not self._done and not self._inflate.eof) or (
            self._head and not self._members
        ):
            raise codings.malformed_body("ends early")

    def _feed_slice(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        while data and self._budget > 0 and not self._done:
            if self._inflate is None or self._inflate.eof:
                data = self._open_member(data)
                if not data:
                    break
            assert self._inflate is not None
            try:
                piece = self._inflate.decompress(data, self._budget)
            except zlib.error as error:
                raise codings.malformed_body(f"does not unpack ({error})") from error
            self._budget -= len(piece)
            pieces.append(piece)
            data = self._inflate.unused_data
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _open_member(self, data: bytes) -> bytes:
        """Opens the next member, which its first two bytes identify, and returns its data."""
        data = self._head + data
        self._head = b""
        if self._members and (not self._gzip or not _GZIP_MAGIC.startswith(data[:2])):
            self._done = True
            return b""
        if len(data) < 2:
            self._head = data
            return b""
        self._members += 1
        if self._members > MEMBERS_MAX:
            raise codings.malformed_body(f"has more than {MEMBERS_MAX} gzip members")
        window_bits = 31 if self._gzip else 15 if _has_zlib_header(data) else -15
        self._inflate = zlib.decompressobj(window_bits)
        return data


def _has_zlib_header(data: bytes) -> bool:
    """Checks RFC 1950 2.2: method 8 in the low bits, and both bytes a multiple of 31."""
    return data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
