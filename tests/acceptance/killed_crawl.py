"""A crawl of the sample shop whose processes a test kills."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from decimal import Decimal

import sqlalchemy as sa

from scraper.registry import plugin_hooks
from scraper.views import crawl_progress as progress
from tests.acceptance.commands import Commands, assert_counted, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.truth import as_truth
from tests.support.servers.forked import Process

PRODUCTS = 200
LEASE_S = 5
SHOP = ("--products", str(PRODUCTS), "--latency-ms", "120")
SLOWER = {"concurrency: 16": "concurrency: 8"}


class Crawl:
    """A crawl under way, its fleet in the hands of the test. `start` starts all
    processes under one, which then is `worker`."""

    def __init__(
        self,
        run: Commands,
        engine: sa.Engine,
        shop: SampleShop,
        start: Callable[[], Process] | None = None,
    ) -> None:
        self.run, self.engine, self.shop = run, engine, shop
        # On a busy machine their import would take longer than a transaction may idle.
        plugin_hooks()
        run.env["SCRAPER_LEASE_S"] = str(LEASE_S)
        self.coordinator = run.coordinator() if start is None else start()
        self.worker = self.coordinator if start else run.worker("residential,datacenter")
        self.id = int(run.scraper("crawl", "demo").stdout)

    def until_fetched(self, share: float) -> None:
        """Waits for the middle of the crawl: that share of the products asked for."""

        def fetched() -> bool:
            assert self.worker.poll() is None, self.run.logs()
            return (
                sum(target.startswith("/p/") for _, target, _ in self.shop.log())
                >= PRODUCTS * share
            )

        until(fetched, 60, every_s=0.1)
        assert self.progress()["status"] == "running", "too late to disturb it"

    def quiet(self) -> bool:
        """Whether the shop is not asked for anything for a second."""
        before = len(self.shop.log())
        time.sleep(1)
        return len(self.shop.log()) == before

    def progress(self) -> dict[str, object]:
        return progress.as_json(progress.read_one(self.engine, self.id))

    def until_completed(self, timeout_s: float = 60) -> None:
        until(
            lambda: self.progress()["status"] not in ("planned", "running"), timeout_s, every_s=0.2
        )
        assert self.progress()["status"] == "completed", self.progress()

    def assert_exact(self) -> None:
        crawl = self.progress()
        assert crawl["products_new"] == PRODUCTS and crawl["products_changed"] == 0
        assert crawl["dead"] == crawl["invalid"] == crawl["dropped"] == 0
        assert_counted(self.engine, crawl)
        lines = self.run.scraper("export", "demo").stdout.splitlines()
        rows = {
            row["id"]: as_truth(row)
            for row in (json.loads(line, parse_float=Decimal) for line in lines)
        }
        assert rows == self.shop.truth()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]
