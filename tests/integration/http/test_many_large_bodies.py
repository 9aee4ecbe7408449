"""Large bodies over real connections, more of them than a process may hold."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from scraper.http.fetcher import HttpFetcher
from scraper.http.held_bodies import HeldBodies, HeldBody
from scraper.http.policy import FetchPolicy
from scraper.http.transport import guard

BODY_BYTES = 2_000_000
PAGES = 24
MOST = 4_000_000
# What a connection hands over at once.
PIECE_BYTES = 262_144
POLICY = FetchPolicy(
    user_agent="testbot/1.0",
    headers={},
    private=guard.PrivateAccess(networks=guard.ANYWHERE),
    allowed=None,
    body_max_bytes=BODY_BYTES,
    wire_max_bytes=BODY_BYTES,
    redirects_max=0,
    connect_timeout_s=10,
    read_timeout_s=10,
    page_timeout_s=60,
)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES)
    for _ in range(BODY_BYTES // 100_000):
        writer.write(b"x" * 100_000)
        await writer.drain()
    writer.close()


def test_bodies_that_wait_to_be_read_keep_others_with_their_server_and_cost_them_no_time() -> None:
    async def running() -> tuple[int, int]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        fetcher, bodies = HttpFetcher(), HeldBodies(MOST)
        reading = asyncio.Semaphore(1)
        most = 0

        async def page(number: int, policy: FetchPolicy, reading_s: float) -> int:
            nonlocal most
            held = HeldBody(bodies)
            try:
                answer = await fetcher.fetch(
                    f"http://127.0.0.1:{port}/{number}", policy, held_body=held
                )
                held.complete(len(answer.body))
                async with reading:
                    most = max(most, bodies.held)
                    await asyncio.sleep(reading_s)
                most = max(most, bodies.held)
                assert answer.elapsed_s < policy.page_timeout_s
                return len(answer.body)
            finally:
                held.release()

        async with server:
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(page(number, POLICY, 0.0) for number in range(PAGES)))
            # What all of them take on this machine without being read, several times over.
            timeout_s = max(1.0, 5 * (asyncio.get_running_loop().time() - began))
            hurried = replace(POLICY, page_timeout_s=timeout_s)
            # Reading all of them takes twice as long as a page may.
            reading_s = 2 * timeout_s / PAGES
            sizes = await asyncio.gather(
                *(page(number, hurried, reading_s) for number in range(PAGES))
            )
            await fetcher.aclose()
        assert set(sizes) == {BODY_BYTES}
        return most, bodies.held

    most, left = asyncio.run(running())
    assert left == 0
    # Without a bound it would be all of them: 48 MB.
    assert MOST <= most <= MOST + PAGES * PIECE_BYTES + BODY_BYTES
