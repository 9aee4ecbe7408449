"""What every test may ask for: real PostgreSQL and Valkey, a database without rows, and no way out
of this machine.

The servers are the embedded ones, started once for the whole run (all xdist workers share them),
stopped at its end. Each xdist worker has one PostgreSQL database, emptied after each test, and one
numbered database of Valkey, emptied before.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import tempfile
import tomllib
import uuid
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import boto3
import certifi
import hypothesis
import pytest
import redis
import sqlalchemy as sa
import structlog

from scraper import settings as settings_module
from scraper.infra import outages
from scraper.infra.database import make_engine
from scraper.plugins.embedded import servers as embedded
from scraper.settings import Settings
from tests.support import databases
from tests.support.databases import WorkerDatabase
from tests.support.machine import CI, EXAMPLES, examples, need
from tests.support.servers import browser, rabbitmq, s3, valkey
from tests.support.turns import ACCEPTANCE_S, LASTS_S, spread

HOME = "SCRAPER_TEST_HOME"
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
# How long an example takes is the machine's affair.
for profile, number in {"dev": examples(), "ci": EXAMPLES}.items():
    hypothesis.settings.register_profile(profile, max_examples=number, deadline=None)
hypothesis.settings.load_profile("ci" if CI else "dev")

# Where a test leaves structlog as it comes, it would draw every traceback with all local variables:
# seconds, for a group of pages.
plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])

# Marks that a test has by what it asks for.
MARKS = {
    "installed_chromium": "browser",
    "installed_rabbitmq": "broker",
    "run": "process",
    "sample_shop": "process",
    "flower": "process",
}

CLEARED = (
    "DATABASE_URL",
    "REDIS_URL",
    "BROKER_URL",
    "SCRAPER_HOME",
    "SCRAPER_SITES",
    "SCRAPER_HEARTBEAT",
)


def pytest_configure(config: pytest.Config) -> None:
    # What a shell starts in its background ignores it, and so would all processes of tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in CLEARED:
        os.environ.pop(name, None)
        os.environ.pop(f"{name}_FILE", None)
    require_installed_plugins()
    # the controller makes the folder; workers inherit its name
    if not hasattr(config, "workerinput"):
        home = Path(tempfile.mkdtemp(prefix="scraper-tests-"))
        os.environ[HOME] = str(home)
        # Clients load what they trust, for each worker that a test makes: 22 ms for all authorities.
        authority, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
        (home / "authorities.pem").write_text(f"{authority}{end}\n")
        (home / "authorities").mkdir()
        os.environ["SSL_CERT_FILE"] = str(home / "authorities.pem")
        os.environ["SSL_CERT_DIR"] = str(home / "authorities")
        # Playwright's driver compiles its scripts at each start, for a third of the start's time.
        os.environ["NODE_COMPILE_CACHE"] = str(home / "compiled-scripts")


def require_installed_plugins() -> None:
    """A .venv from before a plug-in was added does not know its entry point."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    installed = entry_points(group="scraper.plugins").names
    missing = project["entry-points"]["scraper.plugins"].keys() - installed
    if missing:
        raise pytest.UsageError(
            f"not installed: the plug-ins {', '.join(sorted(missing))} "
            "(fix: python -m pip install --no-deps --no-build-isolation -e .)"
        )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Acceptance tests are slow, but for those that say `everyday`. They come first (see `spread`).
    Then come the tests that parse the whole checkout, next to each other: xdist gives them to one
    worker, which parses once."""
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        marks = {MARKS[name] for name in getattr(item, "fixturenames", ()) if name in MARKS}
        if params.get("any_broker") == "rabbitmq":
            marks.add("broker")
        if "acceptance" in item.path.parts and not item.get_closest_marker("everyday"):
            marks.add("slow")
        for mark in marks:
            item.add_marker(mark)
    yield
    items.sort(key=_turn)
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = spread(items, workers, lambda item: str(item.path), _lasts_s)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collecting makes many objects and hardly any garbage, and to look for garbage takes a tenth of
    the time. What is collected stays until the end: it is not looked through again and again."""
    gc.disable()
    _import_share(session.config)
    result = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


def _import_share(config: pytest.Config) -> None:
    """Imports an xdist worker's share of the test modules first. All workers would import all of
    them in one order otherwise, and in a new clone each would rewrite and compile every module."""
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    folders = [Path(argument).resolve() for argument in config.args if Path(argument).is_dir()]
    modules = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
    for module in modules[_worker_number(worker["workerid"]) :: worker["workercount"]]:
        # What is wrong with a module is said when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(module.relative_to(config.rootpath).with_suffix("").parts))


def _worker_number(worker_id: str) -> int:
    return 0 if worker_id == "master" else int(worker_id.removeprefix("gw"))


def _turn(item: pytest.Item) -> tuple[bool, bool, bool]:
    return (
        not item.get_closest_marker("parses"),
        "acceptance" not in item.path.parts,
        "integration" not in item.path.parts,
    )


def _lasts_s(item: pytest.Item) -> float:
    least_s = ACCEPTANCE_S if "acceptance" in item.path.parts else 0
    return LASTS_S.get(item.path.stem, least_s)


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or HOME not in os.environ:
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


@pytest.fixture(autouse=True)
def no_outage_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage of an earlier test is none of this one's."""
    monkeypatch.setattr(outages, "_outages", {})


@pytest.fixture(scope="session")
def servers() -> Settings:
    """Running PostgreSQL and Valkey, with the template database migrated."""
    home = Path(os.environ[HOME])
    settings = Settings(home=home)
    embedded.up(settings)
    databases.make_template(settings)
    return settings


@pytest.fixture(scope="session")
def worker_database(servers: Settings, worker_id: str) -> Iterator[WorkerDatabase]:
    database = WorkerDatabase(servers, f"t_{worker_id}")
    yield database
    database.close()


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of a migrated database without rows: this xdist worker's, emptied after each test, or the
    test's own where it asks for `own_database` too.

    A test that leaves a process, a session or another schema behind fails.
    """
    if "own_database" in request.fixturenames:
        yield request.getfixturevalue("own_database")
        return
    shared: WorkerDatabase = request.getfixturevalue("worker_database")
    yield shared.url
    left = shared.empty()
    assert not left, f"left behind (ask for `own_database` if it must be): {left}"


@pytest.fixture
def own_database(servers: Settings) -> Iterator[str]:
    """URL of a migrated database that no other test sees, for tests that change its schema or its
    settings, look into the server's books, or cannot end all that they start."""
    with databases.clone(servers, databases.MIGRATED) as url:
        yield url


@pytest.fixture
def empty_database(servers: Settings) -> Iterator[str]:
    """URL of a database without any table."""
    with databases.clone(servers, "template1") as url:
        yield url


@pytest.fixture
def engine(request: pytest.FixtureRequest, database: str) -> Iterator[sa.Engine]:
    """An engine of `database`: this xdist worker's, or the test's own with `own_database`."""
    if "own_database" not in request.fixturenames:
        shared: WorkerDatabase = request.getfixturevalue("worker_database")
        yield shared.engine()
        return
    engine = make_engine(database)
    yield engine
    engine.dispose()


@pytest.fixture
def valkey_url(servers: Settings, worker_id: str) -> str:
    """URL of an empty numbered database of this xdist worker's own."""
    number = 1 + _worker_number(worker_id) % 15
    url = servers.valkey_url.replace("db=0", f"db={number}")
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture
def tiny_url(tmp_path: Path) -> Iterator[str]:
    """URL of a Valkey of the test's own, whose memory is full."""
    with valkey.Server(tmp_path, "--maxmemory", "1") as server:
        yield server.url


@pytest.fixture(scope="session")
def rabbitmq_node(installed_rabbitmq: Path) -> rabbitmq.Node:
    """A RabbitMQ that all xdist workers share, started by the first test that asks for it."""
    node = rabbitmq.Node(Path(os.environ[HOME]) / "rabbitmq", tls=True)
    node.up()
    return node


@pytest.fixture(scope="session")
def installed_rabbitmq() -> Path:
    reason = "RabbitMQ is not installed (Debian: apt install rabbitmq-server)"
    return need(rabbitmq.program(), reason)


@pytest.fixture(scope="session")
def installed_chromium() -> str:
    return browser.need_chromium()


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
