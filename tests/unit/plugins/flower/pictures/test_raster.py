"""What counts as a picture: by the bytes' own headers, with a size that a browser can hold."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.plugins.demo.pictures import draw_picture
from scraper.plugins.flower.pictures.raster import (
    KINDS,
    NotAPictureError,
    Raster,
    identify_raster,
)

FRAME = b"\xff\xc0\0\x11\x08\0\x14\0\x1e"


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)


def webp(chunk: bytes, data: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + chunk + b"\0\0\0\0" + data


def avif(*sizes: tuple[int, int], brand: bytes = b"avif") -> bytes:
    boxes = b"".join(b"\0\0\0\x14ispe\0\0\0\0" + struct.pack(">II", *size) for size in sizes)
    return b"\0\0\0\x14ftypmif1\0\0\0\0" + brand + boxes


GOOD = {
    "image/png": png(30, 20),
    "image/gif": b"GIF89a" + struct.pack("<HH", 30, 20),
    # A comment that contains another frame's marker comes first, then bytes that fill.
    "image/jpeg": b"\xff\xd8\xff\xfe\0\x0c" + FRAME + b"\0\xff\xff" + FRAME,
    "image/webp": webp(b"VP8X", b"\0\0\0\0" + b"\x1d\0\0" + b"\x13\0\0"),
    "image/avif": avif((10, 10), (30, 20)),
}


@pytest.mark.parametrize("media_type", GOOD)
def test_each_kind_is_known_by_its_bytes(media_type: str) -> None:
    assert identify_raster(GOOD[media_type]) == Raster(media_type, 30, 20)


def test_the_other_forms_of_webp_and_avif() -> None:
    lossless = struct.pack("<I", 29 | 19 << 14)
    assert identify_raster(webp(b"VP8L", b"\x2f" + lossless))[1:] == (30, 20)
    lossy = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 30, 20 | 0xC000)
    assert identify_raster(webp(b"VP8 ", lossy))[1:] == (30, 20)
    assert identify_raster(avif((30, 20), brand=b"avis")).media_type == "image/avif"


def test_the_sample_shops_pictures_are_pictures() -> None:
    assert identify_raster(draw_picture("7.jpg")) == Raster("image/png", 96, 96)
    assert draw_picture("7.jpg") != draw_picture("8.jpg")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<?xml version='1.0'?><svg/>",
        b"<!doctype html><script>alert(1)</script>",
        b"  GIF89a" + struct.pack("<HH", 3, 3),
        b"GIF89a=1/*",
        b"%PDF-1.7",
        b"BM" + bytes(60),
        avif((10, 10), brand=b"heic"),
        png(0, 20),
        png(100_000, 100_000),
        avif((10, 10), (90_000, 90_000)),
        b"\xff\xd8\xff" + b"\xff" * 2_000_000,
        b"\xff\xd8" + b"\xff\xd9" * 1_000_000,
        b"\xff\xd8" + b"\xff\xe0\0\0" * 500_000,
        b"\xff\xd8\xff\xe0\xff\xff",
        webp(b"ANIM", bytes(40)),
    ],
)
def test_nothing_else_is_a_picture(body: bytes) -> None:
    with pytest.raises(NotAPictureError):
        identify_raster(body)


@given(st.sampled_from([*GOOD.values(), b""]), st.binary(max_size=80), st.integers(0, 60))
def test_any_bytes_are_a_picture_or_refused(good: bytes, tail: bytes, cut: int) -> None:
    try:
        raster = identify_raster(good[:cut] + tail)
    except NotAPictureError as error:
        assert str(error)
    else:
        assert raster.media_type in {kind for kind, *_ in KINDS}
        assert raster.width > 0 < raster.height
