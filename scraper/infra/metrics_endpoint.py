"""A process's metrics over HTTP, and the file that tells Prometheus where: a port may be any free
one.

`SCRAPER_HOME/metrics/HOST-PID.json` is a list of targets as Prometheus's `file_sd_configs` reads
it. A process that ends removes its file; those of processes that were killed are removed by the
next one that starts here.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from wsgiref.simple_server import WSGIServer

import psutil
import structlog
from prometheus_client import CollectorRegistry, start_http_server

from scraper.settings import Settings

log = structlog.get_logger()

ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - to tell what others are to connect to instead


class Target:
    """A server in a thread of its own, until it is closed."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Raises OSError where the port is taken or the address is not this machine's."""
        self._server: WSGIServer
        self._thread: threading.Thread
        self._server, self._thread = start_http_server(port, host, registry)
        self._file: Path | None = None
        self.host, self.port = host, int(self._server.server_port)

    @property
    def address(self) -> str:
        host = socket.gethostname() if self.host in ANYWHERE else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def announce(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _tidy(folder)
        path = folder / f"{socket.gethostname()}-{os.getpid()}.json"
        entry = {
            "targets": [self.address],
            "labels": {"worker": f"{socket.gethostname()}:{os.getpid()}"},
        }
        half = path.with_suffix(".new")
        half.write_text(json.dumps([entry]))
        half.replace(path)
        self._file = path

    def close(self) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1)


def serve_worker(settings: Settings, registry: CollectorRegistry) -> Target | None:
    """This process's own metrics, where `SCRAPER_METRICS_PORT` says. A port that is taken is logged
    and borne: a worker works without being looked at."""
    assert settings.metrics_port is not None
    try:
        target = Target(registry, settings.metrics_host, settings.metrics_port)
    except OSError as error:
        log.error(
            "this worker's metrics are not served (mend: SCRAPER_METRICS_PORT=0, any free port, where several run)",
            address=f"{settings.metrics_host}:{settings.metrics_port}",
            error=error.strerror,
        )
        return None
    try:
        target.announce(settings.targets_dir)
    except OSError as error:
        log.error(
            "Prometheus is not told of this worker",
            file=str(settings.targets_dir),
            error=error.strerror,
        )
    log.info("metrics served", address=target.address)
    return target


def _tidy(folder: Path) -> None:
    """Removes what processes of this machine left that are gone."""
    own = f"{socket.gethostname()}-"
    for path in folder.glob("*.json"):
        pid = path.stem.removeprefix(own)
        if path.name.startswith(own) and pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with suppress(OSError):
                path.unlink()
