"""Processes of a demo that `--keep` left running, and free ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from scraper.errors import ServerUnavailableError
from scraper.runtime import fleet
from scraper.settings import Settings


def pids_path(settings: Settings) -> Path:
    return settings.home_dir / "demo.pids"


def remember(settings: Settings, processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Writes the ids and start times of running processes to a file, for `scraper demo --stop`."""
    path = pids_path(settings)
    started_at = json.loads(path.read_text()) if path.exists() else {}
    started_at |= {str(process.pid): read_start_time(process.pid) for process in processes}
    path.write_text(json.dumps(started_at))


def stop_remembered(settings: Settings) -> int:
    """Stops the remembered processes, and returns their number. A process with another start time
    has only the same id, and is left alone."""
    path = pids_path(settings)
    if not path.exists():
        return 0
    pids = [
        int(pid)
        for pid, started_at in json.loads(path.read_text()).items()
        if read_start_time(int(pid)) == started_at
    ]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + fleet.STOP_S
    while time.monotonic() < deadline and any(read_start_time(pid) for pid in pids):
        time.sleep(0.1)
    path.unlink()
    return len(pids)


def read_start_time(pid: int) -> float:
    """Returns a process's start time, in seconds since 1970; 0 if no such process runs."""
    try:
        process = psutil.Process(pid)
        return 0.0 if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return 0.0


def find_free_port(preferred: int) -> int:
    """Returns `preferred` if it is free, else any free port of the loopback interface."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerUnavailableError("no free port on the loopback interface")
