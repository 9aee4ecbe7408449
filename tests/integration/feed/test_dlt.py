"""docs/dlt_feed.py, run as it is written: every change once in dlt's destination, over runs that are
killed at each stage."""

from __future__ import annotations

import json
import signal
import time
from decimal import Decimal
from glob import glob
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa

from scraper.feed import reader as feed
from tests.support.judged_crawls import priced
from tests.support.making import rows
from tests.support.servers import forked
from tests.support.servers.forked import ROOT
from tests.support.shops.crawled_shop import B, Shop

EXAMPLE = ROOT / "docs" / "dlt_feed.py"
PROGRAM = """
import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# Many changes, so that a run takes a while.
MANY = """
INSERT INTO changes (product_id, crawl_id, site_id, version, previous_version, event)
SELECT p.id, p.crawl_id, p.site_id, p.version, NULL, 'relisted'
  FROM products p, generate_series(1, 20000) WHERE p.external_id = '7'
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path / "dlt"))
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")


def run(engine: sa.Engine, *words: str) -> forked.Forked:
    url = engine.url.render_as_string(hide_password=False)
    return forked.start_program(PROGRAM, str(EXAMPLE), url, *words, out=1, err=2)


def files(folder: Path, pattern: str) -> set[str]:
    """Those below the folder; folders that vanish in that time, which `rglob` fails at, have none."""
    return set(glob(f"{folder}/**/{pattern}", recursive=True))


def loaded(folder: Path) -> list[tuple[int, str, str]]:
    with duckdb.connect(str(folder / "shops.duckdb"), read_only=True) as connection:
        query = "SELECT cursor, event, data FROM feed.changes ORDER BY cursor"
        return connection.execute(query).fetchall()


@pytest.mark.slow
def test_every_change_comes_once_whenever_a_run_is_killed(
    engine: sa.Engine, tmp_path: Path
) -> None:
    shop = Shop(engine)
    priced(shop, "20.00", "9.50")
    assert run(engine).wait(120) == 0
    assert [row[0] for row in loaded(tmp_path)] == [one.cursor for one in feed.read(engine, 0)]
    with engine.begin() as connection:
        connection.execute(sa.text(MANY))
    state = tmp_path / "dlt" / "pipelines" / "scraper_feed"
    # Killed once it has extracted, normalised, and begun to load: there is a file of each then.
    for stage, pattern in (("normalize", "*"), ("load", "*.insert*"), ("load", "started_jobs/*")):
        before = files(state / stage, pattern)
        process = run(engine)
        while process.poll() is None and files(state / stage, pattern) <= before:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, stage
        priced(shop, f"{10 + len(pattern)}.00")
    shop.once(external_id="8", url=B, name="B", price=Decimal("5.00"), price_currency="USD")
    for _ in range(2):
        assert run(engine).wait(120) == 0
    came = loaded(tmp_path)
    expected = [row[0] for row in rows(engine, "SELECT id FROM changes ORDER BY id")]
    assert [row[0] for row in came] == expected, "none missed, none doubled"
    _, event, data = came[-1]
    assert (event, json.loads(data)["price"], json.loads(data)["price_currency"]) == (
        *("new", 5, "USD"),
    )


@pytest.mark.slow
def test_it_goes_on_from_the_last_common_cursor(engine: sa.Engine, tmp_path: Path) -> None:
    """Another PostgreSQL lacks the last change: it is refused, until the cursor is given."""
    shop = Shop(engine)
    priced(shop, "20.00", "9.50")
    assert run(engine).wait(120) == 0
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM changes WHERE id = (SELECT max(id) FROM changes)"))
        connection.execute(sa.text("UPDATE feed SET server = 'another'"))
    ((common,),) = rows(engine, "SELECT max(id) FROM changes")
    priced(shop, "8.00")
    assert run(engine).wait(120) == 1
    for words in ([str(common)], []):
        assert run(engine, *words).wait(120) == 0
    expected = [row[0] for row in rows(engine, "SELECT id FROM changes ORDER BY id")]
    assert [row[0] for row in loaded(tmp_path)] == expected
