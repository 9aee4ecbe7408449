"""The feed as it is used: consumers of different speeds during crawls, processes that are killed,
pipes that break."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
import redis
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, until, until_completed
from tests.acceptance.conftest import SampleShop
from tests.support.making import a_site, keep
from tests.support.servers.forked import BIN, ROOT

STREAM = {"SCRAPER_CHANGES_STREAM": "feed"}


def records(text: str) -> list[dict[str, Any]]:
    return [
        json.loads(line, parse_float=Decimal) for line in text.splitlines() if line.startswith("{")
    ]


def stored(engine: sa.Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(sa.text("SELECT id FROM changes ORDER BY id")).scalars())


def applied(
    state: dict[str, dict[str, Any]], changes: list[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What a consumer has after them: the products that are listed, with their data."""
    state = dict(state)
    for change in changes:
        if change["event"] == "delisted":
            del state[change["id"]]
        else:
            state[change["id"]] = change["data"]
    return state


def truth(engine: sa.Engine) -> dict[str, dict[str, Any]]:
    query = sa.text(
        "SELECT external_id, CAST(data AS text) AS data FROM products WHERE delisted_at IS NULL"
    )
    with engine.connect() as connection:
        return {
            row.external_id: json.loads(row.data, parse_float=Decimal)
            for row in connection.execute(query)
        }


def test_three_consumers_read_two_crawls_and_more(
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
    tmp_path: Path,
    environment: Settings,
) -> None:
    """One follows, one is a Redis consumer group, one comes now and then by name and is killed: the
    same sequence, once. An export that is taken while a crawl writes, and what follows its cursor,
    come to the same as well."""
    shop = sample_shop("--products", "300")
    run.env |= STREAM
    run.coordinator()
    for queues in ("datacenter", "residential"):
        run.until_ready(run.worker(queues))
    follower = run.start("scraper", "changes", "--follow", "--since", "now", "--json")
    now_and_then: list[dict[str, Any]] = []
    run.crawl(engine, "demo", timeout_s=120)
    now_and_then += records(run.scraper("changes", "demo", "--consumer", "slow").stdout)
    shop.visit()
    crawl_id = int(run.scraper("crawl", "demo").stdout)
    exported = tmp_path / "during.jsonl"
    told = run.json("export", "demo", "-o", str(exported))
    until_completed(engine, crawl_id, 120)
    assert run.crawls("demo")[0]["phase"] in ("completed", "completed with dead pages")
    killed = run.start("scraper", "changes", "demo", "--consumer", "slow", "--follow")
    until(lambda: run.log(killed).count("\n") > 3, 30)
    run.end(killed, signal.SIGKILL)
    again = records(run.log(killed))
    for _ in range(2):
        run.crawl(engine, "demo", timeout_s=120)
    rest = records(run.scraper("changes", "demo", "--consumer", "slow").stdout)

    every = stored(engine)
    events = [change["event"] for change in records(run.scraper("changes", "demo").stdout)]
    assert {"new", "changed", "delisted"} <= set(events) and len(events) == len(every)
    until(lambda: len(records(run.log(follower))) >= len(every), 30)
    assert run.end(follower) == 0
    followed = records(run.log(follower))
    assert [change["cursor"] for change in followed] == every

    slow = [change["cursor"] for change in now_and_then + again + rest]
    assert list(dict.fromkeys(slow)) == every, (
        "in order, and at least once; what the killed one had not noted comes again"
    )

    with redis.Redis.from_url(environment.valkey_url, decode_responses=True) as client:
        until(lambda: client.xlen("feed") >= len(every), 30)
        client.xgroup_create("feed", "index", id="0")
        grouped: list[dict[str, Any]] = []
        while batch := client.xreadgroup("index", "one", {"feed": ">"}, count=50):
            for entry, fields in batch[0][1]:
                grouped.append(json.loads(fields["change"], parse_float=Decimal))
                client.xack("feed", "index", entry)
    assert grouped == followed

    assert applied({}, followed) == truth(engine)
    columns = {"id", "url", "first_seen_at", "changed_at", "fetched_at", "delisted_at"}
    at_export = {
        row["id"]: {
            name: value for name, value in row.items() if name not in columns and value is not None
        }
        for row in records(exported.read_text())
    }
    after = [change for change in followed if change["cursor"] > told["cursor"]]
    before = applied({}, [change for change in followed if change["cursor"] <= told["cursor"]])
    assert (
        told["exact"]
        and after
        and at_export == before
        and applied(at_export, after) == truth(engine)
    )


@pytest.fixture
def products(engine: sa.Engine) -> int:
    """A site "shop" with a few products, and this many changes."""
    site = a_site(
        product={"fields": {"title": "h1", "price": {"css": "b", "type": "price"}}}, revisit="0s"
    )
    keep(engine, site, {str(n): {"title": f"no. {n}", "price": Decimal(n)} for n in range(5)})
    return 5


def change(engine: sa.Engine, count: int = 1) -> None:
    query = """INSERT INTO changes (site_id, product_id, crawl_id, version, event)
               SELECT site_id, id, crawl_id, version, 'relisted' FROM products, generate_series(1, :count)
                WHERE external_id = '1'"""
    with engine.begin() as connection:
        connection.execute(sa.text(query), {"count": count})


def test_a_consumer_is_one_process_and_ends_well(
    run: Commands, engine: sa.Engine, products: int
) -> None:
    first = run.start("scraper", "changes", "--consumer", "one", "--follow")
    until(lambda: len(records(run.log(first))) == products, 30)
    assert (
        "another process reads as consumer 'one'"
        in run.scraper("changes", "--consumer", "one", code=1).stderr
    )
    assert len(records(run.scraper("changes", "--consumer", "two").stdout)) == products
    change(engine)
    until(lambda: len(records(run.log(first))) == products + 1, 30)
    for number in (signal.SIGTERM, signal.SIGINT):
        assert run.end(first, number) == 0
        first = run.start("scraper", "changes", "--consumer", "one", "--follow")
        change(engine)
        until(lambda: len(records(run.log(first))) == 1, 30)  # noqa: B023
    run.end(first)


def test_a_follower_outlives_its_connections(
    run: Commands, engine: sa.Engine, products: int
) -> None:
    follower = run.start("scraper", "changes", "--consumer", "one", "--follow")
    until(lambda: len(records(run.log(follower))) == products, 30)
    for _ in range(3):
        url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                              WHERE datname = current_database() AND pid <> pg_backend_pid()""")
        engine.dispose()
        change(engine, 2)
        wanted = stored(engine)
        until(lambda: [one["cursor"] for one in records(run.log(follower))] == wanted, 30)  # noqa: B023
    assert "goes on when it does" in run.log(follower)
    assert run.end(follower) == 0


def test_a_reader_of_the_pipe_that_leaves(run: Commands, engine: sa.Engine, products: int) -> None:
    change(engine, 5000)
    for words in (("changes",), ("changes", "--follow"), ("changes", "--consumer", "one")):
        process = subprocess.Popen(
            [BIN / "scraper", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        assert process.wait(120) == 0 and errors == ""
    (one,) = run.json("consumers")
    assert one["behind"] > 0, "what nobody has read is not noted as read"
    idle = subprocess.Popen(
        [BIN / "scraper", "changes", "--follow", "--since", "now"], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert idle.stdout is not None
    idle.stdout.close()
    assert idle.wait(120) == 0, "noticed without a change"


def test_parquet_by_the_command(
    run: Commands, engine: sa.Engine, products: int, tmp_path: Path, bucket: str
) -> None:
    out = tmp_path / "shop.parquet"
    done = run.scraper("export", "shop", "--format", "parquet", "-o", str(out))
    assert (
        "5 products written to" in done.stderr and "scraper changes shop --since 5" in done.stderr
    )
    found = {row["id"]: row["price"] for row in pq.read_table(out).to_pylist()}
    assert found == {external_id: data["price"] for external_id, data in truth(engine).items()}
    told = run.json(
        "export", "shop", "--format", "parquet", "-o", f"{bucket}/shop.parquet", "--since", "2"
    )
    assert (told["products"], told["cursor"], told["since"]) == (3, 5, 2)
    assert "--output is missing" in run.scraper("export", "shop", "--json", code=2).stderr
    assert "--output FILE" in run.scraper("export", "shop", "--format", "parquet", code=2).stderr
