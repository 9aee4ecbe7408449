"""The sample shop's pages from memory, as fast as Python can hand them out: `python -m
benchmarks.shop`.

The pages are `scraper.plugins.demo`'s own, rendered before the first request. Not its server: that one
costs twice as much a request, and what the shop takes from its core the databases next to it would
miss. A loop over `selectors` in one thread, HTTP/1.1 with keep-alive, GET alone. Every request is
counted by its path.

    /_control/truth     every product, as a perfect crawl stores it
    /_control/served    how many pages were asked for
    /_control/counts    how often each path was asked for, without its query, but for a listing's page
    /_control/reset     counts from nothing
"""

from __future__ import annotations

import argparse
import heapq
import json
import selectors
import signal
import socket
import ssl
from collections import Counter
from random import Random
from time import monotonic
from typing import Any

from scraper.plugins.demo.catalogue import Catalogue, count_pages
from scraper.plugins.demo.faults import ShopOptions
from scraper.plugins.demo.pages import PAGE_SIZE
from scraper.plugins.demo.shop import Shop, make_answer

READ_BYTES = 65_536
HEAD_MAX_BYTES = 32_768
END = b"\r\n\r\n"
WAITING = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """One client: what it has sent so far, what it has yet to be sent."""

    __slots__ = ("late", "received", "socket", "unsent")

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.received = b""
        self.unsent = b""
        self.late = False


class Server:
    """Answers from a dictionary of ready responses; a target that is not in there is rendered once,
    then kept."""

    def __init__(
        self, products: int, latency_ms: float, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.listener.setblocking(False)
        self.tls = tls
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.listener.getsockname()[1]}"
        self.products = products
        self.counts: Counter[bytes] = Counter()
        self.ready: dict[bytes, bytes] = {}
        self.latency_s = latency_ms / 1000
        self.jitter = Random(7)
        self.timers: list[tuple[float, int, Connection, bytes]] = []
        self.timed = 0
        self.stopped = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.waking, self.wakes = socket.socketpair()
        self.selector.register(self.waking, selectors.EVENT_READ, self.waking)
        self.render()

    def render(self) -> None:
        """Every page, before the first request."""
        self.shop = Shop(Catalogue(self.products), ShopOptions(), self.url)
        for item in self.shop.generation.items.values():
            self.page(item.path.encode())
        for number in range(
            1, count_pages(len(self.shop.generation.listings["all"]), PAGE_SIZE) + 1
        ):
            self.page(b"/all?page=%d" % number)

    def page(self, target: bytes) -> bytes:
        found = self.ready.get(target)
        if found is None:
            plain = target if target.startswith(b"/all") else target.partition(b"?")[0]
            found = self.ready[target] = (
                self.ready[plain] if plain in self.ready else self.shop.page(plain).whole
            )
        return found

    def truth(self) -> list[dict[str, Any]]:
        """Every product, as a perfect crawl stores it."""
        return self.shop.catalogue.truth(1, self.url)

    def run(self) -> None:
        """Until the process is ended, or `stop` is called."""
        while not self.stopped:
            pause_s = max(0.0, self.timers[0][0] - monotonic()) if self.timers else None
            for key, events in self.selector.select(pause_s):
                if key.data is None:
                    self._accept()
                elif key.data is self.waking:
                    self.stopped = True
                elif events & selectors.EVENT_WRITE:
                    self._send(key.data, b"")
                else:
                    self._read(key.data)
            while self.timers and self.timers[0][0] <= monotonic():
                _, _, connection, data = heapq.heappop(self.timers)
                connection.late = False
                self._send(connection, data)
                self._serve(connection)

        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self.selector.close()

    def stop(self) -> None:
        """From another thread: the loop ends."""
        self.wakes.close()

    def _accept(self) -> None:
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls is not None:
            # The handshake is part of the first reads.
            client = self.tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
        self.selector.register(client, selectors.EVENT_READ, Connection(client))

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(READ_BYTES)
        except WAITING:
            return None
        except OSError:
            data = b""
        if not data or len(connection.received) > HEAD_MAX_BYTES:
            return self._close(connection)
        connection.received = connection.received + data if connection.received else data
        return self._serve(connection)

    def _serve(self, connection: Connection) -> None:
        """Every request that has arrived whole, one after the other."""
        while not connection.late and connection.socket.fileno() >= 0:
            head, end, rest = connection.received.partition(END)
            if not end:
                return
            connection.received = rest
            target = head.split(b" ", 2)[1]
            if target.startswith(b"/_"):
                self._send(connection, self._control(target))
                continue
            self.counts[target] += 1
            data = self.ready.get(target) or self.page(target)
            if self.latency_s:
                self.timed += 1
                at = monotonic() + self.latency_s * self.jitter.uniform(0.5, 1.5)
                heapq.heappush(self.timers, (at, self.timed, connection, data))
                connection.late = True
            else:
                self._send(connection, data)

    def _send(self, connection: Connection, data: bytes) -> None:
        waiting = bool(connection.unsent)
        data = connection.unsent + data if waiting else data
        sent, view = 0, memoryview(data)
        try:
            # TLS takes 16 KB at a time.
            while sent < len(data):
                sent += connection.socket.send(view[sent:])
        except WAITING:
            pass
        except OSError:
            return self._close(connection)
        connection.unsent = data[sent:]
        if bool(connection.unsent) != waiting:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
            self.selector.modify(connection.socket, events, connection)
        return None

    def _close(self, connection: Connection) -> None:
        if connection.socket.fileno() >= 0:
            self.selector.unregister(connection.socket)
            connection.socket.close()

    def _control(self, target: bytes) -> bytes:
        found: object
        match target:
            case b"/_control/truth":
                found = self.truth()
            case b"/_control/served":
                found = self.counts.total()
            case b"/_control/counts":
                merged: Counter[str] = Counter()
                for path, times in self.counts.items():
                    merged[
                        (path if path.startswith(b"/all") else path.partition(b"?")[0]).decode(
                            "latin-1"
                        )
                    ] += times
                found = merged
            case b"/_control/reset":
                self.counts.clear()
                found = {}
            case _:
                return make_answer(404, b"no such control\n", "text/plain").whole
        return make_answer(200, json.dumps(found).encode(), "application/json").whole


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.shop", description="The benchmark's shop."
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--products", type=int, default=10_000)
    parser.add_argument(
        "--latency-ms",
        type=float,
        default=0.0,
        help="mean; each answer takes half to one and a half",
    )
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        # it holds nothing worth closing: end at once
        signal.signal(number, signal.SIG_DFL)
    server = Server(args.products, args.latency_ms, args.port)
    print(f"listening on {server.url}", flush=True)
    server.run()


if __name__ == "__main__":
    main()
