"""An HTTP/2 host that sends frames without end and never answers: the page fails in time, memory
stays, and the event loop comes back."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import psutil
import pytest

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http.fetcher import HttpFetcher
from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.plugins.impersonate.handshake import CurlHandshake
from tests.support.fetching import POLICY
from tests.support.machine import everyday
from tests.support.servers.hostile_server import self_signed

GROWTH_MAX_BYTES = 100_000_000
IMPATIENT = replace(POLICY, read_timeout_s=1.0, page_timeout_s=5.0)
# A machine with much else to do may take seconds to send the first frames.
PATIENT = replace(POLICY, read_timeout_s=20.0, page_timeout_s=25.0)
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_HEADERS, PADDED, ACK = 4, 8, 1
# HPACK: `:status: 200`, `:status: 103` and a header `a: b` that is not indexed.
STATUS_200, STATUS_103, HEADER = b"\x88", b"\x08\x03103", b"\x00\x01a\x01b"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = len(payload).to_bytes(3, "big")
    return size + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


# What comes once, what comes again and again after it, and what the page's failure is.
FLOODS = {
    "pings": (b"", frame(PING, 0, 0, bytes(8)), Outcome.MALFORMED),
    "settings": (b"", frame(SETTINGS, 0, 0), Outcome.MALFORMED),
    "windows": (b"", frame(WINDOW, 0, 0, b"\x00\x00\x00\x01"), Outcome.TIMEOUT),
    "continuations": (
        frame(HEADERS, 0, 1, STATUS_200),
        frame(CONTINUATION, 0, 1, HEADER * 100),
        Outcome.MALFORMED,
    ),
    "empty-continuations": (
        frame(HEADERS, 0, 1, STATUS_200),
        frame(CONTINUATION, 0, 1),
        Outcome.MALFORMED,
    ),
    "empty-data": (
        frame(HEADERS, END_HEADERS, 1, STATUS_200),
        frame(DATA, 0, 1),
        Outcome.TIMEOUT,
    ),
    "interim": (b"", frame(HEADERS, END_HEADERS, 1, STATUS_103 + HEADER), Outcome.MALFORMED),
    "pushes": (
        b"",
        frame(PUSH, END_HEADERS, 1, b"\x00\x00\x00\x02" + STATUS_200),
        Outcome.UNREACHABLE,
    ),
    # The library itself would not return to the loop before the host stops.
    "goaways": (b"", frame(GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes(4)), Outcome.MALFORMED),
    "unknown": (b"", frame(77, 0, 1, bytes(1000)), Outcome.TIMEOUT),
    "resets": (b"", frame(RESET, 0, 1, b"\x00\x00\x00\x08"), Outcome.UNREACHABLE),
    # A refused stream may be requested again.
    "refusals": (b"", frame(RESET, 0, 1, b"\x00\x00\x00\x07"), Outcome.UNREACHABLE),
    "priorities": (
        frame(HEADERS, END_HEADERS, 1, STATUS_200),
        frame(PRIORITY, 0, 1, b"\x00\x00\x00\x03\x10"),
        Outcome.TIMEOUT,
    ),
    "large-settings": (
        b"",
        frame(SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff" * 2000),
        Outcome.MALFORMED,
    ),
    "table-sizes": (
        b"",
        frame(SETTINGS, 0, 0, b"\x00\x01" + bytes(4))
        + frame(SETTINGS, 0, 0, b"\x00\x01\x00\x01\x00\x00"),
        Outcome.MALFORMED,
    ),
    "trailers": (
        frame(HEADERS, END_HEADERS, 1, STATUS_200),
        frame(HEADERS, END_HEADERS, 1, HEADER),
        Outcome.UNREACHABLE,
    ),
    "padding": (
        frame(HEADERS, END_HEADERS, 1, STATUS_200),
        frame(DATA, PADDED, 1, b"\xff" + bytes(255)),
        Outcome.TIMEOUT,
    ),
    # One header of 3,968 bytes is stored in HPACK's table, and named by a byte each time.
    "named-headers": (
        frame(HEADERS, 0, 1, STATUS_200 + b"\x40\x01a\x7f\x81\x1e" + b"x" * 3968),
        frame(CONTINUATION, 0, 1, b"\xbe" * 16_000),
        Outcome.MALFORMED,
    ),
}


@contextmanager
def flooding(tls: ssl.SSLContext, first: bytes, then: bytes) -> Iterator[int]:
    """Serves from threads of its own, and reads no answer to what it sends. Yields the port."""
    tls.set_alpn_protocols(["h2"])
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(plain: socket.socket) -> None:
        with suppress(OSError), tls.wrap_socket(plain, server_side=True) as connection:
            connection.sendall(frame(SETTINGS, 0, 0))
            received = b""
            while HEADERS not in kinds_of(received):
                more = connection.recv(65_536)
                if not more:
                    return
                received += more
            connection.sendall(frame(SETTINGS, ACK, 0) + first)
            while True:
                connection.sendall(then * 500)

    def accept() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listener.accept()
                threading.Thread(target=serve, args=(plain,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def kinds_of(received: bytes) -> list[int]:
    """The kinds of the frames after the preface of 24 bytes."""
    kinds, at = [], 24
    while at + 9 <= len(received):
        kinds.append(received[at + 3])
        at += 9 + int.from_bytes(received[at : at + 3], "big")
    return kinds


@pytest.mark.parametrize(
    ("name", "browser"),
    everyday(
        product(FLOODS, (None, "chrome")),
        *product(("pings", "empty-continuations", "goaways"), (None, "chrome")),
        ("resets", None),
        ("unknown", "chrome"),
        ("trailers", "chrome"),
    ),
)
def test_a_flood_of_frames_ends_its_page_alone(
    name: str, browser: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    first, then, outcome = FLOODS[name]
    patience = IMPATIENT if outcome is Outcome.TIMEOUT else PATIENT
    policy = replace(patience, handshake=CurlHandshake(browser))

    async def run(port: int) -> FetchError:
        fetcher = HttpFetcher(PoolOptions())
        try:
            async with asyncio.timeout(30):
                with pytest.raises(FetchError) as caught:
                    await fetcher.fetch(f"https://127.0.0.1:{port}/", policy)
                return caught.value
        finally:
            await fetcher.aclose()

    before = psutil.Process().memory_info().rss
    with flooding(tls, first, then) as port:
        error = asyncio.run(run(port))
    assert error.outcome is outcome, str(error)
    assert psutil.Process().memory_info().rss - before < GROWTH_MAX_BYTES
