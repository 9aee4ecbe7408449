"""A shop on 127.0.0.1 that accepts connections and never answers."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

NO_ROBOTS = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class SilentShop:
    """`connections`: those that were opened so far. `robots`: says that it has no robots.txt, whose
    time limit no setting raises, and does not count those connections."""

    def __init__(self, *, robots: bool = False) -> None:
        self._robots = robots
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept)
        self.connections: list[socket.socket] = []

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            if not (self._robots and _answer_robots(connection)):
                self.connections.append(connection)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        for connection in self.connections:
            connection.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"


def _answer_robots(connection: socket.socket) -> bool:
    """Answers a request for robots.txt. Returns False for any other."""
    head = b""
    with suppress(OSError):
        while b"\r\n" not in head and (data := connection.recv(4096)):
            head += data
    if not head.startswith(b"GET /robots.txt "):
        return False
    with connection, suppress(OSError):
        connection.sendall(NO_ROBOTS)
    return True
