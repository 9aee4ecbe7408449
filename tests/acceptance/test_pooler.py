"""Everything through PgBouncer in transaction mode, with fewer server connections than clients."""

from __future__ import annotations

import csv
import json
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.infra import database as access
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.process.watchdog import make_probe_engine
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.support.making import rows
from tests.support.migrating import Migrating, Waiting, writing
from tests.support.next_migrations import INDEX, VALID, NextMigrations, execute
from tests.support.servers import pgbouncer
from tests.support.servers.bad_network import BadNetwork
from tests.support.servers.forked import Process
from tests.support.servers.ports import unused_port

KILLS = 4

CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def pooled_url(servers: Settings, empty_database: str) -> Iterator[str]:
    with pgbouncer.open_pooler(servers, empty_database) as url:
        yield url


@pytest.fixture
def pooled(pooled_url: str, environment: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("DATABASE_URL", pooled_url)
    settings_module.load.cache_clear()
    return settings_module.load()


@pytest.mark.timeout(600)
def test_a_crawl_and_its_readers_through_a_pooler(
    pooled: Settings,
    empty_database: str,
    run: Commands,
    sample_shop: Callable[..., SampleShop],
    tmp_path: Path,
) -> None:
    shop = sample_shop("--products", "400", "--fail-share", "0.02")
    assert "at revision" in run.scraper("migrate").stdout
    coordinator = run.coordinator()
    workers = [run.worker("datacenter,residential") for _ in range(2)]
    for process in (coordinator, *workers):
        run.until_ready(process)
    run.scraper("crawl", "demo", "--wait", timeout_s=240)
    truth = shop.truth()
    lines = run.scraper("changes", "--consumer", "lake").stdout.splitlines()
    assert len(lines) == len(truth)
    assert run.scraper("changes", "--consumer", "lake").stdout == ""
    shop.visit()
    run.scraper("crawl", "demo", "--wait", timeout_s=240)
    (second, first) = run.crawls()
    assert (first["products_new"], first["dead"], second["dead"]) == (len(truth), 0, 0)
    assert len(run.scraper("changes", "--consumer", "lake").stdout.splitlines()) > 0
    product = next(iter(truth))
    for words in (
        ("report", "1"),
        ("history", "demo", product),
        ("why", "demo", product),
        ("products", "demo", "--where", "price>1", "--limit", "5"),
        ("consumers",),
        ("dead", "list"),
        ("host", "list"),
        ("status",),
        ("sites", "list"),
        ("articles",),
        ("psql", "-c", "SELECT 1"),
    ):
        run.scraper(*words)
    logs = run.logs(whole=True)
    assert "Traceback" not in logs and "prepared statement" not in logs
    direct = make_engine(empty_database)
    with direct.connect() as connection:
        assert connection.execute(sa.text(CONNECTIONS)).scalar_one() <= (
            pgbouncer.SERVER_CONNECTIONS
        )
        _add_products(connection, 10_000 - len(truth))
    direct.dispose()
    output = tmp_path / "products.csv"
    run.scraper("export", "demo", "-o", str(output))
    with output.open(newline="") as file:
        assert len({row["id"] for row in csv.DictReader(file)}) >= 10_000


LEASES = "SELECT name FROM consumer_locks ORDER BY name"
HARD = {
    "default_pool_size": 2,
    "server_lifetime": 1,
    "server_idle_timeout": 1,
    "server_reset_query": "DISCARD ALL",
    "server_reset_query_always": 1,
}
ENDED = "SELECT count(*) FROM crawls WHERE finished_at IS NOT NULL"
REJECT = """
CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.external_id = ANY (ARRAY[:ids]) THEN
        RAISE EXCEPTION 'never' USING ERRCODE = '22003';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER reject BEFORE INSERT ON products FOR EACH ROW EXECUTE FUNCTION reject()
"""


@pytest.mark.timeout(900)
def test_a_pooler_that_is_killed_during_a_crawl(
    servers: Settings,
    empty_database: str,
    environment: Settings,
    monkeypatch: pytest.MonkeyPatch,
    run: Commands,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """Its two server connections live for a second. Pages fail, and PostgreSQL rejects three: these
    alone are lost."""
    program = pgbouncer.need_pgbouncer()
    port = unused_port()
    name = sa.make_url(empty_database).database
    monkeypatch.setenv("DATABASE_URL", f"postgresql://scraper@127.0.0.1:{port}/{name}")
    settings_module.load.cache_clear()
    run.env["SCRAPER_BATCH_PAGES"] = "20"
    shop = sample_shop("--products", "400", "--fail-share", "0.02", "--latency-ms", "60")
    rejected = sorted(shop.truth())[100:103]
    direct = make_engine(empty_database)
    processes: list[Process] = []
    for turn in range(KILLS + 1):
        with (
            tempfile.TemporaryDirectory(prefix="pooler-") as folder,
            pgbouncer.pooler(program, servers, Path(folder), port, **HARD),
        ):
            if turn == 0:
                run.scraper("migrate")
                with direct.begin() as connection:
                    ids = ", ".join(f"'{number}'" for number in rejected)
                    connection.execute(sa.text(REJECT.replace(":ids", ids)))
                processes = [
                    run.coordinator(),
                    *(run.worker("datacenter,residential") for _ in range(2)),
                ]
                for process in processes:
                    run.until_ready(process)
                run.scraper("crawl", "demo")
            until(partial(_has_settled, direct, 50 * (turn + 1)), 60)
            if turn == KILLS:
                until(lambda: rows(direct, ENDED) == [(1,)], 240)
                (crawl,) = run.crawls()
                lines = run.scraper("changes", "--consumer", "lake").stdout.splitlines()
                for process in processes:
                    assert process.poll() is None, run.log(process)
                    assert run.end(process) == 0
        time.sleep(2)
    direct.dispose()
    numbers = crawl["status"], crawl["products_new"], crawl["dead"]
    assert numbers == ("completed", len(shop.truth()) - 3, 3), crawl
    assert len(lines) == crawl["products_new"]
    assert "prepared statement" not in run.logs(whole=True)


def _has_settled(engine: sa.Engine, pages: int) -> bool:
    ((settled,),) = rows(engine, "SELECT count(*) FROM pages WHERE status <> 'due'")
    return isinstance(settled, int) and settled >= pages


def _add_products(connection: sa.Connection, count: int) -> None:
    columns = sa.text(
        "SELECT string_agg(attname, ', ') FROM pg_attribute WHERE attrelid = 'products'::regclass"
        " AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('id', 'external_id')"
    )
    names = connection.execute(columns).scalar_one()
    insert = (
        f"INSERT INTO products (external_id, {names}) SELECT 'x' || n, {names}"
        " FROM generate_series(1, :count) n, (SELECT * FROM products LIMIT 1) p"
    )
    connection.execute(sa.text(insert), {"count": count})
    connection.commit()


def test_a_pooled_session_keeps_nothing(
    pooled_url: str, servers: Settings, empty_database: str
) -> None:
    """Neither options nor prepared statements nor locks; in a transaction the options hold."""
    url = pooled_url.replace("postgresql://", "postgresql+psycopg://")
    engine, direct = make_engine(url), make_engine(empty_database)
    shown = sa.text(
        "SELECT current_setting('lock_timeout'), current_setting('timezone'), "
        "current_setting('idle_in_transaction_session_timeout')"
    )
    with engine.connect() as connection, direct.connect() as other:
        for _ in range(20):
            assert tuple(connection.execute(shown).one()) == ("30s", "UTC", "10s")
            connection.rollback()
        assert tuple(other.execute(shown).one()) == ("30s", "UTC", "10s")
        assert [each.connection.driver_connection.is_pooled for each in (connection, other)] == [  # type: ignore[union-attr]
            True,
            False,
        ]
    raw = engine.raw_connection()
    raw.driver_connection.autocommit = True  # type: ignore[union-attr]
    cursor = raw.cursor()
    cursor.execute("SELECT current_setting('lock_timeout'), count(*) FROM pg_prepared_statements")
    assert cursor.fetchone() == ("0", 0)
    raw.close()  # type: ignore[no-untyped-call]
    engine.dispose()
    direct.dispose()


def test_a_pooled_reply_is_lost(pooled_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a transaction the server knows whether it works; a statement outside has a limit."""
    monkeypatch.setattr(access, "SILENT_S", 0.3)
    monkeypatch.setattr(access, "HIDDEN_S", 3.0)
    url = sa.make_url(pooled_url)
    assert url.port is not None
    with BadNetwork(url.port) as network:
        far = url.set(drivername="postgresql+psycopg", port=network.port)
        engine = make_engine(far.render_as_string())
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_sleep(4)"))
        for is_transaction in (True, False):
            connection = engine.connect()
            if not is_transaction:
                connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.execute(sa.text("SELECT pg_sleep(1)"))
            network.open_hole(loses=True)
            network.close_hole()
            with pytest.raises(sa.exc.OperationalError, match="reply was lost"):
                connection.execute(sa.text("SELECT 1"))
            connection.close()
        engine.dispose()


def test_a_transaction_waits_for_a_session_of_a_busy_pooler(
    servers: Settings, own_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reply is lost: the pooler has not passed on the statement yet."""
    monkeypatch.setattr(access, "SILENT_S", 0.3)
    monkeypatch.setattr(access, "ARRIVES_S", 0.3)
    with _open_session(servers, own_database) as url:
        engine = make_engine(url)
        # Its first connection asks which session it has.
        engine.connect().close()
        with ThreadPoolExecutor() as pool:
            with engine.begin() as connection:
                connection.execute(sa.text("SELECT 1"))
                waiting = [pool.submit(rows, engine, "SELECT 2") for _ in range(3)]
                time.sleep(4)
            assert [each.result(60) for each in waiting] == [[(2,)]] * 3
        engine.dispose()


def test_the_watchdog_prepares_nothing_in_sessions_of_a_pooler(
    servers: Settings, own_database: str
) -> None:
    with _open_session(servers, own_database) as url:
        engine = make_probe_engine(url)
        for _ in range(3):
            with engine.connect() as connection:
                for history in migrations.histories() * 6:
                    migrations.read_newer(connection, history, history.head())
        assert rows(engine, "SELECT name FROM pg_prepared_statements") == []


@contextmanager
def _open_session(servers: Settings, database: str) -> Iterator[str]:
    """Yields the URL of a pooler that has one connection to PostgreSQL."""
    with pgbouncer.open_pooler(servers, database, default_pool_size=1) as url:
        yield url.replace("postgresql:", "postgresql+psycopg:", 1)


@pytest.mark.timeout(600)
def test_followers_leave_the_sessions_of_a_pooler_to_others(
    servers: Settings,
    empty_database: str,
    environment: Settings,
    monkeypatch: pytest.MonkeyPatch,
    run: Commands,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """Two sessions serve a crawl and two followers, and a pause does not wait for the followers."""
    shop = sample_shop("--products", "300")
    two = {"default_pool_size": 2, "admin_users": "scraper"}
    with pgbouncer.open_pooler(servers, empty_database, **two) as url:
        monkeypatch.setenv("DATABASE_URL", url)
        settings_module.load.cache_clear()
        run.scraper("migrate")
        followers = [
            run.start("scraper", "changes", "--consumer", consumer, "--follow")
            for consumer in ("lake", "search")
        ]
        direct = make_engine(empty_database)
        until(lambda: len(rows(direct, LEASES)) == 2, 60)
        done = run.scraper("changes", "--consumer", "lake", code=1)
        assert "another process reads as consumer 'lake'" in done.stderr
        for _ in range(3):
            # A command without an answer would end the connection after 20 s.
            pgbouncer.pause(url)
            pgbouncer.ask_console(url, "RESUME")
        for process in (run.coordinator(), run.worker("datacenter,residential")):
            run.until_ready(process)
        run.scraper("crawl", "demo", "--wait", timeout_s=240)
        truth = sorted(shop.truth())
        for follower in followers:
            until(lambda follower=follower: run.log(follower).count("\n") >= len(truth), 60)  # type: ignore[misc]
            lines = run.log(follower).splitlines()
            assert sorted(json.loads(line)["id"] for line in lines) == truth
        # The lease of a killed reader ends by itself, that of another one at once.
        run.end(followers[0], signal.SIGKILL)
        assert run.end(followers[1]) == 0
        assert rows(direct, LEASES) == [("lake",)]
        assert run.scraper("changes", "--consumer", "lake").stdout == ""
        assert rows(direct, LEASES) == []
        direct.dispose()


def test_an_index_may_take_longer_than_other_statements_through_a_pooler(
    pooled: Settings,
    empty_database: str,
    run: Commands,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run.scraper("migrate")
    monkeypatch.setattr(access, "SILENT_S", 0.5)
    following = NextMigrations(tmp_path / "versions")
    monkeypatch.setattr(migrations, "CORE", following.history)
    following.add(INDEX)
    engine, direct = make_engine(pooled.postgres_url), make_engine(empty_database)
    with writing(direct):
        migrating = Migrating(engine)
        # Each look is a transaction of its own: within one PostgreSQL remembers that a name was free.
        until(lambda: rows(direct, VALID) == [(False,)] or migrating.error, 30)
        assert migrating.error is None
        monkeypatch.setattr(access, "HIDDEN_S", 1.0)
        time.sleep(4)
        assert migrating.error is None
    migrating.end()
    assert migrating.error is None
    assert rows(direct, VALID) == [(True,)]
    engine.dispose()
    direct.dispose()


def test_an_index_is_built_and_a_busy_table_changed_through_a_pooler(
    pooled: Settings,
    empty_database: str,
    run: Commands,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run.scraper("migrate")
    following = NextMigrations(tmp_path / "versions")
    monkeypatch.setattr(migrations, "CORE", following.history)
    following.add(execute("ALTER TABLE pages ADD COLUMN colour text"))
    following.add(INDEX)
    engine, direct = make_engine(pooled.postgres_url), make_engine(empty_database)
    with writing(direct):
        migrating = Migrating(engine)
        migrating.until_said("a table is in use")
        waiting = Waiting(engine)
        waiting.until_said("waits for another process")
    migrating.end()
    waiting.end()
    assert (migrating.error, waiting.error) == (None, None)
    with engine.connect() as connection:
        assert connection.execute(sa.text(VALID)).scalar() is True
        shown = connection.execute(sa.text("SHOW lock_timeout"))
        assert shown.scalar() == "30s"
    with engine.connect() as connection:
        held = sa.text(
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
        assert connection.execute(held).scalar() == 0
    engine.dispose()
    direct.dispose()
