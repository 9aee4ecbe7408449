"""Serves a process's metrics over HTTP, and writes the file from which Prometheus learns the port.

`SCRAPER_HOME/metrics/HOST-PID.json` is a list of targets for Prometheus's `file_sd_configs`. A
process removes its file when it ends; the next process to start on the machine removes the files of
killed ones.
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

# A server bound to one of these addresses is reached by its host's name instead.
ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104


class MetricsServer:
    """Serves a registry from a thread of its own, until it is closed."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Raises OSError if the port is taken or the address is not this machine's."""
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
    """Serves this process's own metrics at `SCRAPER_METRICS_PORT`. Returns None, and logs it, if
    the port is taken: a worker also works without metrics."""
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
            "cannot write the Prometheus target file",
            file=str(targets_dir(settings)),
            error=error.strerror,
        )
    log.info("metrics served", address=server.address)
    return server


def _remove_stale_files(folder: Path) -> None:
    """Removes the files of this machine's processes that no longer run."""
    prefix = f"{socket.gethostname()}-"
    for path in folder.glob(f"{prefix}*.json"):
        pid = path.stem.removeprefix(prefix)
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with suppress(OSError):
                path.unlink()
