"""How a worker, a coordinator and beat live through the absence of their servers, and how they end.

Servers that are killed here are the test's own, under a home of its own.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
import sqlalchemy as sa

from scraper.domain import Message
from scraper.errors import RESTART_CODE
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.plugins.embedded import servers
from scraper.runtime.beat import WAITING_MAX
from scraper.settings import Settings
from tests.acceptance.commands import Commands, commands, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.processes import Process, assert_quiet, said, send

STALE = Message(
    "fetch_products", "datacenter", {"lease_id": "00000000-0000-0000-0000-000000000000"}
)

OF_ONE_WORKER = """
SELECT count(*) FROM pg_stat_activity
 WHERE usename = 'one_worker' AND datname = current_database()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Servers of the test's own, migrated, that it may kill."""
    monkeypatch.setenv("SCRAPER_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("SCRAPER_SITES", str(tmp_path / "sites"))
    settings = Settings()
    servers.up(settings)
    engine = make_engine(settings.postgres_url)
    migrations.upgrade(engine)
    engine.dispose()
    yield settings
    servers.down(settings)


@pytest.fixture
def own_run(own: Settings, tmp_path: Path) -> Iterator[Commands]:
    with commands(tmp_path / "logs") as found:
        yield found


def children(process: Process) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def beat_of(process: Process) -> psutil.Process:
    found: list[psutil.Process] = until(lambda: children(process), 30)
    return found[0]


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Every step hangs then, until it gives up on the lock after half a minute."""
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql")) as connection:
        connection.execute("LOCK TABLE sites, crawls, pages, leases")
        yield


def until_a_step_hangs(engine: sa.Engine) -> None:
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    query += " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        until(lambda: connection.execute(sa.text(query)).scalar(), 30)


def test_servers_that_are_killed_and_come_back(own: Settings, own_run: Commands) -> None:
    """Both in turn, Redis emptied as well: one line when it goes, one when it is back, and work
    goes on. PostgreSQL does not come back a second time: all end with code 3."""
    run = own_run
    run.env |= {"SCRAPER_AWAY_S": "10", "SCRAPER_STOP_S": "1"}
    coordinator, worker = run.coordinator(), run.worker("datacenter", "-c", "2")
    for process in (coordinator, worker):
        run.until_ready(process)
    beat = beat_of(coordinator)

    with locked(own.postgres_url), redis.Redis.from_url(own.valkey_url) as client:
        for _ in range(8):
            send(own, STALE)
        # messages whose tasks have not begun
        until(lambda: client.hlen("unacked") >= 2, 30)
        servers.kill(own, "valkey")
        until(lambda: all(said(run, each, "Redis is away") for each in (coordinator, worker)), 30)
    servers.up(own)
    with redis.Redis.from_url(own.valkey_url) as client:
        until(lambda: all(said(run, each, "Redis is back") for each in (coordinator, worker)), 60)
        for message in (STALE, Message("finish", "coordinator", {"crawl_id": 0})):
            send(own, message)
            until(lambda queue=message.queue: not client.exists(queue), 60)
    assert beat.is_running()

    servers.kill(own, "postgres")
    until(lambda: said(run, coordinator, "PostgreSQL is away"), 30)
    servers.up(own)
    until(lambda: said(run, coordinator, "PostgreSQL is back"), 60)
    assert coordinator.poll() is None and worker.poll() is None
    assert said(run, worker, "Redis is away") == 1 and said(run, coordinator, "Redis is away") in (
        1,
        2,
    )  # beat is one, too
    for process in (coordinator, worker):
        assert_quiet(run, process)

    servers.kill(own, "postgres")
    send(own, STALE)
    for process in (coordinator, worker):
        assert process.wait(120) == 3, run.log(process)
        assert said(run, process, "gives up") == 1
        assert_quiet(run, process)
    until(lambda: not beat.is_running(), 30)


def test_a_second_signal_quits_now(run: Commands, engine: sa.Engine, database: str) -> None:
    """The first one waits for the step that hangs; the second does not, and leaves no beat behind."""
    with locked(database):
        coordinator = run.coordinator()
        run.until_ready(coordinator)
        until_a_step_hangs(engine)
        beat = beat_of(coordinator)
        coordinator.terminate()
        until(lambda: said(run, coordinator, "Warm shutdown"), 30)
        time.sleep(1)
        assert coordinator.poll() is None
        coordinator.terminate()
        assert coordinator.wait(120) == 128 + signal.SIGTERM
    assert said(run, coordinator, "SIGTERM again: quits now") == 1
    until(lambda: not beat.is_running(), 30)


def test_sigquit_and_ctrl_c(run: Commands) -> None:
    first, second = run.worker("datacenter"), run.worker("datacenter")
    run.until_ready(first)
    run.until_ready(second)
    assert run.end(first, signal.SIGQUIT) == 128 + signal.SIGQUIT
    assert run.end(second, signal.SIGINT) == 0


def test_what_hangs_ends_all_the_same(run: Commands, engine: sa.Engine, database: str) -> None:
    run.env["SCRAPER_STOP_S"] = "0"
    with locked(database):
        coordinator = run.coordinator()
        run.until_ready(coordinator)
        until_a_step_hangs(engine)
        coordinator.terminate()
        assert coordinator.wait(120) == 1
    assert said(run, coordinator, "could not end in time") == 1


def test_too_large_a_process_ends_to_be_started_again(run: Commands) -> None:
    """Warmly, and its beat with it."""
    coordinator = run.coordinator(env={"SCRAPER_MEMORY_MAX_MB": "50"})
    run.until_ready(coordinator)
    beat = beat_of(coordinator)
    assert said(run, coordinator, "right after its start") == 1
    assert coordinator.wait(120) == RESTART_CODE
    assert said(run, coordinator, "grown too large") == 1
    until(lambda: not beat.is_running(), 10)
    assert "Traceback" not in run.log(coordinator)


def test_a_worker_ends_on_sighup_to_be_started_again(run: Commands) -> None:
    worker = run.worker("datacenter")
    run.until_ready(worker)
    assert run.end(worker, signal.SIGHUP) == RESTART_CODE


def test_a_coordinator_whose_beat_dies_ends_to_be_started_again(run: Commands) -> None:
    """However soon that happens, and no more often than every ten seconds."""
    coordinator = run.coordinator()
    run.until_ready(coordinator)
    beat_of(coordinator).kill()
    assert coordinator.wait(120) == RESTART_CODE
    assert said(run, coordinator, "beat died: ends") == 1


@pytest.mark.usefixtures("own_database")
def test_a_database_of_another_revision(run: Commands, engine: sa.Engine) -> None:
    coordinator = run.coordinator()
    run.until_ready(coordinator)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(sa.text("ALTER TABLE leases RENAME TO leases_of_tomorrow"))
    assert coordinator.wait(120) == 3
    assert said(run, coordinator, "the database is at revision 9999") == 1


def test_beat_stops_where_no_broker_listens(run: Commands, valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        client.lpush("coordinator", *(["{}"] * (WAITING_MAX + 5)))
        beat = run.start("celery", "-A", "scraper", "beat")
        until(lambda: said(run, beat, "coordinator queue has no consumer"), 60)
        assert client.llen("coordinator") == WAITING_MAX + 5
        client.delete("coordinator")
        until(lambda: said(run, beat, "has a consumer again"), 30)
        until(lambda: sum(client.llen(key) for key in client.keys("coordinator*")), 30)
    assert run.end(beat) == 0
    assert not list(Path.cwd().glob("celerybeat-schedule*"))


def test_a_worker_opens_at_most_three_connections(
    own_database: str,
    environment: Settings,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """As docs/how-to/production.md counts them, seen all the time in a crawl of 1,000 products."""
    sample_shop("--products", "1000", "--fail-share", "0.02")
    with engine.begin() as connection:
        connection.execute(sa.text("DROP ROLE IF EXISTS one_worker"))
        connection.execute(sa.text("CREATE ROLE one_worker LOGIN SUPERUSER"))
    url = own_database.replace("://scraper@", "://one_worker@")
    run.coordinator()
    worker = run.worker("residential,datacenter", "-c", "8", env={"DATABASE_URL": url})
    run.until_ready(worker)
    counts, ended = set(), threading.Event()

    def count() -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while not ended.wait(0.005):
                counts.add(connection.execute(sa.text(OF_ONE_WORKER)).scalar_one())

    counting = threading.Thread(target=count)
    counting.start()
    crawl = run.crawl(engine, "demo")
    ended.set()
    counting.join()
    run.end(worker)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP ROLE one_worker"))
    assert crawl["products_new"] == 1000
    assert 1 <= max(counts) <= 3
