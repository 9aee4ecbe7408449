"""The Redis Stream that is filled from the feed: in order, without doubles, whatever Redis and
coordinators forget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.feed import reader as changes
from scraper.feed.reader import ChangeReader
from scraper.plugins.stream import publish as publishing
from scraper.plugins.stream.publish import ChangeStream, publish
from scraper.settings import Settings
from tests.support.judged_crawls import put
from tests.support.making import at_once
from tests.support.shops.crawled_shop import A, B, Shop

NAME = "changes"


@pytest.fixture
def settings(environment: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("SCRAPER_CHANGES_STREAM", NAME)
    settings_module.load.cache_clear()
    return settings_module.load()


@pytest.fixture
def client(settings: Settings) -> Iterator[Any]:
    with redis.Redis.from_url(settings.valkey_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def shop(engine: sa.Engine) -> Shop:
    shop = Shop(engine)
    shop.once(title="A", price=1)
    shop.once(title="A", price=2)
    shop.once(external_id="8", url=B, title="B")
    return shop


def entries(client: Any) -> list[int]:
    return [int(entry.removesuffix("-0")) for entry, _ in client.xrange(NAME)]


def positions(engine: sa.Engine, since: int = 0) -> list[int]:
    return [one.cursor for one in changes.read(engine, since)]


def test_every_change_once_and_in_order(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop
) -> None:
    for _ in range(3):
        publish(engine, settings)
    found = client.xrange(NAME)
    assert [entry for entry, _ in found] == [f"{one}-0" for one in positions(engine)]
    _, fields = found[1]
    change = json.loads(fields.pop("change"))
    assert fields == {"after": found[0][0], "site": "shop", "event": "changed", "id": "7"}
    assert (change["event"], change["before"], change["data"]["price"]) == (
        "changed",
        {"price": 1},
        2,
    )
    assert change == json.loads(list(changes.read(engine, 0))[1].json())
    shop.once(title="A", price=3)
    publish(engine, settings)
    assert entries(client) == positions(engine)


def test_off_unless_it_is_named(engine: sa.Engine, environment: Settings, shop: Shop) -> None:
    with redis.Redis.from_url(environment.valkey_url) as client:
        publish(engine, environment)
        assert client.dbsize() == 0


def test_several_coordinators_at_once(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even without the lock that keeps them from trying: each adds in small steps what the others
    add too."""
    monkeypatch.setattr(publishing, "BATCH", 3)
    monkeypatch.setattr(publishing, "LOCK", sa.text("SELECT CAST(:what AS text) IS NOT NULL"))
    with engine.begin() as connection:
        for _ in range(60):
            put(connection, 1)
    at_once([lambda: publish(engine, settings) and None] * 4)  # type: ignore[func-returns-value]
    assert entries(client) == positions(engine)
    afters = [int(fields["after"].removesuffix("-0")) for _, fields in client.xrange(NAME)]
    assert afters == [0, *positions(engine)[:-1]]


def test_a_push_that_comes_again_adds_nothing(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop
) -> None:
    """A coordinator that was frozen with a batch in its hands."""
    reader = ChangeReader(engine, 0)
    late = reader.next()
    reader.close()
    publish(engine, settings)
    with redis.Redis.from_url(settings.valkey_url) as other:
        assert ChangeStream(other, NAME, 1000).add_changes(late, 0) == late[-1].cursor
    assert entries(client) == positions(engine)


def test_a_redis_that_was_emptied_gets_the_newest_again(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop
) -> None:
    publish(engine, settings)
    read_last = entries(client)[-1]
    client.flushdb()
    shop.once(title="A", price=9)
    publish(engine, settings)
    assert entries(client) == positions(engine)
    ((_, found),) = client.xread({NAME: f"{read_last}-0"})
    assert [int(entry.removesuffix("-0")) for entry, _ in found] == positions(engine, read_last), (
        "goes on where it was"
    )


def test_a_redis_that_lost_its_last_seconds_gets_them_again(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop
) -> None:
    publish(engine, settings)
    saved = client.xrange(NAME)[:2]
    client.delete(NAME)
    for entry, fields in saved:
        client.xadd(NAME, fields, id=entry)
    publish(engine, settings)
    assert entries(client) == positions(engine)


def test_bounded(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine.begin() as connection:
        for _ in range(1500):
            put(connection, 1)
    monkeypatch.setenv("SCRAPER_CHANGES_STREAM_MAX", "500")
    settings_module.load.cache_clear()
    publish(engine, settings_module.load())
    assert entries(client) == positions(engine)[-500:], (
        "an empty one begins with as many as it may hold"
    )
    with engine.begin() as connection:
        for _ in range(1500):
            put(connection, 1)
    publish(engine, settings_module.load())
    assert (
        entries(client) == positions(engine)[-len(entries(client)) :]
        and 500 <= len(entries(client)) < 800
    )


def test_what_is_not_decided_is_not_published(engine: sa.Engine, settings: Settings, client: Any, shop: Shop,
                                              monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    publish(engine, settings)
    before = entries(client)
    monkeypatch.setattr(publishing, "AT_ONCE_S", 0.2)
    with engine.connect() as late, late.begin():
        put(late, 1)
        with engine.begin() as early:
            put(early, 1)
        publish(engine, settings)
        assert entries(client) == before
    publish(engine, settings)
    assert entries(client) == positions(engine) and len(entries(client)) == len(before) + 2


def test_a_stream_of_another_database_is_left_alone(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(publishing, "_logged_streams", set())
    client.xadd(NAME, {"a": "b"}, id="99999-0")
    for _ in range(3):
        publish(engine, settings)
    assert entries(client) == [99999]
    assert capsys.readouterr().out.count("ahead of the feed") == 1


def test_a_consumer_group_of_redis(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop
) -> None:
    """The example in docs/how-to/exports.md."""
    publish(engine, settings)
    client.xgroup_create(NAME, "alerts", id="0")
    handled = []
    while batch := client.xreadgroup("alerts", "me", {NAME: ">"}, count=2, block=100):
        for entry, fields in batch[0][1]:
            handled.append(json.loads(fields["change"])["event"])
            client.xack(NAME, "alerts", entry)
    assert handled == ["new", "changed", "new"]
    assert client.xpending(NAME, "alerts")["pending"] == 0


def test_of_a_product_of_a_page_that_was_delisted(
    engine: sa.Engine, settings: Settings, client: Any, shop: Shop
) -> None:
    shop.once(external_id="8", url=B, title="B")
    shop.once(url=A, title="A", price=2)
    publish(engine, settings)
    assert [fields["event"] for _, fields in client.xrange(NAME)][-2:] == ["delisted", "relisted"]
