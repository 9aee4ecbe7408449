"""A database that is migrated, backed up and restored while its crawls run.

The processes are of the release before: the migrations of the next one are in a folder that they do
not know.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa

from scraper import models
from scraper.infra import migrations
from scraper.infra.database import make_engine
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.killed_crawl import SHOP, SLOWER, Crawl
from tests.acceptance.processes import said
from tests.support.migrating import Migrating, writing
from tests.support.next_migrations import HEAD, INDEX, NextMigrations, execute

COMPATIBLE = "the database is newer than this program, and compatible"


@pytest.fixture
def crawl(
    own_database: str,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
    tmp_path: Path,
) -> Crawl:
    return Crawl(run, engine, sample_shop(*SHOP, changes=SLOWER))


@pytest.fixture
def following(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NextMigrations:
    following = NextMigrations(tmp_path / "versions")
    monkeypatch.setattr(migrations, "CORE", following.history)
    return following


@pytest.mark.timeout(900)
def test_expansions_in_the_middle_of_a_crawl(crawl: Crawl, following: NextMigrations) -> None:
    """Each table gets a column and one a further index, while a report keeps `pages` in use. Then
    processes of the former release replace each other."""
    for table in models.Base.metadata.sorted_tables:
        column = f"ALTER TABLE {table.name} ADD COLUMN of_tomorrow text DEFAULT 'x' NOT NULL"
        following.add(execute(column))
    following.add(INDEX)
    crawl.shop.options(latency_ms=1200)
    crawl.until_fetched(0.1)
    crawl.shop.options(latency_ms=3000)
    with writing(crawl.engine):
        migrating = Migrating(crawl.engine)
        migrating.until_said("a table is in use")
        crawl.shop.options(latency_ms=1200)
        fetched = crawl.rows("SELECT count(*) FROM pages WHERE status <> 'due'")[0][0]
        assert isinstance(fetched, int)
        until(
            lambda: (
                crawl.rows(f"SELECT count(*) > {fetched} + 20 FROM pages WHERE status <> 'due'")
                == [(True,)]
            ),
            60,
        )
        crawl.shop.options(latency_ms=3000)
    migrating.end()
    assert migrating.error is None, migrating.error
    assert crawl.rows("SELECT version_num FROM alembic_version") == [(following.last,)]
    assert crawl.progress()["status"] == "running", "too late to disturb it"
    former = [crawl.coordinator, crawl.worker]
    new = [crawl.run.coordinator(), crawl.run.worker("residential,datacenter")]
    for process in new:
        crawl.run.until_ready(process)
    until(lambda: all(said(crawl.run, process, COMPATIBLE) for process in former), 60)
    for process in former:
        assert crawl.run.end(process) == 0
    crawl.worker = new[1]
    crawl.shop.options(latency_ms=20)
    crawl.until_completed(120)
    crawl.assert_exact()
    asked = [target for _, target, _ in crawl.shop.log()]
    assert len(asked) == len(set(asked)), "nothing is asked twice"
    assert crawl.rows("SELECT count(*) FROM pages WHERE losses > 0") == [(0,)]
    logs = crawl.run.logs(whole=True)
    assert "Traceback" not in logs, logs
    assert all(said(crawl.run, process, COMPATIBLE) <= 1 for process in (*former, *new))
    assert all(process.poll() is None for process in new)


@pytest.mark.timeout(900)
def test_statements_that_were_prepared_before_an_expansion(
    own_database: str,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """A prepared statement fails if its columns are not what they were: `SELECT *`."""
    sample_shop("--products", "40")
    processes = [
        run.worker("coordinator", "-B", "-I", "tests.support.prepared"),
        run.worker("residential,datacenter", "-I", "tests.support.prepared"),
    ]
    assert run.crawl(engine, "demo")["status"] == "completed"
    for table in models.Base.metadata.sorted_tables:
        # As migrations do: two tables of one transaction deadlock with a reader of both.
        with engine.begin() as connection:
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN of_tomorrow text"))
    assert run.crawl(engine, "demo", "--refetch")["status"] == "completed"
    assert run.crawl(engine, "demo")["status"] == "completed"
    for process in processes:
        assert run.end(process) == 0
    assert "Traceback" not in run.logs(whole=True)
    assert "cached plan" not in run.logs(whole=True)


@pytest.mark.timeout(900)
def test_a_contraction_ends_processes_that_cannot_go_on(
    crawl: Crawl, following: NextMigrations
) -> None:
    following.add(
        execute("ALTER TABLE leases RENAME TO leases_of_tomorrow"),
        execute("ALTER TABLE leases_of_tomorrow RENAME TO leases"),
        compatible=None,
    )
    crawl.until_fetched(0.2)
    migrations.upgrade(crawl.engine)
    for process in (crawl.worker, crawl.coordinator):
        assert process.wait(240) == 3
        assert said(crawl.run, process, f"the database is at revision {following.last}, newer than")
    late = crawl.run.worker("residential,datacenter")
    assert late.wait(120) == 3
    assert f"which has {HEAD}; it needs {following.last}" in crawl.run.log(late)
    migrations.downgrade(crawl.engine, HEAD)
    crawl.coordinator, crawl.worker = (
        crawl.run.coordinator(),
        crawl.run.worker("residential,datacenter"),
    )
    crawl.until_completed(120)
    crawl.assert_exact()


def program(name: str) -> str:
    """PostgreSQL's client program of the embedded wheel, as the cookbook finds it."""
    found = next(Path(sys.prefix).resolve().rglob(f"pginstall/bin/{name}"), None)
    path = str(found) if found else shutil.which(name)
    assert path is not None
    return path


@pytest.mark.timeout(900)
def test_a_backup_of_a_running_crawl_goes_on_elsewhere(
    crawl: Crawl,
    empty_database: str,
    valkey_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On another database, with an empty Redis, after more was fetched than the backup has. Readers of
    the feed are warned."""
    dump = tmp_path / "scraper.dump"
    crawl.shop.options(latency_ms=1200)
    crawl.until_fetched(0.3)
    crawl.run.scraper("changes", "--consumer", "lake")
    url = crawl.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    subprocess.run([program("pg_dump"), "-Fc", "-f", dump, url], check=True, timeout=240)
    crawl.until_fetched(0.5)
    for process in (crawl.coordinator, crawl.worker):
        crawl.run.end(process)
    last = crawl.run.scraper("changes", "--consumer", "lake").stdout.splitlines()[-1]
    lost = str(json.loads(last)["cursor"])
    restored = empty_database.replace("postgresql+psycopg://", "postgresql://")
    words = [program("pg_restore"), "--no-owner", "--exit-on-error", "--dbname", restored, dump]
    subprocess.run(words, check=True, timeout=240)
    monkeypatch.setenv("DATABASE_URL", empty_database)
    crawl.shop.options(latency_ms=20)
    with redis.Redis.from_url(valkey_url) as client:
        client.flushdb()
    crawl.engine = make_engine(empty_database)
    refused = crawl.run.scraper("changes", "--since", lost, code=6)
    assert "go on from cursor" in refused.stderr
    held = crawl.rows("SELECT count(*) FROM pages WHERE status = 'due'")
    assert held != [(0,)], "the backup has an unfinished crawl"
    crawl.run.coordinator()
    crawl.worker = crawl.run.worker("residential,datacenter")
    crawl.until_completed(120)
    crawl.assert_exact()
    crawl.run.scraper("changes", "--since", lost, code=6)
    consumer = crawl.run.scraper("changes", "--consumer", "lake")
    assert "PostgreSQL was replaced" in consumer.stderr
    whole = crawl.run.scraper("changes", "--consumer", "all").stdout.splitlines()
    assert len(consumer.stdout.splitlines()) < len(whole) == len(crawl.shop.truth())
    assert "at revision" in crawl.run.scraper("migrate").stdout
    crawl.engine.dispose()
