"""Crawls, commands, Flower and the features that use Redis, with only the rights that
`docs/how-to/production.md` gives Redis's user, over TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis
import redis.asyncio as aredis
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.plugins.accounts.store import LoginStore, forget_account
from scraper.plugins.metrics.redis import RedisState
from scraper.proxies.health import ProxyHealth, Tally, read_all_stats
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.support.servers import valkey
from tests.support.servers.flower import Flower
from tests.support.servers.hostile_server import self_signed

PRODUCTION = Path(__file__).parents[2] / "docs" / "how-to" / "production.md"
PASSWORD = "s3cret-of-the-crawl"
PAGES_OF_FLOWER = ("/crawls", "/api/crawls", "/workers", "/tasks", "/broker", "/api/workers")
FORBIDDEN = (
    "CONFIG GET *",
    "FLUSHALL",
    "KEYS *",
    "ACL LIST",
    "SHUTDOWN",
    "MONITOR",
    "REPLICAOF NO ONE",
)


@pytest.fixture
def limited(
    environment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[valkey.Server]:
    """A Valkey with the documented user; REDIS_URL names it, behind TLS."""
    words = PRODUCTION.read_text().partition("`user scraper ")[2].partition("`")[0].split()
    rule = [word.replace("PASSWORD", PASSWORD) for word in words]
    with (
        valkey.Server(tmp_path) as server,
        valkey.TlsFront(server.port, self_signed(tmp_path)) as front,
    ):
        with redis.Redis.from_url(server.url) as admin:
            admin.execute_command("ACL", "SETUSER", "scraper", *rule)
        monkeypatch.setenv("REDIS_URL", f"rediss://scraper:{PASSWORD}@127.0.0.1:{front.port}/0")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        settings_module.load.cache_clear()
        yield server


def test_a_crawl_with_the_documented_rights(
    limited: valkey.Server,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    shop = sample_shop("--products", "30")
    processes = [run.coordinator(), run.worker("datacenter,residential")]
    crawl = run.crawl(engine, "demo")
    assert crawl["status"] == "completed" and crawl["products_new"] == len(shop.truth()) == 30
    for words in (["status"], ["host", "list"]):
        assert PASSWORD not in run.scraper(*words).stdout
    lines = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if PASSWORD in line]
    for process in processes:
        assert run.end(process) == 0
    assert PASSWORD not in run.logs(whole=True) and "NOPERM" not in run.logs(whole=True)
    with redis.Redis.from_url(limited.url) as admin:
        denied = admin.execute_command("ACL", "LOG")
    assert not denied, denied


def test_every_feature_with_the_documented_rights(
    limited: valkey.Server,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCRAPER_CHANGES_STREAM", "changes")
    settings_module.load.cache_clear()
    sample_shop("--products", "30", changes={"revisit: ": "dedup: bloom\nrevisit: 7d  # was "})
    flower = Flower(run, settings_module.load())
    run.coordinator()
    run.worker("datacenter,residential")
    assert run.crawl(engine, "demo")["products_new"] == 30
    url = limited.url.replace("://", f"://scraper:{PASSWORD}@")
    with redis.Redis.from_url(limited.url) as admin:
        until(lambda: admin.xlen("changes") == 30, 60)
    assert run.json("dedup", "show", "demo")["urls"] >= 27
    run.scraper("dedup", "reset", "demo")
    for words in (["status"], ["login", "list"], ["proxies"], ["host", "list"]):
        run.scraper(*words)
    for path in PAGES_OF_FLOWER:
        assert flower.get(path).status_code == 200, path
    asyncio.run(use_accounts_and_proxies(url))
    assert RedisState(url, None).read()
    with redis.Redis.from_url(limited.url) as admin:
        denied = admin.execute_command("ACL", "LOG")
    assert not denied, denied


async def use_accounts_and_proxies(url: str) -> None:
    async with aredis.Redis.from_url(url) as client:
        accounts, proxies = LoginStore(client), ProxyHealth(client)
        lock = await accounts.acquire(
            "shop", "ann", "token", seen=0, lock_s=5.0, every_s=0.0, marks=["key:mark"]
        )
        assert lock[0] == "acquired"
        status = await accounts.store_login("shop", "ann", "token", b"sealed", 60.0, "key:mark")
        assert status is not None
        generation = status.generation
        await accounts.prove("shop", "ann", generation)
        await accounts.save_cookies("shop", "ann", generation, 0, b"sealed")
        await accounts.record_logged_out("shop", "ann", generation, 1, "out", certain=True)
        await accounts.restore("shop", "bob", 1, b"sealed", 0, "key:mark", proven=True)
        await proxies.report("shop.example", {"x": Tally(requests=1, failed=1)})
        assert await proxies.strike("shop.example", "x", "blocked") > 0
    with redis.Redis.from_url(url) as client:
        assert forget_account(client, "shop", "ann") and read_all_stats(client)


def test_the_documented_rights_allow_only_that(limited: valkey.Server) -> None:
    url = limited.url.replace("://", f"://scraper:{PASSWORD}@")
    with redis.Redis.from_url(url) as client:
        assert client.ping()
        for command in FORBIDDEN:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
