"""Fixtures of the acceptance tests: the commands with the test's servers, and the sample shop as a
process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from kombu import pools
from playwright.sync_api import Browser

from scraper import celeryconfig
from scraper import settings as settings_module
from scraper.plugins.demo import definition
from scraper.settings import Settings
from tests.acceptance.commands import Commands, commands
from tests.support import called
from tests.support.servers import forked
from tests.support.servers.browser import chromium
from tests.support.servers.flower import Flower

SHOP = "from scraper.plugins.demo.__main__ import main\nmain()\n"


class SampleShop:
    """`python -m scraper.plugins.demo` on a free port, and its control interface."""

    def __init__(self, *options: str, name: str = "demo") -> None:
        self.name = name
        said, out = os.pipe()
        self.process = forked.start_program(SHOP, "--port", "0", *options, out=out, err=2)
        os.close(out)
        with open(said) as lines:
            self.url = lines.readline().split()[-1]
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def truth(self) -> dict[str, dict[str, Any]]:
        """Every product sold now, by id."""
        return {record["id"]: record for record in self.client.get("/_control/truth").json()}

    def log(self) -> list[tuple[float, str, int]]:
        """(time, target, status) of every request; status 0: the connection was broken off or left
        hanging."""
        return [
            (at, target, status) for at, target, status in self.client.get("/_control/log").json()
        ]

    def forget(self) -> None:
        self.client.delete("/_control/log")

    def visit(self) -> None:
        self.client.post("/_visit").raise_for_status()

    def options(self, **options: object) -> None:
        self.client.post("/_control/options", json=options).raise_for_status()

    def stop(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def sample_shop(environment: Settings) -> Iterator[Callable[..., SampleShop]]:
    """Starts a sample shop; its definition is sites/demo.yaml, with the changes asked for."""
    shops = []

    def start(
        *options: str, changes: dict[str, str] | None = None, name: str = "demo"
    ) -> SampleShop:
        shop = SampleShop(*options, name=name)
        shops.append(shop)
        text = definition(shop.url).replace("name: demo", f"name: {name}", 1)
        for old, new in (changes or {}).items():
            assert old in text
            text = text.replace(old, new)
        (environment.sites_dir / f"{name}.yaml").write_text(text)
        return shop

    yield start
    for shop in shops:
        shop.stop()


@pytest.fixture
def run(environment: Settings, tmp_path: Path) -> Iterator[Commands]:
    """The commands, with the test's own PostgreSQL database and Valkey."""
    with commands(tmp_path / "logs") as found:
        yield found


@pytest.fixture
def calling(environment: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """The environment of callers of `tests.support.called` and workers alike; this process's Celery
    application speaks to the test's broker."""
    monkeypatch.setenv("SCRAPER_FUNCTIONS", called.__name__)
    monkeypatch.setenv("SCRAPER_LEASE_S", "5")
    monkeypatch.setenv("SCRAPER_STOP_S", "3")
    settings_module.load.cache_clear()
    settings = settings_module.load()
    from scraper.celery import app

    before = {name: app.conf[name] for name in ("broker_url", "broker_transport_options")}

    def use(**conf: Any) -> None:
        app.conf.update(conf)
        pools.reset()
        app._pool = None
        app.amqp._producer_pool = None

    options = celeryconfig._RABBITMQ if settings.broker_is_amqp else celeryconfig._REDIS
    use(broker_url=settings.celery_broker_url, broker_transport_options=options)
    yield settings
    use(**before)


@pytest.fixture(scope="module")
def browser_of_module(installed_chromium: str) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def browser(browser_of_module: Browser) -> Iterator[Browser]:
    """What a test has opened in it is closed at its end."""
    yield browser_of_module
    for context in browser_of_module.contexts:
        context.close()


@pytest.fixture
def flower(run: Commands, environment: Settings) -> Flower:
    return Flower(run, environment)
