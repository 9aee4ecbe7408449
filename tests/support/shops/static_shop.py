"""A shop of fixed pages on 127.0.0.1, in a thread: `StaticShop(pages)` answers each path with its
page and remembers what was asked, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class StaticShop:
    """`pages` maps a path, its query included, to HTML. Everything else is a 404."""

    def __init__(self, pages: Mapping[str, str], robots: str | None = None) -> None:
        self.pages = dict(pages)
        if robots is not None:
            self.pages["/robots.txt"] = robots
        # Addresses to which paths redirect.
        self.redirects: dict[str, str] = {}
        self.asked: list[tuple[str, float]] = []
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shop.asked.append((self.path, time.monotonic()))
                page = shop.pages.get(self.path)
                if self.path in shop.redirects:
                    self.send_response(302)
                    self.send_header("Location", shop.redirects[self.path])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = (page or "<h1>Not found</h1>").encode()
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]
