"""A RabbitMQ of the tests' own, from the Debian package: a private node with its own folder, ports, name server and cookie.

    folder/mnesia  folder/log  folder/pids (name server, node)  folder/ports

All on loopback. The package's wrapper is not used (it becomes the user `rabbitmq` and its own node): the real script runs
as whoever runs the tests, with the folder as its home. Everything is ended by its pid.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import amqp
import psutil

SCRIPTS = (Path("/usr/lib/rabbitmq/bin/rabbitmq-server"),)
HOSTS = 16  # virtual hosts, one for each xdist worker
USER, PASSWORD = "scraper", "s3cret"
START_S = 90.0
STOP_S = 20.0


def program() -> Path | None:
    """The server's real start script, where the package is installed."""
    return next((path for path in SCRIPTS if path.exists() and shutil.which("epmd")), None)


class Node:
    """One node under a folder. Every process that knows the folder may ask for its state, start and end it."""

    def __init__(self, folder: Path, hosts: int = HOSTS) -> None:
        self.folder, self.hosts = folder, hosts

    def url(self, number: int = 0) -> str:
        return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self._ports()[0]}/t{number}"

    def up(self) -> None:
        """Starts it unless it runs, and waits until it answers. A second start keeps its port and what was on its disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._pids():
                self._start()
            self._until_it_answers()

    def down(self, number: int = signal.SIGTERM) -> None:
        """Ends node and name server, and waits until both are gone."""
        processes = [psutil.Process(pid) for pid in reversed(self._pids())]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
                with suppress(psutil.TimeoutExpired):
                    process.wait(STOP_S)
                process.kill()
                process.wait(STOP_S)
        (self.folder / "pids").unlink(missing_ok=True)

    def _pids(self) -> list[int]:
        path = self.folder / "pids"
        pids = [int(pid) for pid in path.read_text().split()] if path.exists() else []
        return pids if all(psutil.pid_exists(pid) for pid in pids) else []

    def _ports(self) -> list[int]:
        """For clients, for Erlang's own connections, for the name server."""
        path = self.folder / "ports"
        if not path.exists():
            sockets = [socket.socket() for _ in range(3)]
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            path.write_text(" ".join(str(each.getsockname()[1]) for each in sockets))
            for each in sockets:
                each.close()
        return [int(port) for port in path.read_text().split()]

    def _start(self) -> None:
        script = program()
        assert script is not None
        listen, dist, names = self._ports()
        folder = self.folder
        everything = {"configure": ".*", "write": ".*", "read": ".*", "user": USER}
        definitions = {
            "users": [{"name": USER, "password": PASSWORD, "tags": ""}],
            "vhosts": [{"name": f"t{number}"} for number in range(self.hosts)],
            "permissions": [{**everything, "vhost": f"t{number}"} for number in range(self.hosts)],
        }
        (folder / "definitions.json").write_text(json.dumps(definitions))
        lines = [f"listeners.tcp.1 = 127.0.0.1:{listen}", f"load_definitions = {folder}/definitions.json"]
        lines += [
            "log.file.level = warning",
            "disk_free_limit.absolute = 10MB",
            "vm_memory_high_watermark.absolute = 300MB",
        ]
        (folder / "rabbitmq.conf").write_text("\n".join([*lines, ""]))
        (folder / "plugins").write_text("[].\n")
        (folder / "env.conf").touch()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ", "ERL_"))}
        environment |= {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"scraper-{listen}@localhost",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_DIST_PORT": str(dist),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
            "NOTIFY_SOCKET": str(
                folder / "nobody"
            ),  # as under systemd: the script becomes the node, whose pid is ours then
        }
        commands = (["epmd", "-port", str(names), "-address", "127.0.0.1"], [str(script)])
        pids = []
        with (folder / "out").open("ab") as out:
            for command in commands:
                process = subprocess.Popen(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
                )
                process.returncode = 0  # it outlives us: whoever ends it does so by its pid
                pids.append(process.pid)
        (folder / "pids").write_text(" ".join(map(str, pids)))

    def _until_it_answers(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                with amqp.Connection(
                    host=f"127.0.0.1:{self._ports()[0]}",
                    userid=USER,
                    password=PASSWORD,
                    virtual_host=f"t{self.hosts - 1}",
                ):
                    return
            except (OSError, amqp.AMQPError):
                alive = bool(self._pids())
                assert alive and time.monotonic() < deadline, (self.folder / "out").read_text()
                time.sleep(0.2)


def emptied(url: str) -> str:
    """The same URL, its queues gone. Of the queues that tests name; others expire by themselves."""
    host, _, virtual_host = url.rpartition("@")[2].partition("/")
    with amqp.Connection(host=host, userid=USER, password=PASSWORD, virtual_host=virtual_host) as connection:
        for queue in ("coordinator", "datacenter", "residential", "residential.eu", "residential.us"):
            connection.channel().queue_delete(queue)
    return url
