"""The embedded servers under `scraper start`: started first, again when they die, and stopped last,
unless they ran before."""

from __future__ import annotations

import threading
from collections.abc import Callable

from scraper.errors import ScraperError
from scraper.infra.services import LocalServers
from scraper.plugins.supervisor.lock import StartLock
from scraper.settings import Settings

CHECK_S = 2.0
BACKOFF_MAX_S = 30.0


class ServersKeeper:
    """Watches the servers in a thread, since starting one may take a minute. `service` is None if
    the plug-in `embedded` is off."""

    def __init__(
        self, service: LocalServers | None, settings: Settings, tell: Callable[[str], None]
    ) -> None:
        self._service, self._settings, self._tell = service, settings, tell
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch_servers, name="servers", daemon=True)

    def up(self, lock: StartLock) -> None:
        """Starts the servers. Raises `ServerUnavailableError` if one does not start."""
        if self._service is None:
            lock.write_state()
            return
        lock.owns_servers |= not all(
            server.running for server in self._service.status(self._settings)
        )
        lock.write_state()
        for server in self._service.up(self._settings):
            self._tell(f"{server.name}: {server.address}")

    def watch(self) -> None:
        if self._service is not None:
            self._thread.start()

    def down(self, lock: StartLock) -> None:
        """Ends the thread, and stops the servers that were started here."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._service is not None and lock.owns_servers:
            self._service.down(self._settings)

    def _watch_servers(self) -> None:
        wait_s = CHECK_S
        while not self._stop.wait(wait_s):
            wait_s = CHECK_S if self._restore_servers() else min(wait_s * 2, BACKOFF_MAX_S)

    def _restore_servers(self) -> bool:
        """Starts servers that have died. Returns whether all run."""
        assert self._service is not None
        try:
            dead = [row.name for row in self._service.status(self._settings) if not row.running]
            for name in dead:
                self._tell(f"{name} ended; starts it again")
            if dead:
                self._service.up(self._settings)
            for name in dead:
                self._tell(f"{name} runs again")
        except ScraperError as error:
            self._tell(str(error))
            return False
        return True
