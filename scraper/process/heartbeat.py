"""A process's signs of life, for whoever looks after it: a file whose time is new, and what
systemd's watchdog hears.

    find "$SCRAPER_HEARTBEAT" -newermt '-30 seconds' | grep -q .       is it well? (`inspect ping` takes a second of CPU)

Whoever calls `beat` has made sure first that the process works: a worker's or coordinator's
watchdog, or beat after a tick. Servers that are away are no reason to be silent: a process that
waits for them is well.
"""

from __future__ import annotations

import socket
from pathlib import Path

import structlog

from scraper import settings as settings_module

log = structlog.get_logger()


class Heartbeat:
    """`notify` is systemd's socket: a path, or after `@` a name in the abstract namespace
    (sd_notify(3))."""

    def __init__(self, path: Path | None, notify: str | None) -> None:
        self._path = path
        self._address = "\0" + notify[1:] if notify and notify.startswith("@") else notify
        self._said = False

    def beat(self) -> None:
        """Costs 3 us. What cannot be told is logged once: whoever looks after the process will end
        it for its silence."""
        try:
            self._touch()
            self._notify()
        except OSError as error:
            if not self._said:
                log.error(
                    "cannot give a sign of life",
                    file=error.filename and str(error.filename),
                    error=error.strerror,
                )
            self._said = True

    def mute(self) -> None:
        """For a child, whose signs would hide that its parent is silent."""
        self._path = self._address = None

    def _touch(self) -> None:
        if self._path is None:
            return
        try:
            self._path.touch()
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()

    def _notify(self) -> None:
        if self._address is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(b"READY=1\nWATCHDOG=1", self._address)


_heartbeat: Heartbeat | None = None


def of_this_process() -> Heartbeat:
    global _heartbeat
    if _heartbeat is None:
        _heartbeat = Heartbeat(settings_module.load().heartbeat, settings_module.notify_socket())
    return _heartbeat
