"""A running `scraper start`, on a port of its own."""

from __future__ import annotations

import os
import re
import signal

import httpx

from tests.acceptance.commands import Commands, until
from tests.support.servers.flower import PLAIN
from tests.support.servers.forked import Process
from tests.support.servers.ports import unused_port

RUNS = "everything runs"


class Started:
    """A running `scraper start`."""

    def __init__(self, run: Commands, *options: str) -> None:
        self.run, self.port = run, unused_port()
        self.process: Process = run.start("scraper", "start", f"--port={self.port}", *options)
        until(lambda: RUNS in self.log() or self.process.poll() is not None, 60)
        assert RUNS in self.log(), self.log()

    def log(self) -> str:
        return self.run.log(self.process)

    def pid_of(self, name: str) -> int:
        return int(re.findall(rf"{name} started.*, as process (\d+)$", self.log(), re.M)[-1])

    def kill(self, *names: str) -> None:
        """Kills some of its processes, and waits until they run again."""
        killed = {name: self.pid_of(name) for name in names}
        for pid in killed.values():
            os.kill(pid, signal.SIGKILL)
        until(lambda: all(self.pid_of(name) != killed[name] for name in names), 30)

    def is_flower_there(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.port}/healthcheck"
            return httpx.get(url, timeout=5, verify=PLAIN).is_success
        except httpx.HTTPError:
            return False

    def end(self, number: int = signal.SIGINT) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(240)
