"""The sample shop's pictures: a coloured parcel for each product, drawn without a library."""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

SIDE = 96
PAPER = b"\xf4\xf1\xea"


@lru_cache(maxsize=1024)
def draw_picture(name: str) -> bytes:
    """Returns a PNG whose colour follows from the name."""
    shade = zlib.crc32(name.encode())
    box = bytes(64 + (shade >> shift & 0x7F) for shift in (0, 8, 16))
    tape = bytes(value // 2 for value in box)
    rows = b"".join(
        b"\0" + b"".join(_choose_colour(x, y, box, tape) for x in range(SIDE)) for y in range(SIDE)
    )
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_write_chunk(*chunk) for chunk in chunks)


def _choose_colour(x: int, y: int, box: bytes, tape: bytes) -> bytes:
    if not (16 <= x < 80 and 24 <= y < 80):
        return PAPER
    return tape if 42 <= x < 54 or y < 34 else box


def _write_chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
