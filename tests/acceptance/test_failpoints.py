"""Processes die, or lose their connection, between two statements of a step. A seed chooses the
points of a crawl, `make chaos` takes all. What happened is compared with the shop's records and
those of triggers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from random import Random

import pytest
import sqlalchemy as sa

from scraper.plugins.demo.catalogue import Catalogue
from tests.acceptance.chaos import audit, truth
from tests.acceptance.chaos.truth import Counted
from tests.acceptance.commands import Commands
from tests.acceptance.conftest import SampleShop
from tests.support.failpoints import KINDS
from tests.support.servers.forked import Process

PRODUCTS, SHOP_SEED, SEED = 200, 7, 1
LEASE_S = 5
# All points at once would kill more workers than a page may lose.
POINTS = 12
WITH_POINTS = "-I", "tests.support.failpoints"
# Each version of each product, once.
FEED = sa.text("""
SELECT count(*), count(DISTINCT (product_id, version)), (SELECT sum(version) FROM products)
  FROM changes WHERE event = 'new' OR previous_version IS NOT NULL
""")
ENTRIES = sa.text("SELECT count(*) FROM changes WHERE crawl_id = :crawl_id")


class Fleet:
    """A coordinator and two workers. Those that a point kills start again."""

    def __init__(self, run: Commands) -> None:
        self._run = run
        self._queues = ["coordinator", "residential,datacenter", "residential,datacenter"]
        self.processes = [self._start(queues) for queues in self._queues]
        self.unexpected: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._supervise, daemon=True)

    def __enter__(self) -> Fleet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _start(self, queues: str) -> Process:
        beat = ["-B"] if queues == "coordinator" else []
        return self._run.worker(queues, *WITH_POINTS, *beat)

    def _supervise(self) -> None:
        while not self._over.wait(0.1):
            for number, process in enumerate(self.processes):
                code = process.poll()
                if code is None:
                    continue
                if code != -signal.SIGKILL:
                    self.unexpected.append(f"ended with {code}: {self._run.log(process)[-3000:]}")
                self.processes[number] = self._start(self._queues[number])


@pytest.fixture
def points(tmp_path: Path, run: Commands) -> Path:
    folder = tmp_path / "points"
    folder.mkdir()
    run.env |= {
        "FAILPOINTS": str(folder),
        "SCRAPER_LEASE_S": str(LEASE_S),
        "SCRAPER_BATCH_PAGES": "20",
    }
    return folder


@pytest.mark.timeout(7200 if "FAILPOINTS_ALL" in os.environ else 600)
def test_processes_fail_between_two_statements(
    own_database: str,
    points: Path,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    audit.install(engine)
    size = ("--products", str(PRODUCTS), "--seed", str(SHOP_SEED))
    shop = sample_shop(*size, "--latency-ms", "60")
    catalogue = Catalogue(PRODUCTS, SHOP_SEED)
    with Fleet(run) as fleet:
        _crawl(run, engine, shop, catalogue, 1)
        reached = sorted(path.name for path in points.iterdir())
        armed = _shuffle([f"{name}-{kind}" for name in reached for kind in KINDS])
        groups = [armed[at : at + POINTS] for at in range(0, len(armed), POINTS)]
        visit = 1
        for group in groups if "FAILPOINTS_ALL" in os.environ else groups[:1]:
            visit += 1
            for name in group:
                (points / name).touch()
            shop.visit()
            shop.forget()
            _crawl(run, engine, shop, catalogue, visit)
            left = [name for name in group if (points / name).exists()]
            print("failed at", sorted(set(group) - set(left)), "not reached", left)
            for name in left:
                (points / name).unlink()
            assert len(left) < len(group)
        assert not fleet.unexpected, fleet.unexpected


def _shuffle(points: list[str]) -> list[str]:
    """By the seed, the steps in turn."""
    Random(int(os.environ.get("FAILPOINTS_SEED", SEED))).shuffle(points)
    steps: dict[str, list[str]] = defaultdict(list)
    for point in points:
        steps[point.partition("-")[0]].append(point)
    return [point for turn in zip_longest(*steps.values()) for point in turn if point]


def _crawl(
    run: Commands, engine: sa.Engine, shop: SampleShop, catalogue: Catalogue, visit: int
) -> None:
    began = time.time()
    crawl = run.crawl(engine, "demo", "--refetch")
    crawl_id = int(crawl["id"])
    story = audit.read(engine, crawl_id)
    counted = Counted(crawl_id, time.time() - began)
    problems = [
        *truth.crawl_is_whole(engine, crawl_id, catalogue, visit),
        *truth.products_are_the_truth(engine, shop, catalogue, visit),
        *truth.versions_are_the_changes(engine, catalogue, visit),
        *truth.leases_are_claimed_once(story),
        *truth.requests_are_explained(engine, shop, story, catalogue, visit, [], counted),
    ]
    assert not problems, problems
    read = run.scraper("changes", "--consumer", "lake").stdout.splitlines()
    with engine.connect() as connection:
        entries, versions, stored = connection.execute(FEED).one()
        assert entries == versions == stored
        assert len(read) == connection.execute(ENTRIES, {"crawl_id": crawl_id}).scalar()
    print(f"crawl {crawl_id}: {counted.seconds:.0f} s, {counted.over} requests too many")
