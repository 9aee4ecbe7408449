"""WARC records: written, read back, read by others, and everything that may be wrong with one."""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from scraper.infra.optional import zstd
from scraper.plugins.archive import warc
from scraper.plugins.archive.warc import ArchivedResponse, Codec, RecordError

AT = datetime(2026, 11, 20, 18, 30, 1, 250000, tzinfo=UTC)
ANSWER = ArchivedResponse(
    "https://shop.example/p/1?a=ü",
    "https://shop.example/old/1",
    200,
    {
        "content-type": "text/html; charset=utf-8",
        "content-encoding": "br",
        "content-length": "17",
        "transfer-encoding": "chunked",
        "set-cookie": "who=me",
        "etag": '"abc"',
    },
    "<h1>Stuhl – größer</h1>".encode(),
    AT,
)
CODECS = pytest.mark.parametrize("codec", ["gzip", "zstd"])


def plain(data: bytes, codec: Codec) -> bytes:
    return zlib.decompress(data, 31) if codec == "gzip" else zstd.decompress(data)


@CODECS
def test_what_is_written_is_read(codec: Codec) -> None:
    found = warc.read_response(warc.make_response(ANSWER, codec), codec, len(ANSWER.body))
    size = str(len(ANSWER.body))
    assert found == replace(
        ANSWER,
        headers={
            "content-type": "text/html; charset=utf-8",
            "etag": '"abc"',
            "content-length": size,
        },
    )


@CODECS
def test_warcio_reads_a_segment_and_agrees_with_its_digests(codec: Codec) -> None:
    segment = plain(warc.make_warcinfo("x.warc", codec), codec) + plain(
        warc.make_response(ANSWER, codec), codec
    )
    info, response = [
        (record.rec_type, record.rec_headers, record.content_stream().read())
        for record in ArchiveIterator(BytesIO(segment), check_digests="raise")
    ]
    assert info[0] == "warcinfo" and b"format: WARC File Format 1.1\r\n" in info[2]
    kind, about, body = response
    assert (kind, body) == ("response", ANSWER.body)
    assert about.get_header("WARC-Target-URI") == ANSWER.url
    assert about.get_header("WARC-Date") == "2026-11-20T18:30:01.250000Z"
    assert about.get_header("WARC-Payload-Digest").startswith("sha1:")
    assert about.get_header("WARC-Record-ID").startswith("<urn:uuid:")
    assert about.protocol == "WARC/1.1"


def test_a_zstd_record_is_one_frame_with_its_size_and_a_checksum() -> None:
    """As IIPC's "Zstandard Compression for WARC Files" wants it; the frame's header is that of RFC
    8878, 3.1.1.1."""
    data = warc.make_response(ANSWER, "zstd")
    assert data[:4] == bytes.fromhex("28b52ffd")
    assert data[4] & 0b100, "a checksum of the content"
    assert data[4] >> 6 or data[4] & 0b100000, "the content's size"
    assert data[4] & 0b11 == 0, "no dictionary"


@CODECS
def test_a_record_that_is_not_what_was_written_is_reported(codec: Codec) -> None:
    good, size = warc.make_response(ANSWER, codec), len(ANSWER.body)
    for bad, why in {
        good[:-4]: "cut off",
        good + b"x": "more than one record",
        good + good: "more than one record",
        b"": "cut off",
        b"<html>": "does not unpack",
        good[:40] + bytes([good[40] ^ 1]) + good[41:]: ".",
        warc.make_warcinfo("x", codec): "no response record",
    }.items():
        with pytest.raises(RecordError, match=why):
            warc.read_response(bad, codec, size)


def test_an_altered_body_does_not_pass_for_the_one_that_was_written() -> None:
    altered = zlib.compress(
        zlib.decompress(warc.make_response(ANSWER, "gzip"), 31).replace(b"Stuhl", b"Tisch"),
        wbits=31,
    )
    with pytest.raises(RecordError, match="digest"):
        warc.read_response(altered, "gzip", len(ANSWER.body))


@CODECS
def test_a_bomb_is_not_unpacked(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = warc.make_response(replace(ANSWER, body=bytes(30_000_000)), codec)
    assert len(bomb) < 100_000
    asked: list[int] = []
    unpack = warc._decompress
    monkeypatch.setattr(
        warc,
        "_decompress",
        lambda data, codec, most: asked.append(most) or unpack(data, codec, most),
    )
    with pytest.raises(RecordError, match="unpacks to more than it may"):
        warc.read_response(bomb, codec, 1000)
    assert asked == [1000 + warc.HEAD_MAX]


@example(headers={"0": ";\xa1=0"}, url="", body=b"", status=100)
@given(
    headers=st.dictionaries(st.text(max_size=30), st.text(max_size=200), max_size=8),
    url=st.text(max_size=100),
    body=st.binary(max_size=300),
    status=st.integers(100, 999),
)
def test_nothing_that_a_shop_sends_breaks_a_record(
    headers: dict[str, str], url: str, body: bytes, status: int
) -> None:
    answer = ArchivedResponse(
        f"https://shop.example/{url}", "https://shop.example/", status, headers, body, AT
    )
    found = warc.read_response(warc.make_response(answer, "gzip"), "gzip", len(body))
    assert (found.status, found.body, found.at) == (status, body, AT)
    known = {name.lower() for name in headers} | {"content-length"}
    assert {name.lower() for name in found.headers} <= known, "no header becomes two"


def test_headers_are_bounded() -> None:
    headers = {f"x-{number}": "y" * 10_000 for number in range(500)}
    found = warc.read_response(
        warc.make_response(replace(ANSWER, headers=headers), "gzip"), "gzip", 1000
    )
    assert len(found.headers) == warc.HEADERS_MAX + 1
    assert max(len(value) for value in found.headers.values()) == warc.HEADER_CHARS
