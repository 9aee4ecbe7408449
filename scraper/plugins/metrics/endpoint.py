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
from contextlib import suppress
from pathlib import Path

import psutil
import structlog
from prometheus_client import CollectorRegistry, start_http_server

from scraper.plugins.metrics.settings import MetricsSettings, targets_dir
from scraper.settings import Settings

log = structlog.get_logger()

# Bound to one of these, a server is reached by its host's name instead.
ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104


class MetricsServer:
    """Serves a registry from a thread of its own, until it is closed."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Raises OSError where the port is taken or the address is not this machine's."""
        self._server, self._thread = start_http_server(port, host, registry)
        self._target_file: Path | None = None
        name = socket.gethostname() if host in ANYWHERE else host
        bound_port = int(self._server.server_port)
        self.address = f"[{name}]:{bound_port}" if ":" in name else f"{name}:{bound_port}"

    def announce(self, folder: Path) -> None:
        """Writes the target file. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale_files(folder)
        host, pid = socket.gethostname(), os.getpid()
        path = folder / f"{host}-{pid}.json"
        target = {"targets": [self.address], "labels": {"worker": f"{host}:{pid}"}}
        incomplete = path.with_suffix(".new")
        incomplete.write_text(json.dumps([target]))
        incomplete.replace(path)
        self._target_file = path

    def close(self) -> None:
        if self._target_file is not None:
            self._target_file.unlink(missing_ok=True)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1)


def serve_worker(settings: Settings, registry: CollectorRegistry) -> MetricsServer | None:
    """This process's own metrics, where `SCRAPER_METRICS_PORT` says. A port that is taken is logged
    and borne: a worker works without being looked at."""
    own = settings.of(MetricsSettings)
    assert own.metrics_port is not None
    try:
        server = MetricsServer(
            registry,
            own.metrics_host,
            own.metrics_port,
        )
    except OSError as error:
        log.error(
            "this worker's metrics are not served "
            "(fix: SCRAPER_METRICS_PORT=0, any free port, where several run)",
            address=f"{own.metrics_host}:{own.metrics_port}",
            error=error.strerror,
        )
        return None
    try:
        server.announce(targets_dir(settings))
    except OSError as error:
        log.error(
            "Prometheus is not told of this worker",
            file=str(targets_dir(settings)),
            error=error.strerror,
        )
    log.info("metrics served", address=server.address)
    return server


def _remove_stale_files(folder: Path) -> None:
    """Removes the files of processes of this machine that are gone."""
    prefix = f"{socket.gethostname()}-"
    for path in folder.glob(f"{prefix}*.json"):
        pid = path.stem.removeprefix(prefix)
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with suppress(OSError):
                path.unlink()
