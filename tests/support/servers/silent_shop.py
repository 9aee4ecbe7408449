"""A shop on 127.0.0.1 that accepts connections and never answers."""

from __future__ import annotations

import socket
import threading
from typing import Self


class SilentShop:
    """`connections`: those that were opened so far."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept)
        self.connections: list[socket.socket] = []

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
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
