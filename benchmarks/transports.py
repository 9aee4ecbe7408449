"""`python -m benchmarks.transports`: what one GET costs over each way of fetching, side by side on
loopback TLS.

CPU time of the client alone: the server is a process of its own. Answers are 7 KB, connections are
kept, `AT_ONCE` requests are under way. `httpx and h2` is what httpx itself does for HTTP/2, without
this project's guard and limits: the road not taken.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import ssl
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx

from scraper.http.fetcher import FetchPolicy, HttpFetcher
from tests.hostile_server import self_signed

BODY = b"x" * 7000
REQUESTS, ROUNDS, AT_ONCE = 2000, 5, 16
POLICY = FetchPolicy(
    user_agent="bench/1.0",
    headers={},
    allow_private=True,
    allowed=None,
    body_max_bytes=10**6,
    wire_max_bytes=10**6,
    redirects_max=5,
    connect_timeout_s=10,
    read_timeout_s=20,
    page_timeout_s=30,
)
Get = Callable[[str], Awaitable[Any]]


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
    except (EOFError, OSError):
        writer.close()


async def _two(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    peer = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    peer.initiate_connection()
    writer.write(peer.data_to_send())
    while data := await reader.read(65_536):
        for event in peer.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                peer.send_headers(
                    event.stream_id, [(":status", "200"), ("content-length", str(len(BODY)))]
                )
                peer.send_data(event.stream_id, BODY, end_stream=True)
        writer.write(peer.data_to_send())
    writer.close()


def _serve(folder: str, ports: Any) -> None:
    async def run() -> None:
        numbers = []
        for handle, protocols in ((_one, ["http/1.1"]), (_two, ["h2"]), (_one, None)):
            context = None
            if protocols:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(Path(folder) / "cert.pem", Path(folder) / "key.pem")
                context.set_alpn_protocols(protocols)
            server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
            numbers.append(server.sockets[0].getsockname()[1])
        ports.put(numbers)
        await asyncio.Event().wait()

    asyncio.run(run())


async def _measured(get: Get, url: str) -> float:
    """Microseconds of CPU a GET, the median of the rounds."""

    async def lane(count: int) -> None:
        for _ in range(count):
            await get(url)

    async def once(count: int) -> float:
        before = time.process_time()
        await asyncio.gather(*(lane(count // AT_ONCE) for _ in range(AT_ONCE)))
        return (time.process_time() - before) / count * 1e6

    await once(200)
    return statistics.median([await once(REQUESTS) for _ in range(ROUNDS)])


async def _fetching(url: str, **asked: Any) -> float:
    from dataclasses import replace

    fetcher = HttpFetcher()
    policy = replace(POLICY, **asked)
    try:
        return await _measured(lambda one: fetcher.fetch(one, policy), url)
    finally:
        await fetcher.aclose()


async def _httpx(url: str, folder: str) -> float:
    context = ssl.create_default_context(cafile=str(Path(folder) / "cert.pem"))
    async with httpx.AsyncClient(http2=True, verify=context, trust_env=False) as client:
        return await _measured(client.get, url)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        self_signed(Path(folder))
        os.environ["SSL_CERT_FILE"] = str(Path(folder) / "cert.pem")
        ports: Any = multiprocessing.Queue()
        server = multiprocessing.Process(target=_serve, args=(folder, ports), daemon=True)
        server.start()
        one, two, plain = ports.get(timeout=20)
        tls1, tls2 = f"https://127.0.0.1:{one}/p", f"https://127.0.0.1:{two}/p"
        rows: list[tuple[str, Callable[[], Awaitable[float]]]] = [
            ("aiohttp, plain HTTP/1.1", lambda: _fetching(f"http://127.0.0.1:{plain}/p")),
            ("aiohttp, TLS, HTTP/1.1", lambda: _fetching(tls1)),
            ("libcurl, TLS, HTTP/1.1", lambda: _fetching(tls1, http2=True)),
            ("libcurl, TLS, HTTP/2", lambda: _fetching(tls2, http2=True)),
            ("libcurl as Chrome, HTTP/2", lambda: _fetching(tls2, impersonate="chrome")),
            ("libcurl as Chrome, HTTP/1.1", lambda: _fetching(tls1, impersonate="chrome")),
            ("httpx and h2, HTTP/2", lambda: _httpx(tls2, folder)),
        ]
        try:
            for name, run in rows:
                print(f"{name:30} {asyncio.run(run()):7.0f} us a GET", flush=True)  # type: ignore[arg-type]
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
