"""A network between clients and a server, which delays, breaks off, halves or swallows what it
carries."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.servers.threaded import PATIENCE_S, Threaded

CHUNK_BYTES = 1_000_000
# A connection that is closed with this option is reset, and the client gets what it has read only.
RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Line:
    """One connection through the network. A `lost` line stays open and silent for good."""

    def __init__(self, network: BadNetwork, client: asyncio.StreamWriter) -> None:
        self._network, self._client = network, client
        self.is_lost = network.hole_loses and not network.passes.is_set()
        self.is_halved = False

    async def ask(self, reader: asyncio.StreamReader, there: asyncio.StreamWriter) -> None:
        """Carries what the client sends."""
        while data := await reader.read(CHUNK_BYTES):
            if self._network.delay_s:
                await asyncio.sleep(self._network.delay_s)
            self._network.round_trips += 1
            await self._carry(data, there)

    async def answer(self, back: asyncio.StreamReader) -> None:
        """Carries what the server sends."""
        while data := await back.read(CHUNK_BYTES):
            if self.is_halved and len(data) > 1:
                self._client.write(data[: len(data) // 2])
                await self._client.drain()
                self.reset()
                return
            await self._carry(data, self._client)

    def reset(self) -> None:
        # It may be closed already.
        with suppress(OSError):
            self._client.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE
            )
        self._client.transport.abort()

    async def _carry(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        await self._network.passes.wait()
        if not self.is_lost:
            writer.write(data)
            await writer.drain()


class BadNetwork(Threaded):
    """Listens on `port` of 127.0.0.1, and connects to the server `behind`: its socket's path, or its
    port. The methods act on all connections that are open; a hole takes new ones too, and says
    nothing."""

    def __init__(self, behind: Path | int) -> None:
        super().__init__()
        self._behind = behind
        self._lines: set[Line] = set()
        self.port = 0
        self.delay_s = 0.0
        self.round_trips = 0
        self.hole_loses = False

    def reset(self) -> int:
        """Resets every connection. Returns how many there were."""
        return self._call(Line.reset)

    def halve(self) -> int:
        """Passes on half of the next answer on each connection, and resets it."""
        return self._call(lambda line: setattr(line, "is_halved", True))

    def open_hole(self, *, loses: bool) -> int:
        """Swallows everything from now on. If it `loses`, connections that were open at any time
        of the hole stay silent after it; otherwise all that was sent arrives then."""
        self.hole_loses = loses
        self._loop.call_soon_threadsafe(self.passes.clear)
        return self._call(lambda line: setattr(line, "is_lost", loses))

    def close_hole(self) -> None:
        self._loop.call_soon_threadsafe(self.passes.set)

    def _call(self, act: Callable[[Line], None]) -> int:
        async def run() -> int:
            for line in list(self._lines):
                act(line)
            return len(self._lines)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    async def _listen(self) -> list[asyncio.Server]:
        self.passes = asyncio.Event()
        self.passes.set()
        server = await asyncio.start_server(
            self._tracked(self._connect), "127.0.0.1", 0, limit=CHUNK_BYTES
        )
        self.port = server.sockets[0].getsockname()[1]
        return [server]

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if isinstance(self._behind, int):
            address = "127.0.0.1", self._behind
            back, there = await asyncio.open_connection(*address, limit=CHUNK_BYTES)
        else:
            back, there = await asyncio.open_unix_connection(self._behind, limit=CHUNK_BYTES)
        line = Line(self, writer)
        self._lines.add(line)
        ways = [
            asyncio.ensure_future(line.ask(reader, there)),
            asyncio.ensure_future(line.answer(back)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            await self.passes.wait()
            if line.is_lost:
                # The client does not hear that the server has closed the connection.
                await ways[0]
        finally:
            self._lines.discard(line)
            # It is closed before anything is awaited: that may be cancelled when the network ends.
            there.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
