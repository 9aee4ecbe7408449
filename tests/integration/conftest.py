"""Crawls in this process: a real worker, a real database and real proxies, its messages handed over
by the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.coordinator import plan
from scraper.domain import Message
from scraper.frontier import sites
from scraper.plugins import demo
from scraper.settings import Settings
from scraper.sites import loader
from tests.support.broker import Broker
from tests.support.making import rows
from tests.support.servers.proxies import Field

Start = Callable[..., Broker]
CrawlSite = Callable[[str], int]
PRODUCTS = 120


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for definitions, without settings or servers, which is where commands are typed."""
    for name in ("DATABASE_URL", "REDIS_URL", "SCRAPER_HOME", "SCRAPER_SITES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites").mkdir()
    return tmp_path


@pytest.fixture
def start(
    engine: sa.Engine, environment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    """Opens a crawl of the field's shop, with a worker that has the list of its proxies. The worker
    before has ended: it would hold the host's slots for some seconds more. Only a test with servers
    that never answer has a short `timeout_s`."""
    brokers: list[Broker] = []

    def begin(
        field: Field,
        text: str,
        proxy: str = "datacenter",
        more: str = "",
        timeout_s: float | None = None,
    ) -> Broker:
        path = tmp_path / "proxies.txt"
        path.write_text(text)
        path.chmod(0o600)
        monkeypatch.setenv("PROXY_LIST", str(path))
        if timeout_s is not None:
            monkeypatch.setenv("SCRAPER_CONNECT_TIMEOUT_S", str(timeout_s))
            monkeypatch.setenv("SCRAPER_READ_TIMEOUT_S", str(timeout_s))
        settings_module.load.cache_clear()
        with engine.begin() as connection:
            sites.store_definitions(
                connection, [loader.load_text(field.definition(proxy, more), "shop.yaml")]
            )
        while brokers:
            brokers.pop().close()
        broker = Broker(engine, settings_module.load(), lambda message: [message])
        brokers.append(broker)
        broker.send(plan.open_now(engine, "shop").messages)
        return broker

    yield begin
    for broker in brokers:
        broker.close()


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """The sample shop, some of whose pages fail at first."""
    command = [
        sys.executable,
        "-m",
        "scraper.plugins.demo",
        "--port",
        "0",
        "--products",
        str(PRODUCTS),
    ]
    with subprocess.Popen(
        [*command, "--fail-share", "0.05"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening on ").strip()
        process.terminate()


@pytest.fixture
def crawl(engine: sa.Engine, environment: Settings, shop: str) -> Iterator[Callable[..., Broker]]:
    brokers = []

    def start(deliver: Callable[[Message], list[Message]], concurrency: int = 16) -> Broker:
        text = demo.definition(shop).replace("concurrency: 16", f"concurrency: {concurrency}")
        with engine.begin() as connection:
            sites.store_definitions(connection, [loader.load_text(text, "shop.yaml")])
        broker = Broker(engine, environment, deliver)
        brokers.append(broker)
        broker.send(plan.open_now(engine, "demo").messages)
        return broker

    yield start
    for broker in brokers:
        broker.close()


@pytest.fixture
def broker(engine: sa.Engine, environment: Settings) -> Iterator[Broker]:
    """With a worker that does all crawls of a test."""
    broker = Broker(engine, environment, lambda message: [message])
    yield broker
    broker.close()


@pytest.fixture
def crawl_site(engine: sa.Engine, broker: Broker) -> CrawlSite:
    """Stores a definition of the site `shop`, crawls it to the end, and returns the crawl's id."""

    def crawl(definition: str) -> int:
        with engine.begin() as connection:
            sites.store_definitions(connection, [loader.load_text(definition, "shop.yaml")])
        broker.send(plan.open_now(engine, "shop").messages)
        broker.run()
        ((crawl_id,),) = rows(engine, "SELECT max(id) FROM crawls")
        return int(str(crawl_id))

    return crawl
