"""A process's signs of life, for its supervisor: a file that is touched, and messages to systemd's
watchdog.

A probe asks whether the file is young (`inspect ping` would take a second of CPU):

    find "$SCRAPER_HEARTBEAT" -newermt '-30 seconds' | grep -q .

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
        self._failing = False

    def beat(self) -> None:
        """Costs 3 us. A sign that cannot be given is logged once: the supervisor will end the
        process for its silence."""
        try:
            self._touch()
            self._notify()
        except OSError as error:
            if not self._failing:
                log.error(
                    "cannot give a sign of life",
                    file=error.filename and str(error.filename),
                    error=error.strerror,
                )
            self._failing = True

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
