"""Reading and unpacking bodies within bounds."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http.body import MEMBERS_MAX, make_unpacker, read_body, unpack

MB = 1_000_000


async def stream(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def read(
    chunks: list[bytes], coding: str = "", *, wire: int = MB, body: int = MB, truncate: bool = False
) -> bytes:
    return asyncio.run(
        read_body(
            stream(chunks),
            coding=coding,
            wire_max_bytes=wire,
            body_max_bytes=body,
            truncate=truncate,
        )
    )


def outcome(chunks: list[bytes], coding: str = "", *, wire: int = MB, body: int = MB) -> Outcome:
    with pytest.raises(FetchError) as caught:
        read(chunks, coding, wire=wire, body=body)
    return caught.value.outcome


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def packed(data: bytes, how: str) -> tuple[str, bytes]:
    match how:
        case "gzip" | "x-gzip" | "GZIP":
            return how, gzip.compress(data)
        case "deflate":
            return how, zlib.compress(data)
        case "raw":
            return "deflate", raw_deflate(data)
        case _:
            return how, data


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@given(
    st.binary(max_size=5000),
    st.sampled_from(["gzip", "x-gzip", "GZIP", "deflate", "raw", "identity", "", "utf-8"]),
    st.integers(1, 6000),
)
def test_every_coding_comes_back_however_it_is_cut(data: bytes, how: str, size: int) -> None:
    coding, wire = packed(data, how)
    assert read(cut(wire, size), coding) == data


@given(st.binary(max_size=3000), st.sampled_from(["gzip", "deflate", ""]), st.integers(1, 500))
def test_garbage_never_raises_anything_else(data: bytes, coding: str, size: int) -> None:
    try:
        read(cut(data, size), coding)
    except FetchError as error:
        assert error.outcome is Outcome.MALFORMED


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_members_follow_each_other_and_garbage_is_ignored(size: int) -> None:
    wire = (
        gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two") + b"\0\0\0 padding \x1f"
    )
    assert read(cut(wire, size), "gzip") == b"one two"


@pytest.mark.parametrize("how", ["gzip", "deflate", "raw"])
@pytest.mark.parametrize("size", [1, 1000])
def test_a_truncated_body_is_malformed(how: str, size: int) -> None:
    coding, wire = packed(b"packed " * 500, how)
    assert outcome(cut(wire[:-3], size), coding) is Outcome.MALFORMED
    assert outcome([wire[:1]], coding) is Outcome.MALFORMED


def test_an_empty_body_is_empty_in_any_coding() -> None:
    assert read([], "gzip") == read([b""], "deflate") == read([], "") == b""


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip, br", "gzip, " * 9])
def test_codings_that_were_not_requested_are_malformed(coding: str) -> None:
    assert outcome([b"data"], coding) is Outcome.MALFORMED


def test_limits_are_exact() -> None:
    assert len(read([b"x" * 600, b"x" * 400], wire=1000, body=1000)) == 1000
    assert outcome([b"x" * 600, b"x" * 401], wire=1000) is Outcome.TOO_LARGE
    assert outcome([b"x" * 1001], body=1000) is Outcome.TOO_LARGE
    wire = gzip.compress(b"x" * 1000)
    assert len(read([wire], "gzip", body=1000)) == 1000
    assert outcome([gzip.compress(b"x" * 1001)], "gzip", body=1000) is Outcome.TOO_LARGE
    assert outcome([wire], "gzip", wire=len(wire) - 1) is Outcome.TOO_LARGE


def test_a_length_over_the_limit_is_not_even_read() -> None:
    with pytest.raises(FetchError, match="1000 bytes on the wire"):
        asyncio.run(read_body(stream([]), length="1001", wire_max_bytes=1000, body_max_bytes=1000))


def test_errors_name_the_limit_and_its_setting() -> None:
    with pytest.raises(FetchError, match="1000 bytes on the wire .*SCRAPER_WIRE_MAX_BYTES"):
        read([b"x" * 1001], wire=1000)
    with pytest.raises(FetchError, match="1000 bytes unpacked .*SCRAPER_BODY_MAX_BYTES"):
        read([gzip.compress(b"x" * 5000)], "gzip", body=1000)


@pytest.mark.parametrize("how", ["gzip", "deflate", "raw"])
def test_a_bomb_stops_at_the_limit(how: str) -> None:
    coding, wire = packed(bytes(50 * MB), how)
    assert outcome([wire], coding) is Outcome.TOO_LARGE
    assert outcome(cut(wire, 1000), coding) is Outcome.TOO_LARGE


def test_a_bomb_of_members_stops() -> None:
    assert outcome([gzip.compress(b"") * (MEMBERS_MAX + 1)], "gzip") is Outcome.MALFORMED
    assert outcome([gzip.compress(bytes(100_000)) * 20], "gzip") is Outcome.TOO_LARGE


def test_truncate_gives_the_start() -> None:
    assert read([b"abc", b"def"], body=4, truncate=True) == b"abcd"
    assert read([b"abc", b"def"], wire=2, body=4, truncate=True) == b"abc"
    assert read([gzip.compress(b"abcdef")], "gzip", body=4, truncate=True) == b"abcd"


def test_unpack_is_the_same_for_bytes_at_hand() -> None:
    assert unpack(gzip.compress(b"<urlset/>"), "gzip", 100) == b"<urlset/>"
    assert unpack(b"plain", "", 100) == b"plain"
    with pytest.raises(FetchError):
        unpack(gzip.compress(bytes(101)), "gzip", 100)


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=300).map(gzip.compress),
            st.sampled_from([b"", b"\0", b"\x1f", b"\x1f\x8b\x08", b"\x05\0\0\0", b"abc"]),
        ),
        min_size=1,
        max_size=3,
    ).map(b"".join),
    st.integers(0, 8),
    st.integers(-1, 400),
)
def test_bytes_at_hand_unpack_as_a_stream_of_them_does(wire: bytes, less: int, flip: int) -> None:
    """Two members whose sizes are equal, a trailer that is cut, garbage that looks like a size."""
    wire = wire[: len(wire) - less]
    if 0 <= flip < len(wire):
        wire = wire[:flip] + bytes([wire[flip] ^ 1]) + wire[flip + 1 :]
    try:
        streamed: bytes | Outcome = read([wire], "gzip", body=400)
    except FetchError as error:
        streamed = error.outcome
    try:
        assert unpack(wire, "gzip", 400) == streamed
    except FetchError as error:
        assert error.outcome == streamed


def test_two_members_that_are_alike_are_two() -> None:
    assert unpack(gzip.compress(b"one") * 2, "gzip", 100) == b"oneone"


@pytest.mark.parametrize("coding", ["br64", "text/plain", "charset=utf-8", "gzipped", ",", "x-php"])
def test_an_unknown_name_is_not_a_coding_as_in_browsers(coding: str) -> None:
    assert make_unpacker(coding, 100) is None
    assert unpack(gzip.compress(b"packed"), f"{coding}, gzip", 100) == b"packed"


def test_several_codings_are_undone_from_the_last_to_the_first() -> None:
    twice = gzip.compress(gzip.compress(b"packed " * 100))
    assert unpack(twice, "gzip, x-gzip", 1000) == b"packed " * 100
    mixed = gzip.compress(zlib.compress(b"packed " * 100))
    assert unpack(mixed, "Deflate,GZIP", 1000) == b"packed " * 100
    with pytest.raises(FetchError, match="ends early"):
        unpack(gzip.compress(zlib.compress(b"packed " * 100)[:-5]), "deflate, gzip", 1000)
    bomb = gzip.compress(gzip.compress(bytes(5_000_000)))
    with pytest.raises(FetchError, match="larger than 10000 bytes"):
        unpack(bomb, "gzip, gzip", 10_000)
    with pytest.raises(FetchError, match="unknown content-encoding"):
        make_unpacker(", ".join(["gzip"] * 9), 100)
