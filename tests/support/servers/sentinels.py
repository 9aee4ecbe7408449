"""A primary, its replica and three sentinels, as people deploy Redis Sentinel. All on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import redis

from tests.support.servers import valkey
from tests.support.servers.ports import unused_port
from tests.support.waiting import until

NAME = "shop"
PASSWORD, SENTINEL_PASSWORD = "s3cret", "w4tcher"
# A primary that does not answer for this long is replaced.
DOWN_AFTER_MS = 1_000
WAIT_S = 120.0


class Sentinels:
    """`url` names the sentinels, `clients` speak to the two servers, the first primary first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.servers = [self._make_server(folder, f"server{number}") for number in range(2)]
        self.servers[1].add_options("--replicaof", "127.0.0.1", str(self.servers[0].port))
        self.ports: list[int] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return (
            f"sentinel://:{PASSWORD}@{hosts}/0"
            f"?master_name={NAME}&sentinel_password={SENTINEL_PASSWORD}"
        )

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                server.start()
            for number in range(3):
                self._start_sentinel(number)
            until(self._is_complete, "the sentinels agree", timeout_s=WAIT_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for server in self.servers:
            server.kill()

    def connect(self, number: int) -> redis.Redis:
        """Connects to one of both servers."""
        return redis.Redis(port=self.servers[number].port, password=PASSWORD)

    def fail_over(self) -> None:
        """Kills the first primary, and waits until the replica is promoted."""
        self.servers[0].kill()
        until(self._is_promoted, "the sentinels agree", timeout_s=WAIT_S)

    def _is_promoted(self) -> bool:
        """Returns whether every sentinel names the second server as the primary."""
        return all(state["port"] == self.servers[1].port for state in self._read_states())

    def _is_complete(self) -> bool:
        """Returns whether each sentinel knows the others and the replica, which is in step."""
        counts = {
            (state["num-other-sentinels"], state["num-slaves"]) for state in self._read_states()
        }
        with self.connect(1) as replica:
            is_linked = replica.info("replication")["master_link_status"] == "up"
        return is_linked and counts == {(2, 1)}

    def _read_states(self) -> Iterator[dict[str, Any]]:
        """Yields what each sentinel says about the primary."""
        for port in self.ports:
            with redis.Redis(port=port, password=SENTINEL_PASSWORD) as client:
                yield client.sentinel_masters()[NAME]

    def _make_server(self, folder: Path, name: str) -> valkey.Server:
        (folder / name).mkdir(parents=True)
        words = ["--requirepass", PASSWORD, "--masterauth", PASSWORD]
        return valkey.Server(
            folder / name, *words, "--repl-diskless-sync-delay", "0", password=PASSWORD
        )

    def _start_sentinel(self, number: int) -> None:
        folder = self._folder / f"sentinel{number}"
        folder.mkdir()
        port = unused_port()
        lines = [
            f"port {port}",
            "bind 127.0.0.1",
            f"dir {folder}",
            f"requirepass {SENTINEL_PASSWORD}",
            f"sentinel sentinel-pass {SENTINEL_PASSWORD}",
            f"sentinel monitor {NAME} 127.0.0.1 {self.servers[0].port} 2",
            f"sentinel auth-pass {NAME} {PASSWORD}",
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {NAME} 10000",
        ]
        config = folder / "sentinel.conf"
        config.write_text("\n".join([*lines, ""]))
        argv = [valkey.program(), str(config), "--sentinel"]
        self._processes.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
        with redis.Redis(port=port, password=SENTINEL_PASSWORD) as client:
            until(lambda: _answers(client), "it answers", timeout_s=WAIT_S)
        self.ports.append(port)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
