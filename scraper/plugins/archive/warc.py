"""Writes and reads the WARC 1.1 records (ISO 28500) of a segment.

A segment is a file that any WARC reader opens: a `warcinfo` record, then a `response` record for
each page, followed by a `metadata` record if the page's browser captured JSON answers. Each record
is a gzip member or zstd frame of its own (IIPC's "Zstandard Compression for WARC Files 1.0": one
record a frame, no dictionary), so that its offset and length suffice to read it alone.

A record holds the answer as it was extracted, after its content coding was undone. `Content-Length`
is the body's, and `Content-Encoding` and other headers about the transfer are left out. Cookies are
never stored, and neither are `request` records, which would contain identities and logins.

warcio writes and reads uncompressed records; this module compresses them, since warcio supports
neither zstd (webrecorder/warcio#118) nor gzip levels below 9. gzip is the default because every
tool reads it; zstd takes half the CPU for large pages, and the same space.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http.client import responses
from io import BytesIO
from typing import Any, Literal
from urllib.parse import quote

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from scraper.infra.optional import zstd

Codec = Literal["gzip", "zstd"]
SUFFIXES: Mapping[Codec, str] = {"gzip": ".warc.gz", "zstd": ".warc.zst"}
GZIP_LEVEL = 6
ZSTD_LEVEL = 3
# This is zstd's default: a frame that needs more memory was not written here.
ZSTD_WINDOW_LOG_MAX = 27
HEADERS_MAX, HEADER_CHARS = 100, 4000
# A record has at most this many bytes in addition to its body.
HEAD_MAX = 1_000_000
# This header holds the page's own URL if another URL answered.
PAGE_URL = "WARC-Scraper-Page-URL"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}").fullmatch  # RFC 9110, 5.1
# These headers describe the transfer, not the stored answer.
_DROPPED = frozenset(
    {
        "content-encoding",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "trailer",
        "set-cookie",
    }
)


class RecordError(Exception):
    """A record that is cut off, altered, or another page's."""


@dataclass(frozen=True, slots=True)
class ArchivedResponse:
    """A page's answer in the archive. `url` is the URL that answered, `page_url` the page's own;
    `at` is UTC by the worker's clock; header names are in lower case."""

    url: str
    page_url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    at: datetime
    captured: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)


def make_warcinfo(name: str, codec: Codec) -> bytes:
    """Returns the first record of the segment with that file name."""
    writer, buffer = _make_writer()
    about = {
        "software": "scraper",
        "format": "WARC File Format 1.1",
        "conformsTo": "https://iipc.github.io/warc-specifications/specifications/"
        "warc-format/warc-1.1/",
        "description": "answers of pages, their content coding undone; no cookies, no requests",
    }
    writer.write_record(writer.create_warcinfo_record(name, about))
    return _compress(buffer.getvalue(), codec)


def make_response(answer: ArchivedResponse, codec: Codec) -> bytes:
    """Returns the record of one answer."""
    size = len(answer.body)
    phrase = responses.get(answer.status, "Unknown")
    head = [*_kept_headers(answer.headers), ("content-length", str(size))]
    about = {"WARC-Date": answer.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    if answer.page_url != answer.url:
        about[PAGE_URL] = _one_line(answer.page_url)
    writer, buffer = _make_writer()
    record = writer.create_warc_record(
        _one_line(answer.url),
        "response",
        payload=BytesIO(answer.body),
        length=size,
        http_headers=StatusAndHeaders(f"{answer.status} {phrase}", head, protocol="HTTP/1.1"),
        warc_headers_dict=about,
    )
    writer.write_record(record)
    return _compress(buffer.getvalue(), codec)


def pack_captured(captured: Mapping[str, tuple[bytes, ...]]) -> bytes:
    """Returns captured answers as a JSON object, name -> texts; b"" for none."""
    if not captured:
        return b""
    texts = {
        name: [body.decode("utf-8", "replace") for body in bodies]
        for name, bodies in captured.items()
    }
    return json.dumps(texts, ensure_ascii=False).encode("utf-8", "replace")


def make_captured(answer: ArchivedResponse, packed: bytes, codec: Codec) -> bytes:
    """Returns the record of an answer's captured JSON, which `pack_captured` has packed."""
    writer, buffer = _make_writer()
    record = writer.create_warc_record(
        _one_line(answer.url),
        "metadata",
        payload=BytesIO(packed),
        length=len(packed),
        warc_content_type="application/json",
        warc_headers_dict={"WARC-Date": answer.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
    )
    writer.write_record(record)
    return _compress(buffer.getvalue(), codec)


def read_captured(data: bytes, codec: Codec, max_bytes: int) -> dict[str, tuple[bytes, ...]]:
    """Reads the captured answers of a record, unpacking at most `max_bytes`. Raises
    `RecordError`."""
    plain = _decompress(data, codec, max_bytes + HEAD_MAX)
    try:
        record = next(iter(ArchiveIterator(BytesIO(plain), check_digests="raise")), None)
        if record is None or record.rec_type != "metadata":
            raise RecordError("no record of captured answers")
        texts = json.loads(record.content_stream().read())
        return {
            str(name): tuple(text.encode("utf-8", "replace") for text in bodies)
            for name, bodies in texts.items()
        }
    except (ArchiveLoadFailed, ValueError, TypeError, AttributeError, EOFError) as error:
        raise RecordError(
            f"not a record of captured answers ({str(error)[:200] or type(error).__name__})"
        ) from error


def read_response(data: bytes, codec: Codec, body_max_bytes: int) -> ArchivedResponse:
    """Reads the answer of one record, unpacking at most the allowed body size, and checks its
    digests. Raises `RecordError`."""
    plain = _decompress(data, codec, body_max_bytes + HEAD_MAX)
    try:
        record = next(iter(ArchiveIterator(BytesIO(plain), check_digests="raise")), None)
        if record is None or record.rec_type != "response" or record.http_headers is None:
            raise RecordError("no response record")
        body = record.raw_stream.read()
        while more := record.raw_stream.read():
            body += more
        about, head = record.rec_headers, record.http_headers
        if len(body) != int(head.get_header("content-length", "-1")):
            raise RecordError("the body is cut off")
        url = about.get_header("WARC-Target-URI")
        return ArchivedResponse(
            url=url,
            page_url=about.get_header(PAGE_URL) or url,
            status=int(head.get_statuscode()),
            headers={name.lower(): value for name, value in head.headers},
            body=body,
            at=datetime.fromisoformat(about.get_header("WARC-Date")),
        )
    except (ArchiveLoadFailed, ValueError, TypeError, AttributeError, EOFError) as error:
        raise RecordError(
            f"not a WARC record as it was written ({str(error)[:200] or type(error).__name__})"
        ) from error


def _kept_headers(headers: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    allowed = [
        (name, value)
        for name, value in headers.items()
        if _TOKEN(name) and name.lower() not in _DROPPED
    ]
    return [
        (name, _to_ascii(_one_line(value[:HEADER_CHARS]))) for name, value in allowed[:HEADERS_MAX]
    ]


def _to_ascii(text: str) -> str:
    """Percent-encodes what is not ASCII. (warcio does so too, but fails at parameter names.)"""
    return (
        text
        if text.isascii()
        else "".join(char if char.isascii() else quote(char, errors="replace") for char in text)
    )


def _one_line(text: str) -> str:
    """Returns the text on one line, so that a shop's value cannot add a header to the record."""
    return "".join(char if char.isprintable() else " " for char in text).strip()


def _make_writer() -> tuple[Any, BytesIO]:
    buffer = BytesIO()
    return WARCWriter(buffer, gzip=False, warc_version="1.1"), buffer


def _compress(plain: bytes, codec: Codec) -> bytes:
    if codec == "gzip":
        return zlib.compress(plain, GZIP_LEVEL, wbits=31)
    parameter = zstd.CompressionParameter
    packed: bytes = zstd.compress(
        plain, options={parameter.compression_level: ZSTD_LEVEL, parameter.checksum_flag: 1}
    )
    return packed


def _decompress(data: bytes, codec: Codec, max_bytes: int) -> bytes:
    """Unpacks exactly one gzip member or zstd frame."""
    if codec == "gzip":
        inflate: Any = zlib.decompressobj(wbits=31)
        failed: type[Exception] = zlib.error
    else:
        inflate = zstd.ZstdDecompressor(
            options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX}
        )
        failed = zstd.ZstdError
    try:
        plain: bytes = inflate.decompress(data, max_bytes)
    except (failed, EOFError) as error:
        raise RecordError(f"it does not unpack ({error})") from error
    if len(plain) >= max_bytes and not inflate.eof:
        raise RecordError("it unpacks to more than it may")
    if not inflate.eof:
        raise RecordError("it is cut off")
    if inflate.unused_data:
        raise RecordError("more than one record")
    return plain
