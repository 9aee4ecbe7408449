"""A crawl completes with each plug-in switched off in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
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


# Waits for environments, each with a folder, and forks a process for each, in which nothing of
# scraper was imported before that asks which plug-ins are on. Says how each ended.
LIBRARIES = """
import celery.apps.beat, celery.apps.worker, celery.bin.celery, celery.bin.worker
import cryptography.fernet, fsspec, httpx, lxml.etree, parsel, psutil, psycopg, pydantic_settings
import redis.asyncio, rich.console, selectolax.lexbor
import sqlalchemy.dialects.postgresql.psycopg, structlog, warcio
import contextlib, gc, importlib, json, os, pkgutil, sys
path, asks_for_plugins = sys.argv[1], ("scraper.registry", "scraper.plugins")
sys.path.insert(0, path)
sys.modules |= dict.fromkeys(asks_for_plugins) # Importing them fails for now.
for module in pkgutil.walk_packages([os.path.join(path, "scraper")], "scraper."):
    if not module.name.endswith("__main__"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
for name in asks_for_plugins:
    del sys.modules[name]
del sys.path[0]
assert not {"scraper.settings", "scraper.sites.definition", "scraper.tasks"} & sys.modules.keys()
gc.collect()
gc.freeze()
for line in sys.stdin:
    environ, folder = json.loads(line)
    crawl = os.fork()
    if not crawl:
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(folder)
        os.dup2(os.open("out", os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(os.open("err", os.O_WRONLY | os.O_CREAT), 2)
        sys.path.insert(0, environ["PYTHONPATH"])
        break
    print(os.waitstatus_to_exitcode(os.waitpid(crawl, 0)[1]), flush=True)
else:
    sys.exit()
"""
# A worker and a command of the same installation, which both import what they share once.
PROGRAM = """
import os, signal, sys
import celery.apps.worker, celery.bin.celery, celery.bin.worker
import scraper.cli.crawl.crawls, scraper.runtime.pool, scraper.tasks
from celery.__main__ import main as start_worker
from scraper.cli.main import main
from scraper.process.current_worker import import_ahead
import_ahead(fetches=True)
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


Crawl = Callable[[dict[str, str], Path], int]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """Runs the program in such an environment and folder. Returns its exit code."""
    with subprocess.Popen(
        [sys.executable, "-c", LIBRARIES + PROGRAM, str(ROOT)],
        cwd=tmp_path_factory.mktemp("libraries"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        asks, says = process.stdin, process.stdout
        assert asks is not None and says is not None

        def run(environ: dict[str, str], folder: Path) -> int:
            print(json.dumps([environ, str(folder)]), file=asks, flush=True)
            return int(says.readline())

        yield run
        asks.close()


@pytest.mark.parametrize("name", [plugin.name for plugin in registry.active_plugins()])
def test_a_crawl_completes_without(
    name: str,
    crawl: Crawl,
    shop: OddShop,
    environment: Settings,
    engine: sa.Engine,
    tmp_path: Path,
) -> None:
    define(shop, tmp_path)
    environ = {**os.environ, "SCRAPER_PLUGINS_OFF": name, "PYTHONPATH": str(ROOT)}
    code = crawl(environ, tmp_path)
    assert code == 0, (tmp_path / "err").read_text()
    check(engine, (tmp_path / "out").read_text())


def test_a_crawl_completes_without_the_libraries_for_speed(
    shop: OddShop, environment: Settings, engine: sa.Engine, tmp_path: Path
) -> None:
    define(shop, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment_without_speed(tmp_path, ROOT),
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(engine, done.stdout)


def define(shop: OddShop, folder: Path) -> None:
    (folder / "sites" / "shop.yaml").write_text(DEFINITION.format(start=shop.url("/all")))


def check(engine: sa.Engine, output: str) -> None:
    assert json.loads(output)["status"] == "completed"
    with engine.connect() as connection:
        count = sa.text("SELECT count(*) FROM products WHERE data ->> 'title' LIKE 'thing %'")
        assert connection.execute(count).scalar_one() == PRODUCTS
