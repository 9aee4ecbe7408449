"""Redis Sentinel: the primary dies in mid-crawl and its replica takes over. The crawl's products
are the truth, and the shop is never asked faster than its definition allows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.killed_crawl import SHOP, SLOWER, Crawl
from tests.acceptance.processes import said
from tests.support.servers.flower import Flower
from tests.support.servers.sentinels import PASSWORD, SENTINEL_PASSWORD, Sentinels

RATE = 25
# The slots of a failover are on the clock of another server, and a request takes a while to leave.
# On a busy machine a request arrives this much later than it left.
WINDOW_S, LATE_S = 4.0, 0.5


@pytest.fixture
def sentinels(
    environment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sentinels]:
    """REDIS_URL names the sentinels."""
    with Sentinels(tmp_path / "sentinels") as found:
        monkeypatch.setenv("REDIS_URL", found.url)
        settings_module.load.cache_clear()
        yield found


def busiest_window(shop: SampleShop) -> int:
    """The most requests that the shop got within any `WINDOW_S`."""
    times = sorted(at for at, _, _ in shop.log())
    return max(sum(first <= at < first + WINDOW_S for at in times) for first in times)


def test_the_primary_dies_in_mid_crawl(
    sentinels: Sentinels,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    run.env["SCRAPER_BATCH_PAGES"] = "20"
    # Requests that arrived while the shop stood still count as one moment's.
    shop = sample_shop(*SHOP, changes=SLOWER | {"rate: unlimited": f"rate: {RATE}/s"})
    crawl = Crawl(run, engine, shop)
    processes = crawl.coordinator, crawl.worker
    crawl.until_fetched(0.2)
    with sentinels.connect(0) as primary:
        assert primary.dbsize() > 0
    sentinels.fail_over()
    until(lambda: said(run, crawl.worker, "is back") > 0, 60)
    crawl.until_completed(180)
    crawl.assert_exact()
    assert busiest_window(shop) <= RATE * (WINDOW_S + LATE_S)
    with sentinels.connect(1) as promoted:
        assert promoted.info("replication")["role"] == "master"
    run.scraper("status")
    run.scraper("host", "list")
    inspect = [sys.executable, "-m", "celery", "-A", "scraper", "inspect", "stats", "--json"]

    def read_stats() -> str:
        """What workers reply; one on a busy machine may take longer than Celery waits."""
        stats = subprocess.run(
            inspect, env=run.environ(), stdout=subprocess.PIPE, text=True, timeout=120, check=False
        ).stdout
        return stats if '"shop"' in stats else ""

    stats = until(read_stats, 30)
    assert PASSWORD not in stats and SENTINEL_PASSWORD not in stats
    flower = Flower(run, settings_module.load())
    for path in ("/crawls", "/workers", "/broker"):
        assert flower.get(path).status_code == 200, path
    assert all(each.poll() is None for each in processes)
    for process in processes:
        assert run.end(process) == 0
    logs = run.logs(whole=True)
    assert "Traceback" not in logs
    assert PASSWORD not in logs and SENTINEL_PASSWORD not in logs
