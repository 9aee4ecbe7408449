"""Machines whose clocks are ten minutes apart. Times are those of PostgreSQL and Redis, so nothing
changes: products once, leases kept, the shop asked no faster than its definition allows."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.acceptance.commands import Commands
from tests.acceptance.conftest import SampleShop
from tests.acceptance.killed_crawl import SHOP, Crawl
from tests.acceptance.processes import said
from tests.support.machine import need

SOURCE = Path(__file__).parents[1] / "support" / "wrong_clock.c"
APART_S = 600
RATE = 25
# On a busy machine a request arrives this much later than it left.
WINDOW_S, LATE_S = 4.0, 0.5


@pytest.fixture(scope="session")
def wrong_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that moves a process's time of day."""
    compiler = need(shutil.which("gcc"), "gcc is not installed (Debian: apt install gcc libc6-dev)")
    library = tmp_path_factory.mktemp("clock") / "wrong_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    return library


@pytest.fixture
def clock(wrong_clock: Path) -> Callable[[int], Mapping[str, str]]:
    """The environment of a machine whose clock is wrong by that many seconds."""
    return lambda wrong_s: {"LD_PRELOAD": str(wrong_clock), "WRONG_CLOCK_S": str(wrong_s)}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("coordinator_s", [0, -APART_S, APART_S])
def test_clocks_are_apart(
    clock: Callable[[int], Mapping[str, str]],
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
    coordinator_s: int,
) -> None:
    """A coordinator that is ten or twenty minutes behind or ahead of a worker, too."""
    run.env["SCRAPER_BATCH_PAGES"] = "20"
    # While the shop gets no CPU, as many requests wait in its sockets, and then have one time in
    # its log.
    changes = {"rate: unlimited": f"rate: {RATE}/s", "concurrency: 16": "concurrency: 8"}
    shop = sample_shop(*SHOP, changes=changes)
    workers = [
        run.worker("residential,datacenter", env=clock(wrong_s)) for wrong_s in (APART_S, -APART_S)
    ]
    for worker in workers:
        run.until_ready(worker)
    crawl = Crawl(run, engine, shop, start=lambda: run.coordinator(env=clock(coordinator_s)))
    crawl.until_completed(120)
    crawl.assert_exact()
    logs = run.logs(whole=True)
    assert "Traceback" not in logs and '"level": "warning"' not in logs, logs
    assert all(said(run, worker, "batch done") for worker in workers), logs
    assert crawl.rows("SELECT count(*) FROM pages WHERE last_outcome = 'worker_lost'") == [(0,)]
    asked = [target for _, target, _ in shop.log() if target.startswith("/p/")]
    assert len(asked) == len(set(asked)), Counter(asked).most_common(3)
    times = sorted(at for at, _, _ in shop.log())
    busiest = max(sum(first <= at < first + WINDOW_S for at in times) for first in times)
    assert busiest <= RATE * (WINDOW_S + LATE_S)
    for process in (crawl.coordinator, *workers):
        assert run.end(process) == 0
