"""Many small shops that answer after a while, in one process, and a fleet that crawls them. Each
shop is a host of its own: a port of this machine.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from benchmarks.cost import cores, cpu_s, pin
from benchmarks.rig import NOT_OURS
from scraper import settings
from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.plugins.embedded import servers as embedded
from scraper.rules.routing import COORDINATOR
from scraper.runtime import fleet
from scraper.sites import loader

R = TypeVar("R")

ROOT = Path(__file__).parents[1]
READY_S = 60.0
SITE = """
name: {name}
start: {start}
rate: {rate}
concurrency: {concurrency}
robots: ignore
allow_private: true
listing: {{products: a}}
product: {{id: {{url: "(\\\\d+/p/\\\\d+)"}}, fields: {{title: {{css: h1, required: true}}}}}}
"""


@dataclass(frozen=True)
class Shops:
    """How many, and what they are like. `hangs`: the number of one that takes requests for products
    and never answers."""

    hosts: int
    products: int
    latency_s: float
    hangs: int | None = None


class Crawling:
    """Made by `crawling()`: the shops, and a coordinator and one worker that wait for something to
    do."""

    def __init__(self, shops: subprocess.Popen[str], engine: sa.Engine, worker: int) -> None:
        assert shops.stdout is not None and shops.stdin is not None
        self._shops, self._said, self._asked = shops, shops.stdout, shops.stdin
        self.engine, self._worker = engine, worker
        self.ports: list[int] = json.loads(self._said.readline())

    def define(self, name: str, ports: Sequence[int], *, rate: str, concurrency: int) -> None:
        starts = json.dumps([f"http://127.0.0.1:{port}/" for port in ports])
        text = SITE.format(name=name, start=starts, rate=rate, concurrency=concurrency)
        with self.engine.begin() as connection:
            sites.store_definitions(connection, [loader.load_text(text, f"{name}.yaml")])

    def open(self, name: str) -> int:
        """The id of a crawl that begins now."""
        from scraper.runtime.send import send

        opened = plan.open_now(self.engine, name)
        send(opened.messages)
        return opened.crawl_id

    def log(self) -> list[tuple[float, int]]:
        """Each request so far: when it came (monotonic), and to which shop."""
        self._asked.write("\n")
        self._asked.flush()
        log: list[tuple[float, int]] = json.loads(self._said.readline())
        return log

    @property
    def worker_cpu_s(self) -> float:
        return cpu_s(self._worker)

    @property
    def worker_mb(self) -> float:
        import psutil

        return float(psutil.Process(self._worker).memory_info().rss) / 1e6


@contextmanager
def crawling(shops: Shops, *, own_core: bool = False) -> Iterator[Crawling]:
    """Starts everything and ends it. `own_core`: the worker has one to itself, all the rest share
    the others."""
    with tempfile.TemporaryDirectory(prefix="scraper-bench-") as home, ExitStack() as stack:
        for name in NOT_OURS:
            os.environ.pop(name, None)
        os.environ |= {
            "SCRAPER_HOME": home,
            "SCRAPER_SITES": f"{home}/no-sites",
            "SCRAPER_LOG_LEVEL": "WARNING",
        }
        config = settings.load()
        every = cores()
        if own_core:
            pin(os.getpid(), set(every[1:] or every))  # the others inherit it
        process = stack.enter_context(_serving(shops))
        embedded.up(config)
        stack.callback(embedded.down, config)
        engine = make_engine(config.postgres_url)
        stack.callback(engine.dispose)
        migrations.upgrade(engine)
        processes = [
            fleet.start_process(
                config,
                "coordinator",
                fleet.worker_command([COORDINATOR], name="coordinator", beat=True),
            ),
            fleet.start_process(
                config, "worker", fleet.worker_command(["datacenter"], name="worker")
            ),
        ]
        stack.callback(fleet.stop, processes)
        if own_core:
            pin(processes[1].pid, {every[0]})
        give_up_at = time.monotonic() + READY_S
        while not {COORDINATOR, "datacenter"} <= fleet.served_queues():
            if time.monotonic() > give_up_at:
                raise RuntimeError(
                    fleet.log_path(config, "worker").read_text(errors="replace")[-2000:]
                )
            time.sleep(0.2)
        yield Crawling(process, engine, processes[1].pid)


def apart(work: Callable[..., R], cases: Sequence[Any]) -> list[R]:
    """Each case in a process of its own: Celery keeps to one broker."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as one:
        return list(one.map(work, cases))


@contextmanager
def _serving(shops: Shops) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.many_shops", json.dumps(asdict(shops))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class _Shop(asyncio.Protocol):
    """One connection. Requests come one at a time, as from any client that does not pipeline them."""

    def __init__(
        self, number: int, shops: Shops, listing: bytes, log: list[tuple[float, int]]
    ) -> None:
        self._number, self._shops, self._listing, self._log = number, shops, listing, log
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if not self._unread.endswith(b"\r\n\r\n"):
            return
        path, self._unread = self._unread.split(b" ", 2)[1], b""
        self._log.append((time.monotonic(), self._number))
        if self._number != self._shops.hangs or path == b"/":
            body = self._listing if path == b"/" else b"<h1>Product %s</h1>" % path
            asyncio.get_running_loop().call_later(self._shops.latency_s, self._answer, body)

    def _answer(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(
            body
        )
        if not self._transport.is_closing():
            self._transport.write(head + body)


async def _serve(shops: Shops) -> None:
    """Prints the shops' ports; at each line of input, the log."""
    loop = asyncio.get_running_loop()
    log: list[tuple[float, int]] = []
    servers = []
    for number in range(shops.hosts):
        links = (f'<a href="/{number}/p/{n}">{n}</a>' for n in range(1, shops.products + 1))
        listing = "".join(links).encode()
        make = partial(_Shop, number, shops, listing, log)
        servers.append(await loop.create_server(make, "127.0.0.1", 0, backlog=1024))
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(log), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(Shops(**json.loads(sys.argv[1]))))
