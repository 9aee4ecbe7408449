"""A RabbitMQ of the tests' own, from the Debian package: a private node with its own folder, ports,
name server and cookie.

    folder/mnesia  folder/log  folder/home (applications)  folder/processes (name server, node)  folder/ports
    folder/taken (virtual hosts)

All on loopback. The package's wrapper is not used (it becomes the user `rabbitmq` and its own
node): the real script runs as the user of the tests, with the folder as its home. Everything is
ended by its pid. Start: 6 s, of which 4 are CPU, and nothing while idle; so there is one for
all tests, each in a virtual host of its own, made with the node (10 ms each: asking for one later
would take another Erlang a second or two).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import amqp
import psutil

from tests.support.servers.hostile_server import self_signed
from tests.support.servers.ports import unused_ports

SCRIPTS = (Path("/usr/lib/rabbitmq/bin/rabbitmq-server"),)
# virtual hosts: as many tests may use the node
HOSTS = 64
USER, PASSWORD = "scraper", "s3cret"
START_S = 120.0
STOP_S = 20.0


def program() -> Path | None:
    """The server's real start script, where the package is installed."""
    return next((path for path in SCRIPTS if path.exists() and shutil.which("epmd")), None)


class Node:
    """One node under a folder. Every process that knows the folder may ask for its state, start and
    end it."""

    def __init__(
        self,
        folder: Path,
        hosts: int = HOSTS,
        conf: str | None = None,
        tls: bool = False,
        policy: dict[str, Any] | None = None,
        first: Node | None = None,
    ) -> None:
        """`conf`: lines that say who may use it, in place of the tests' own user and virtual hosts.
        `tls`: it speaks TLS as well, at a port of its own (see `tls_url`). `policy`: for all queues
        of the last virtual host. `first`: the node whose cluster it joins, with its name server."""
        self.policy, self.first = policy, first
        self.folder, self.hosts, self.conf, self.tls = folder, hosts, conf, tls

    def take(self) -> str:
        """The URL of a virtual host that no test has had."""
        with (self.folder / "taken").open("a+") as taken:
            fcntl.flock(taken, fcntl.LOCK_EX)
            # The position is where the file ended when it was opened; it may have grown since.
            number = taken.seek(0, os.SEEK_END)
            assert number < self.hosts, (
                f"more than {self.hosts} tests ask for RabbitMQ (fix: raise HOSTS)"
            )
            taken.write("x")
        return self.url(number)

    def url(self, number: int = 0) -> str:
        return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self._ports()[0]}/t{number}"

    def tls_url(self, url: str) -> str:
        """A URL of this node, at the port where it speaks TLS."""
        listen, *_, tls = self._ports()
        return url.replace("amqp://", "amqps://").replace(f":{listen}/", f":{tls}/")

    @property
    def certificate(self) -> Path:
        """Untrusted, for 127.0.0.1."""
        return self.folder / "cert.pem"

    def up(self) -> None:
        """Starts it unless it runs, and waits until it answers. A second start keeps its port and
        what was on its disk; a name server that runs stays, as the cluster's other nodes would not
        be found in a new one at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            running = self.processes()
            if len(running) < self._programs:
                if [process.name() for process in running] != ["epmd"]:
                    self.down()
                self._start()
            self._until_it_answers()

    def down(self, number: int = signal.SIGTERM) -> None:
        """Ends node and name server, and waits until both are gone."""
        for process in reversed(self.processes()):
            for signal_ in (number, signal.SIGKILL):
                with suppress(psutil.Error):
                    process.send_signal(signal_)
                    process.wait(STOP_S)
        (self.folder / "processes").unlink(missing_ok=True)

    def processes(self) -> list[psutil.Process]:
        """Those that run: of the same pid and the same start, so that another's is never meant."""
        path, found = self.folder / "processes", []
        for line in path.read_text().splitlines() if path.exists() else ():
            pid, started = line.split()
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(pid))
                if (
                    process.create_time() == float(started)
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found

    def listen_at(self, port: int) -> None:
        """Before its first start: a port that another process has already."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "ports").write_text(" ".join(str(each) for each in (port, *unused_ports(3))))

    def _ports(self) -> list[int]:
        """For clients, for Erlang's own connections, for the name server, for clients with TLS."""
        path = self.folder / "ports"
        if not path.exists():
            path.write_text(" ".join(str(port) for port in unused_ports(4)))
        listen, dist, names, tls = (int(port) for port in path.read_text().split())
        return [listen, dist, self.first._ports()[2] if self.first else names, tls]

    @property
    def _programs(self) -> int:
        return 1 if self.first else 2

    @property
    def name(self) -> str:
        return f"scraper-{self._ports()[0]}@localhost"

    def _start(self) -> None:
        script = program()
        assert script is not None
        listen, _, names, tls = self._ports()
        folder = self.folder
        everything = {"configure": ".*", "write": ".*", "read": ".*", "user": USER}
        definitions = {
            "users": [{"name": USER, "password": PASSWORD, "tags": ""}],
            "vhosts": [{"name": f"t{number}"} for number in range(self.hosts)],
            "permissions": [{**everything, "vhost": f"t{number}"} for number in range(self.hosts)],
        }
        if self.policy:
            definitions["policies"] = [
                {
                    "vhost": f"t{self.hosts - 1}",
                    "name": "all",
                    "pattern": ".*",
                    "apply-to": "queues",
                    "definition": self.policy,
                }
            ]
        (folder / "definitions.json").write_text(json.dumps(definitions))
        lines = [f"listeners.tcp.1 = 127.0.0.1:{listen}"]
        if self.tls:
            self_signed(folder)
            lines += [
                f"listeners.ssl.1 = 127.0.0.1:{tls}",
                "ssl_options.verify = verify_none",
                f"ssl_options.cacertfile = {self.certificate}",
                f"ssl_options.certfile = {self.certificate}",
                f"ssl_options.keyfile = {folder}/key.pem",
            ]
        if self.first:
            lines += [
                "cluster_formation.peer_discovery_backend = classic_config",
                f"cluster_formation.classic_config.nodes.1 = {self.first.name}",
                f"cluster_formation.classic_config.nodes.2 = {self.name}",
            ]
        else:
            lines.append(self.conf or f"load_definitions = {folder}/definitions.json")
        lines += [
            "log.file.level = warning",
            "disk_free_limit.absolute = 10MB",
            "vm_memory_high_watermark.absolute = 300MB",
        ]
        (folder / "rabbitmq.conf").write_text("\n".join([*lines, ""]))
        (folder / "plugins").write_text("[].\n")
        self._link_applications()
        (folder / "env.conf").write_text(f"RABBITMQ_HOME={folder}/home\n")
        environment = self._environment()
        commands = (["epmd", "-port", str(names), "-address", "127.0.0.1"], [str(script)])
        started = [f"{process.pid} {process.create_time()!r}\n" for process in self.processes()]
        with (folder / "out").open("ab") as out:
            for command in commands[len(started) - self._programs :]:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
                # It outlives this process: it is ended by its pid.
                process.returncode = 0
                started.append(f"{process.pid} {psutil.Process(process.pid).create_time()!r}\n")
                (folder / "processes").write_text("".join(started))

    def _link_applications(self) -> None:
        """A home with what the server needs of its package, and no plug-in: Erlang looks into each
        application's folder for each module, 50,000 times and for a third of the start."""
        home = self.folder / "home" / "plugins"
        script = program()
        if home.exists() or script is None:
            return
        home.mkdir(parents=True)
        folders = {
            path.name.rpartition("-")[0]: path
            for path in (script.resolve().parents[1] / "plugins").iterdir()
            if path.is_dir()
        }
        needed = ["rabbit"]
        for name in needed:
            (home / folders[name].name).symlink_to(folders[name])
            text = (folders[name] / "ebin" / f"{name}.app").read_text()
            listed = re.findall(r"applications,\s*\[([^]]*)\]", text)
            uses = re.findall(r"\w+", " ".join(listed))
            needed += [one for one in uses if one in folders and one not in needed]

    def control(self, *words: str) -> str:
        """Runs `rabbitmqctl`, and returns what it prints."""
        command = [str(SCRIPTS[0].with_name("rabbitmqctl")), *words]
        return subprocess.run(
            command, env=self._environment(), check=True, capture_output=True, text=True, timeout=60
        ).stdout

    def _environment(self) -> dict[str, str]:
        _, dist, names, _ = self._ports()
        folder = self.folder
        environment = {
            name: value
            for name, value in os.environ.items()
            # The node serves all tests, and is not a process of the first one's database.
            if not name.startswith(("RABBITMQ", "ERL_", "DATABASE_URL"))
        }
        environment |= {
            # The cookie is there.
            "HOME": str(self.first.folder if self.first else folder),
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_CONF_ENV_FILE": str(folder / "env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_DIST_PORT": str(dist),
            # One scheduler for each sort of work, and none that spins while it waits: the machine
            # is the tests'.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +SDio 2 +A 1 "
            "+sbwt none +sbwtdcpu none +sbwtdio none",
            "NOTIFY_SOCKET": str(
                folder / "nobody"
            ),  # As under systemd: the script becomes the node, with this pid.
        }
        return environment

    def _until_it_answers(self) -> None:
        deadline = time.monotonic() + START_S
        user = dict(line.split(" = ") for line in (self.conf or "").splitlines())
        while True:
            try:
                with amqp.Connection(
                    host=f"127.0.0.1:{self._ports()[0]}",
                    userid=user.get("default_user", USER),
                    password=user.get("default_pass", PASSWORD),
                    virtual_host="/" if self.conf else f"t{self.hosts - 1}",
                ):
                    return
            except (OSError, amqp.AMQPError):
                assert len(self.processes()) == self._programs and time.monotonic() < deadline, (
                    self.folder / "out"
                ).read_text()
                time.sleep(0.2)
