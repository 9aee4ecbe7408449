"""Which raster image some bytes are, and how large: by their own headers, never by what a shop says
of them. Pure, and decodes nothing. A text such as SVG or HTML never counts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

# Larger ones would cost the reader's browser more than 100 MB.
PIXELS_MAX = 25_000_000
# The segments and boxes that are looked at before the size is known.
STEPS_MAX = 1000
# The markers of a JPEG's frames, which state its size: SOF0 to SOF15 without DHT, JPG and DAC.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers without a length.
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


class NotAPictureError(ValueError):
    """Bytes that no page may show as a picture. The message says why."""


class Raster(NamedTuple):
    """The media type of an image, and its size in pixels."""

    media_type: str
    width: int
    height: int


def identify_raster(body: bytes) -> Raster:
    """Returns what image `body` is. Raises `NotAPictureError` for everything else.

    >>> identify_raster(b"GIF89a" + bytes([2, 0, 3, 0]))
    Raster(media_type='image/gif', width=2, height=3)
    """
    for media_type, is_kind, read_size in KINDS:
        if is_kind(body):
            try:
                width, height = read_size(body)
            except (struct.error, IndexError, StopIteration):
                raise NotAPictureError(f"a broken {media_type}") from None
            if not 0 < width * height <= PIXELS_MAX:
                raise NotAPictureError(f"{width:,} × {height:,} pixels")
            return Raster(media_type, width, height)
    raise NotAPictureError("not a PNG, JPEG, GIF, WebP or AVIF")


def _is_png(body: bytes) -> bool:
    return body.startswith(b"\x89PNG\r\n\x1a\n") and body[12:16] == b"IHDR"


def _read_png(body: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", body, 16)
    return width, height


def _is_gif(body: bytes) -> bool:
    return body[:6] in (b"GIF87a", b"GIF89a")


def _read_gif(body: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", body, 6)
    return width, height


def _is_jpeg(body: bytes) -> bool:
    return body.startswith(b"\xff\xd8\xff")


def _read_jpeg(body: bytes) -> tuple[int, int]:
    """Reads the size of the first frame, whose segment follows others of stated lengths."""
    at = 2
    for _ in range(STEPS_MAX):
        if body[at] != 0xFF:
            raise NotAPictureError("a broken image/jpeg")
        marker = body[at + 1]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", body, at + 5)
            return width, height
        (length,) = struct.unpack_from(">H", body, at + 2)
        at += 2 + max(length, 2)
    raise NotAPictureError("a broken image/jpeg")


def _is_webp(body: bytes) -> bool:
    return body[:4] == b"RIFF" and body[8:12] == b"WEBP"


def _read_webp(body: bytes) -> tuple[int, int]:
    match body[12:16]:
        case b"VP8X":
            canvas = body[24:30]
            if len(canvas) < 6:
                raise IndexError
            return 1 + int.from_bytes(canvas[:3], "little"), 1 + int.from_bytes(
                canvas[3:], "little"
            )
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", body, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", body, 26)
            return width & 0x3FFF, height & 0x3FFF
    raise IndexError


def _is_avif(body: bytes) -> bool:
    (length,) = struct.unpack_from(">I", body.ljust(4, b"\0"))
    brands = body[8 : min(length, 256)]
    return body[4:8] == b"ftyp" and any(brand in brands for brand in (b"avif", b"avis"))


def _read_avif(body: bytes) -> tuple[int, int]:
    """Reads the largest size that the image or one of its tiles states."""
    return max(
        islice(_list_sizes(body), STEPS_MAX), key=lambda size: size[0] * size[1], default=(0, 0)
    )


def _list_sizes(body: bytes) -> Iterator[tuple[int, int]]:
    at = body.find(b"ispe")
    while at >= 0:
        width, height = struct.unpack_from(">II", body, at + 8)
        yield width, height
        at = body.find(b"ispe", at + 4)


Check = Callable[[bytes], bool]
Read = Callable[[bytes], tuple[int, int]]
KINDS: tuple[tuple[str, Check, Read], ...] = (
    ("image/png", _is_png, _read_png),
    ("image/jpeg", _is_jpeg, _read_jpeg),
    ("image/gif", _is_gif, _read_gif),
    ("image/webp", _is_webp, _read_webp),
    ("image/avif", _is_avif, _read_avif),
)
