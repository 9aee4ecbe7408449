"""A process's heartbeat for its supervisor: a file that is touched, and messages to systemd's
watchdog.

A probe checks that the file is young (`inspect ping` would take a second of CPU):

    find "$SCRAPER_HEARTBEAT" -newermt '-30 seconds' | grep -q .

The caller of `beat` has made sure first that the process works: the watchdog of a worker or
coordinator, or beat after a tick. A process that waits for a server that is away is healthy and
keeps beating.
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
        """Gives a sign of life, which costs 3 us. Logs the first failure only: the supervisor will
        end a silent process."""
        try:
            self._touch_file()
            self._notify_systemd()
        except OSError as error:
            if not self._failing:
                log.error(
                    "cannot write heartbeat",
                    file=error.filename and str(error.filename),
                    error=error.strerror,
                )
            self._failing = True

    def mute(self) -> None:
        """Silences a child process, whose heartbeat would hide that its parent is silent."""
        self._path = self._address = None

    def _touch_file(self) -> None:
        if self._path is None:
            return
        try:
            self._path.touch()
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()

    def _notify_systemd(self) -> None:
        if self._address is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(b"READY=1\nWATCHDOG=1", self._address)


_heartbeat: Heartbeat | None = None


def process_heartbeat() -> Heartbeat:
    """Returns this process's heartbeat."""
    global _heartbeat
    if _heartbeat is None:
        _heartbeat = Heartbeat(settings_module.load().heartbeat, settings_module.notify_socket())
    return _heartbeat
