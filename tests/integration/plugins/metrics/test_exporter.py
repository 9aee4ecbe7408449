"""What the exporter says of consumers, accounts and the archive: it is what was put there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
import redis.asyncio as aredis
import sqlalchemy as sa
from prometheus_client import Metric
from redis import Redis
from structlog.testing import capture_logs

from scraper.errors import ConfigError
from scraper.feed import consumers
from scraper.plugin import Hooks
from scraper.plugins.accounts.policy import Trouble
from scraper.plugins.accounts.status import LoginLockResult
from scraper.plugins.accounts.store import LoginStore
from scraper.plugins.archive import rows as archive
from scraper.plugins.metrics import postgres
from scraper.plugins.metrics import redis as metrics_of_redis
from scraper.plugins.metrics.postgres import Postgres
from scraper.plugins.metrics.redis import RedisState
from scraper.proxies.file import read_proxies
from scraper.registry import plugin_hooks
from tests.support.making import a_site, open_crawl, rows

Values = dict[tuple[str, ...], float]


def values(metrics: list[Metric], name: str) -> Values:
    """By the values of its labels."""
    (family,) = [each for each in metrics if each.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


@pytest.fixture
def feed(engine: sa.Engine) -> list[int]:
    """Positions of six changes, made an hour apart, the last just now: five of the site `shop`,
    then one of `other`."""
    shop, other = (open_crawl(engine, a_site(name))[0] for name in ("shop", "other"))
    change = """INSERT INTO changes (site_id, product_id, crawl_id, version, event, at)
                VALUES (:site, 1, 1, 1, 'new', now() - make_interval(hours => :ago))"""
    with engine.begin() as connection:
        for ago in range(5, -1, -1):
            connection.execute(sa.text(change), {"site": shop if ago else other, "ago": ago})
    return [int(row[0]) for row in rows(engine, "SELECT id FROM changes ORDER BY id")]  # type: ignore[call-overload]


def test_consumers(engine: sa.Engine, feed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    source = Postgres(engine, 60)
    assert values(source.read(), "scraper_consumer_behind_changes") == {}
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE feed SET trimmed = 0"))
        for name, site, position in (
            ("lake", None, feed[0]), ("lake", "shop", feed[1]), ("mail", "other", feed[2]), ("done", None, feed[-1]),
            ("gone", "nosuch", feed[0]),
        ):  # fmt: skip
            consumers.set_position(connection, name, site, position)
    found = source.read()
    assert values(found, "scraper_consumer_behind_changes") == {
        ("done", ""): 0, ("gone", "nosuch"): 0, ("lake", ""): 5, ("lake", "shop"): 3, ("mail", "other"): 1,
    }  # fmt: skip
    hours = {
        key: age // 3600
        for key, age in values(found, "scraper_consumer_position_age_seconds").items()
    }
    assert hours == {
        ("done", ""): 0,
        ("gone", "nosuch"): 4,
        ("lake", ""): 4,
        ("lake", "shop"): 3,
        ("mail", "other"): 2,
    }
    assert values(found, "scraper_consumer_position_age_seconds")["done", ""] == 0
    assert set(values(found, "scraper_consumer_expired").values()) == {0}

    monkeypatch.setattr(postgres, "BEHIND_MAX", 2)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE feed SET trimmed = :at"), {"at": feed[1]})
        connection.execute(sa.text("DELETE FROM changes WHERE id <= :at"), {"at": feed[1]})
    found = source.read()
    assert values(found, "scraper_consumer_behind_changes")["lake", ""] == 2
    assert {key for key, expired in values(found, "scraper_consumer_expired").items() if expired} == {
        ("gone", "nosuch"), ("lake", ""),
    }  # fmt: skip


def test_segments_that_stay_unfinished(engine: sa.Engine) -> None:
    source = Postgres(engine, 60)
    with engine.begin() as connection:
        begun, stored, doomed, _young = (
            archive.announce_segment(connection, "/x", f"k{n}", "gzip") for n in range(4)
        )
        assert archive.store_segment(connection, stored, 100, [])
        old = sa.text(
            "UPDATE archive_segments SET created_at = now() - interval '1 hour' WHERE id = ANY (:ids)"
        )
        connection.execute(old, {"ids": [begun, stored, doomed]})
        connection.execute(
            sa.text("UPDATE archive_segments SET doomed_at = now() WHERE id = :id"), {"id": doomed}
        )
    assert values(source.read(), "scraper_archive_unfinished_segments") == {(): 1}


def test_accounts(valkey_url: str) -> None:
    """Each site's states add up to its accounts; who was only forgotten is none."""
    source = RedisState(valkey_url, None)
    assert values(source.read(), "scraper_accounts") == {}

    async def work() -> None:
        async with aredis.Redis.from_url(valkey_url) as client:
            store = LoginStore(client)
            for site, account in (
                ("shop", "ann"),
                ("shop", "bob"),
                ("shop", "eve"),
                ("other", "ann"),
                ("other", "joe"),
            ):
                begun, _ = await store.acquire(
                    site, account, "t", seen=0, lock_s=60, every_s=0, marks=["k:s"]
                )
                assert begun is LoginLockResult.ACQUIRED
            await store.store_login("shop", "ann", "t", b"sealed", None, "k:s")
            await store.store_login("shop", "bob", "t", b"sealed", None, "k:s")
            await store.record_failure("shop", "eve", "t", Trouble.UNAVAILABLE, "503")
            for _ in range(2):
                await store.acquire(
                    "other", "ann", "t", seen=0, lock_s=60, every_s=0, marks=["k:s"], force=True
                )
                await store.record_failure("other", "ann", "t", Trouble.REJECTED, "wrong password")

    asyncio.run(work())
    found = {
        key: count for key, count in values(source.read(), "scraper_accounts").items() if count
    }
    assert found == {
        ("shop", "logged_in"): 2, ("shop", "resting"): 1, ("other", "quarantine"): 1, ("other", "logging_in"): 1,
    }  # fmt: skip


def test_a_wrong_list_of_proxies_says_nothing_of_redis(valkey_url: str, tmp_path: Path) -> None:
    path = tmp_path / "proxies.yaml"
    path.write_text("pools: [")
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        read_proxies(path)
    names = {family.name for family in RedisState(valkey_url, path).read()}
    assert {"scraper_hosts_troubled", "scraper_proxy_requests"} <= names


class BrokenHooks(Hooks):
    def stored_metrics(self, connection: sa.Connection) -> Iterable[Metric]:
        yield Metric("half", "", "gauge")
        connection.execute(sa.text("SELECT FROM no_such_table"))

    def fleet_metrics(self, client: Redis) -> Iterable[Metric]:
        raise KeyError("fleet")


def test_a_plugin_that_fails_costs_its_own_metrics_alone(
    engine: sa.Engine, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = {"broken": BrokenHooks(), **plugin_hooks()}
    for module in (postgres, metrics_of_redis):
        monkeypatch.setattr(module, "plugin_hooks", lambda: hooks)
    with capture_logs() as logs:
        found = [*Postgres(engine, 60).read(), *RedisState(valkey_url, None).read()]
    assert {"scraper_archive_unfinished_segments", "scraper_fetches", "scraper_accounts"} <= {
        family.name for family in found
    }
    failed = [(line["event"], line["plugin"], line["method"]) for line in logs]
    assert failed == [
        ("plug-in failed", "broken", "stored_metrics"),
        ("plug-in failed", "broken", "fleet_metrics"),
    ]
