"""Clients of a Redis that sentinels watch, and what a wrong address says."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from scraper import settings as settings_module
from scraper.errors import ConfigError, ServerUnavailableError
from scraper.infra import redis_clients
from scraper.infra.outages import is_broker_away
from scraper.process import servers
from scraper.settings import Settings
from tests.support.servers.sentinels import NAME, PASSWORD, SENTINEL_PASSWORD, Sentinels

pytestmark = pytest.mark.slow

WORKER = ["-m", "celery", "-A", "scraper", "worker", "-P", "solo"]


@pytest.fixture(scope="module")
def sentinels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sentinels]:
    with Sentinels(tmp_path_factory.mktemp("sentinels")) as found:
        yield found


def load(monkeypatch: pytest.MonkeyPatch, url: str, variable: str = "REDIS_URL") -> Settings:
    monkeypatch.setenv(variable, url)
    settings_module.load.cache_clear()
    return settings_module.load()


def test_both_kinds_of_clients_reach_the_primary(
    environment: Settings, sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.require_reachable(load(monkeypatch, sentinels.url))
    with redis_clients.connect(sentinels.url) as client:
        client.set("written", "here")

    async def read() -> list[bytes | None]:
        client = redis_clients.connect_async(sentinels.url)
        # More callers than connections wait, and fail not.
        values = await asyncio.gather(*(client.get("written") for _ in range(100)))
        await client.aclose()
        return values

    assert asyncio.run(read()) == [b"here"] * 100
    with sentinels.connect(0) as primary:
        assert primary.get("written") == b"here"


def test_a_sentinel_that_is_away_is_skipped(
    environment: Settings, sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = sentinels.url.replace("@", "@127.0.0.1:1,")
    servers.require_reachable(load(monkeypatch, url))

    async def ping() -> object:
        client = redis_clients.connect_async(url)
        answer = await client.ping()
        await client.aclose()
        return answer

    assert asyncio.run(ping()) is True


@pytest.mark.parametrize("variable", ["REDIS_URL", "BROKER_URL"])
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (f"master_name={NAME}", "master_name=other", "No master found for 'other'"),
        (SENTINEL_PASSWORD, "wr0ng", "does not answer"),
        (f":{PASSWORD}@", ":wr0ng@", "does not answer"),
    ],
    ids=["name", "sentinel password", "password"],
)
def test_sentinels_that_refuse(
    environment: Settings,
    sentinels: Sentinels,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    old: str,
    new: str,
    says: str,
) -> None:
    settings = load(monkeypatch, sentinels.url.replace(old, new), variable)
    with pytest.raises(ServerUnavailableError) as caught:
        servers.require_reachable(settings)
    message = str(caught.value)
    assert says in message and variable in message
    assert not {PASSWORD, SENTINEL_PASSWORD, "wr0ng"} & set(message.replace(":", "@").split("@"))


def test_a_wrong_url_is_explained(
    environment: Settings, sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url, command, code, says in (
        (sentinels.url.replace(NAME, "other"), WORKER, 3, "No master found for 'other'"),
        (sentinels.url.partition("?")[0], ["-m", "scraper", "status"], 2, "must name the primary"),
    ):
        done = subprocess.run(
            [sys.executable, *command],
            env={**os.environ, "REDIS_URL": url},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, says in done.stderr) == (code, True), done
        assert "Traceback" not in done.stderr and PASSWORD not in done.stderr + done.stdout


def test_a_sentinel_named_as_redis_is_refused(
    environment: Settings, sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"redis://:{SENTINEL_PASSWORD}@127.0.0.1:{sentinels.ports[0]}/0"
    with pytest.raises((ConfigError, ServerUnavailableError), match="sentinel"):
        servers.require_reachable(load(monkeypatch, url))


@pytest.mark.slow
def test_a_failover_counts_as_an_outage(tmp_path: Path) -> None:
    with Sentinels(tmp_path) as sentinels, redis_clients.connect(sentinels.url) as client:
        client.set("kept", "here")
        assert client.wait(1, 60_000) == 1
        sentinels.servers[0].kill()
        with pytest.raises(RedisError) as caught:
            client.get("kept")
        assert is_broker_away(caught.value)
        sentinels.fail_over()
        assert client.get("kept") == b"here"
