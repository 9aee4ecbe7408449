"""The primary dies in mid-crawl, again and again, and its standby takes over: no row is lost or
doubled, and readers of the feed miss nothing silently. `make failover PROMOTIONS=20` is the long
version."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.infra.database import make_engine
from scraper.settings import Settings
from tests.acceptance.commands import Commands, assert_counted, until
from tests.acceptance.conftest import SampleShop
from tests.support.making import rows
from tests.support.servers.replication import Pair

PROMOTIONS = int(os.environ.get("SCRAPER_PROMOTIONS", "2"))
SEED = int(os.environ.get("SCRAPER_FAILOVER_SEED", "1"))
PRODUCTS = 200 * PROMOTIONS
# What the standby of an asynchronous pair lacks when the primary dies, at least and at most.
LAG_S = (1.0, 5.0)
DOUBLED = "SELECT external_id, count(*) FROM products GROUP BY 1 HAVING count(*) > 1"


@pytest.fixture(params=["asynchronous", "synchronous"])
def pair(
    request: pytest.FixtureRequest, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="pair-") as folder:
        made = Pair(Path(folder), synchronous=request.param == "synchronous")
        monkeypatch.setenv("DATABASE_URL", made.url)
        settings_module.load.cache_clear()
        try:
            yield made
        finally:
            made.close()


@pytest.mark.timeout(300 + 300 * PROMOTIONS)
def test_no_promotion_loses_or_doubles_a_row(
    pair: Pair, run: Commands, sample_shop: Callable[..., SampleShop]
) -> None:
    rng, kind = random.Random(SEED), "synchronous" if pair.synchronous else "asynchronous"
    shop = sample_shop(
        "--products", str(PRODUCTS), "--seed", str(SEED), changes={"rate: unlimited": "rate: 10/s"}
    )
    run.scraper("migrate")
    for process in (run.coordinator(), run.worker("datacenter,residential")):
        run.until_ready(process)
    run.scraper("crawl", "demo")
    engine = make_engine(settings_module.load().postgres_url)
    read: set[str] = set()
    for number in range(PROMOTIONS):
        until(partial(_has_products, engine, 100 * number + rng.randint(20, 120)), 120)
        cursors = _read_changes(run, read)
        if not pair.synchronous:
            pair.detach_standby()
            time.sleep(rng.uniform(*LAG_S))
            cursors += _read_changes(run, read)
        began = _began(engine)
        pair.fail_over()
        until(partial(_goes_on, engine, began), 120)
        goes_on = _check_readers(run, pair, cursors)
        print(
            f"{kind} promotion {number + 1}, seed {SEED}: {goes_on} of {len(cursors)} readers go on, "
            f"{len(cursors) - goes_on} are refused, all were warned"
        )
        pair.add_standby()
    until(lambda: run.crawls()[0]["status"] != "running", 240)
    (crawl,) = run.crawls()
    truth = shop.truth()
    assert (crawl["status"], crawl["dead"]) == ("completed", 0)
    assert_counted(engine, crawl)
    stored = {row[0] for row in rows(engine, "SELECT external_id FROM products")}
    doubled = rows(engine, DOUBLED)
    print(
        f"{kind}: {len(truth.keys() - stored)} of {len(truth)} products lost, {len(doubled)} doubled"
    )
    assert (stored, doubled) == (truth.keys(), [])
    whole = _lines(run.scraper("changes", "--since", "oldest").stdout)
    assert sorted(line["id"] for line in whole) == sorted(truth)
    # A reader that goes on from the cursor of the message has seen everything, and nothing from nowhere.
    assert read | {line["id"] for line in whole} == truth.keys()
    assert "page rejected" not in (logs := run.logs(whole=True)) and "group lost" not in logs
    engine.dispose()


def test_a_primary_that_comes_back_writable_is_not_written_to(pair: Pair, run: Commands) -> None:
    """libpq alone would choose it, since the URL names it first."""
    run.scraper("migrate")
    engine = make_engine(settings_module.load().postgres_url)
    assert rows(engine, "SELECT current_setting('port')") == [(str(pair.ports[0]),)]
    pair.fail_over()
    until(partial(_is_served_by, engine, pair.ports[1]), 60)
    pair.start_replaced()
    engine.dispose()
    for _ in range(3):
        assert _is_served_by(engine, pair.ports[1])
        engine.dispose()
    run.scraper("changes", "--consumer", "lake")
    with pair.connect(node=0) as old, pair.connect(node=1) as new:
        names = "SELECT name FROM consumers"
        assert (old.execute(names).fetchall(), new.execute(names).fetchall()) == ([], [("lake",)])


def _is_served_by(engine: sa.Engine, port: int) -> bool:
    try:
        return rows(engine, "SELECT current_setting('port')") == [(str(port),)]
    except sa.exc.DBAPIError:
        return False


def _read_changes(run: Commands, read: set[str]) -> list[int]:
    lines = _lines(run.scraper("changes", "--since", "oldest").stdout)
    read |= {line["id"] for line in lines}
    return [line["cursor"] for line in lines[-1:]]


def _check_readers(run: Commands, pair: Pair, cursors: list[int]) -> int:
    """A cursor whose row survived goes on; another one is refused, with what to do. Returns how many
    go on."""
    with pair.connect() as connection:
        kept = {id_ for (id_,) in connection.execute("SELECT id FROM changes").fetchall()}
    for cursor in cursors:
        done = run.scraper("changes", "--since", str(cursor), code=0 if cursor in kept else 6)
        assert "PostgreSQL was replaced" in done.stderr
        assert not pair.synchronous or cursor in kept
        if cursor in kept:
            assert {line["cursor"] for line in _lines(done.stdout)} >= {
                id_ for id_ in kept if id_ > cursor
            }
        else:
            assert "scraper export" in done.stderr
    return len(kept.intersection(cursors))


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _has_products(engine: sa.Engine, least: int) -> bool:
    return rows(engine, "SELECT count(*) FROM products")[0] >= (least,)


def _goes_on(engine: sa.Engine, began: int) -> bool:
    return _began(engine) > began


def _began(engine: sa.Engine) -> int:
    """Where the feed goes on since the last failover; 0 while no server answers."""
    try:
        with engine.connect() as connection:
            return int(connection.execute(sa.text("SELECT began FROM feed")).scalar_one())
    except sa.exc.DBAPIError:
        return 0
