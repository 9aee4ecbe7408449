"""An HTTP/2 server on 127.0.0.1 that notes what a client shows of itself, and misbehaves by path;
with a recorder of TLS hellos in front.

`async with H2Server(context) as server` gives `server.url("/path")`. `requests` holds each
request's header pairs in their order, `settings` each connection's first SETTINGS, `hellos` the
first bytes of each connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from contextlib import suppress
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from h2.errors import ErrorCodes

from tests.support.servers.hostile_server import BIG, make_bomb


class H2Server:
    """With `alpn` `http/1.1` alone it is what a host without HTTP/2 is, and answers nothing."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self.requests: list[list[tuple[str, str]]] = []
        self.settings: list[dict[int, int]] = []
        self.hellos: list[bytes] = []
        self.connections = 0

    async def __aenter__(self) -> Self:
        self._tls.set_alpn_protocols(["h2"])
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.stopped = asyncio.Event()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self._behind = int(self._server.sockets[0].getsockname()[1])
        self._front = await asyncio.start_server(self._record, "127.0.0.1", 0)
        self.port = int(self._front.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stopped.set()
        self._front.close()
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"https://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [dict(pairs)[":path"] for pairs in self.requests]

    def _mine(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _record(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._mine()
        self._writers.append(writer)
        with suppress(OSError, EOFError, asyncio.CancelledError):
            there, back = await asyncio.open_connection("127.0.0.1", self._behind)
            self._writers.append(back)
            head = await reader.readexactly(5)
            hello = head + await reader.readexactly(int.from_bytes(head[3:5], "big"))
            self.hellos.append(hello)
            back.write(hello)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._mine()
        self._writers.append(writer)
        self.connections += 1
        peer = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="latin-1")
        )
        peer.initiate_connection()
        writer.write(peer.data_to_send())
        with suppress(OSError, EOFError, asyncio.CancelledError, h2.exceptions.ProtocolError):
            first = True
            while data := await reader.read(65_536):
                for event in peer.receive_data(data):
                    if isinstance(event, h2.events.RemoteSettingsChanged) and first:
                        first = False
                        changed = event.changed_settings.items()
                        self.settings.append({int(key): int(one.new_value) for key, one in changed})
                    elif isinstance(event, h2.events.RequestReceived):
                        self.requests.append(
                            [(str(name), str(value)) for name, value in event.headers]
                        )
                        task = asyncio.ensure_future(
                            self._answer(peer, writer, event.stream_id, self.paths()[-1])
                        )
                        self._tasks.add(task)
                        task.add_done_callback(self._tasks.discard)
                    elif isinstance(event, h2.events.DataReceived):
                        peer.acknowledge_received_data(
                            event.flow_controlled_length, event.stream_id
                        )
                writer.write(peer.data_to_send())
                await writer.drain()
        with suppress(Exception):
            writer.close()

    async def _answer(
        self, peer: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int, path: str
    ) -> None:
        with suppress(OSError, h2.exceptions.ProtocolError, asyncio.CancelledError):
            await self._misbehave(peer, writer, stream, path)
            writer.write(peer.data_to_send())

    async def _misbehave(
        self, peer: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int, path: str
    ) -> None:
        ok = [(":status", "200"), ("content-type", "text/html")]
        match path:
            case "/refused":
                peer.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
            case "/reset":
                peer.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)
            case "/reset-in-body":
                peer.send_headers(stream, ok)
                peer.send_data(stream, b"start")
                peer.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)
            case "/goaway":
                peer.close_connection(ErrorCodes.ENHANCE_YOUR_CALM, last_stream_id=0)
            case "/bad-frame":  # HEADERS for stream 0
                writer.write(peer.data_to_send())
                # libcurl sees the error of the first at the latest when more comes.
                while not writer.is_closing():
                    writer.write(b"\x00\x00\x01\x01\x04\x00\x00\x00\x00\x88")
                    await asyncio.sleep(0.2)
            case "/close":
                writer.close()
            case "/hang":
                await self.stopped.wait()
            case "/hang-in-body":
                peer.send_headers(stream, ok)
                peer.send_data(stream, b"start")
                writer.write(peer.data_to_send())
                await self.stopped.wait()
            case "/many-headers":
                peer.send_headers(
                    stream, [*ok, *((f"x-{n}", "a") for n in range(2000))], end_stream=True
                )
            case "/moved":
                peer.send_headers(
                    stream, [(":status", "302"), ("location", "/ok")], end_stream=True
                )
            case "/cookie":
                peer.send_headers(
                    stream, [*ok, ("set-cookie", "visitor=1; Path=/")], end_stream=True
                )
            case "/short":
                peer.send_headers(stream, [*ok, ("content-length", "50")])
                writer.write(
                    peer.data_to_send()
                    + b"\x00\x00\x05\x00\x01"
                    + stream.to_bytes(4, "big")
                    + b"hello"
                )
            case "/bomb":
                peer.send_headers(stream, [*ok, ("content-encoding", "gzip")])
                await self._pour(peer, writer, stream, make_bomb())
            case "/big":
                peer.send_headers(stream, ok)
                await self._pour(peer, writer, stream, b"x" * 3_000_000)
            case "/endless":
                peer.send_headers(stream, ok)
                await self._pour(peer, writer, stream, b"x" * BIG)
            case _:
                peer.send_headers(stream, [*ok, ("x-a", "1"), ("x-a", "2")])
                peer.send_data(stream, b"<h1>fine</h1>", end_stream=True)

    async def _pour(
        self,
        peer: h2.connection.H2Connection,
        writer: asyncio.StreamWriter,
        stream: int,
        data: bytes,
    ) -> None:
        at = 0
        while at < len(data):
            room = min(
                peer.local_flow_control_window(stream), peer.max_outbound_frame_size, len(data) - at
            )
            if room <= 0:
                await asyncio.sleep(0.002)
                continue
            peer.send_data(stream, data[at : at + room])
            at += room
            writer.write(peer.data_to_send())
            await writer.drain()
        peer.end_stream(stream)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    with suppress(Exception):
        sink.close()


def fingerprint(hello: bytes) -> str:
    """A digest of a ClientHello in the manner of JA4: ciphers, extensions (sorted: browsers shuffle
    them), signature algorithms, groups, versions and ALPN, without the GREASE values (RFC 8701),
    which are drawn at random."""
    body = hello[9:]  # record and handshake headers
    at = 2 + 32
    at += 1 + body[at]
    size = int.from_bytes(body[at : at + 2], "big")
    ciphers = _numbers(body[at + 2 : at + 2 + size])
    at += 2 + size
    at += 1 + body[at]
    end = at + 2 + int.from_bytes(body[at : at + 2], "big")
    at += 2
    extensions: dict[int, bytes] = {}
    while at < end:
        kind, length = (
            int.from_bytes(body[at : at + 2], "big"),
            int.from_bytes(body[at + 2 : at + 4], "big"),
        )
        extensions[kind] = body[at + 4 : at + 4 + length]
        at += 4 + length
    kinds = sorted(kind for kind in extensions if not _grease(kind) and kind not in (0, 21))
    parts = [
        ciphers,
        kinds,
        _numbers(extensions.get(13, b"")[2:]),
        _numbers(extensions.get(10, b"")[2:]),
        _numbers(extensions.get(43, b"")[1:]),
        list(extensions.get(16, b"")),
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def offered(hello: bytes) -> list[str]:
    """The ALPN names of a ClientHello."""
    return [name for name in ("h2", "http/1.1") if bytes((len(name),)) + name.encode() in hello]


def _numbers(data: bytes) -> list[int]:
    found = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data) - 1, 2)]
    return [number for number in found if not _grease(number)]


def _grease(number: int) -> bool:
    return number & 0x0F0F == 0x0A0A and number >> 8 == number & 0xFF
