"""A crawl completes with each plug-in switched off in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper import registry
from scraper.settings import Settings
from tests.support.shops.odd_shop import OddShop, listing, product
from tests.support.without_speed import environment_without_speed

ROOT = Path(__file__).parents[2]
PRODUCTS = 12
DEFINITION = """
start: {start}
rate: unlimited
allow_private: true
listing: {{products: a.p}}
product:
  id: {{css: "body::attr(data-id)"}}
  fields: {{title: h1}}
"""


# A worker and a command of the same installation, which both import what they share once.
PROGRAM = """
import os, signal, sys
import celery.apps.worker, celery.bin.celery, celery.bin.worker, scraper.api, scraper.tasks
from celery.__main__ import main as start_worker
from scraper.cli.main import main
worker = os.fork()
if not worker:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.argv = "celery -A scraper worker -B -Q coordinator,datacenter".split()
    sys.exit(start_worker())
sys.argv = "scraper crawl shop --wait --json".split()
try:
    code = main()
finally:
    os.kill(worker, signal.SIGTERM)
    os.waitpid(worker, 0)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[OddShop]:
    with OddShop() as server:
        server.serve("/all", listing([f"/p/{number}" for number in range(PRODUCTS)]))
        for number in range(PRODUCTS):
            page = product(str(number), f"thing {number}", "1.90 €")
            server.serve(f"/p/{number}", page.encode())
        yield server


@pytest.mark.parametrize("name", [plugin.name for plugin in registry.active_plugins()])
def test_a_crawl_completes_without(
    name: str, shop: OddShop, environment: Settings, engine: sa.Engine, tmp_path: Path
) -> None:
    environ = {**os.environ, "SCRAPER_PLUGINS_OFF": name, "PYTHONPATH": str(ROOT)}
    crawl_shop(environ, shop, engine, tmp_path)


def test_a_crawl_completes_without_the_libraries_for_speed(
    shop: OddShop, environment: Settings, engine: sa.Engine, tmp_path: Path
) -> None:
    crawl_shop(environment_without_speed(tmp_path, ROOT), shop, engine, tmp_path)


def crawl_shop(environ: dict[str, str], shop: OddShop, engine: sa.Engine, folder: Path) -> None:
    (folder / "sites" / "shop.yaml").write_text(DEFINITION.format(start=shop.url("/all")))
    # The crawl's own worker would not start while another test's worker is still seen.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environ, cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "completed"
    with engine.connect() as connection:
        count = sa.text("SELECT count(*) FROM products WHERE data ->> 'title' LIKE 'thing %'")
        assert connection.execute(count).scalar_one() == PRODUCTS
