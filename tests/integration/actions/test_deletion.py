"""A site is taken out: all its rows, and no rows of others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest
import redis
import sqlalchemy as sa
from click.testing import CliRunner, Result

from scraper.actions import deletion
from scraper.cli.main import main
from scraper.infra import migrations
from scraper.models import Base
from scraper.registry import model_modules
from scraper.settings import Settings
from tests.support.making import a_site, open_crawl, rows
from tests.support.shops.crawled_shop import Shop

pytestmark = pytest.mark.slow

Run = Callable[..., Result]
URLS = [f"https://shop.example/p/{number}" for number in range(7)]
# Rows of no site: the feed's own, and segments, which go when their files do.
NO_SITES = {"feed", "hosts", "archive_segments"}


@pytest.fixture
def run(environment: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("scraper.cli.setup.sites.open_engine", lambda: engine)

    def command(*words: str, code: int = 0, **more: Any) -> Result:
        done = CliRunner().invoke(main, ["sites", "delete", *words], **more)
        assert done.exit_code == code, (done.output, done.exception)
        return done

    return command


def sell(shop: Shop, price: int) -> None:
    pages = shop.begin(*URLS)
    for number, url in enumerate(URLS):
        shop.give(pages[url], str(number), title=f"no. {number}", price=Decimal(price))
    shop.end()


@pytest.fixture
def shops(engine: sa.Engine) -> tuple[Shop, Shop]:
    """Two sites with everything that the tables may have of them."""
    found = Shop(engine), Shop(engine)
    found[1].site = a_site(name="other", revisit="0s")
    for shop in found:
        for price in (1, 2, 3):
            sell(shop, price)
    name = {"shop": found[0].site.name}
    with engine.begin() as connection:
        for statement in (
            "INSERT INTO consumers (name, site, position) VALUES ('c', 'other', 1), ('c', :shop, 1)",
            "INSERT INTO consumer_locks VALUES ('c', 'other', gen_random_uuid(), now()),"
            " ('c', :shop, gen_random_uuid(), now())",
            "INSERT INTO host_routes (site_id, host, start, level, changed_at, blocked_pages,"
            " probe_every_s, probes_ok, fell_every_s, why)"
            " SELECT id, 'h', 's', 'x', now(), '{}', 0, 0, 0, '' FROM sites",
            "INSERT INTO price_alerts (rule, change_id, crawl_id, details)"
            " SELECT 'r', id, crawl_id, '{}' FROM changes",
            "INSERT INTO archive_segments (place, key, codec, pages, stored_at)"
            " VALUES ('/nowhere', 'k', 'gzip', 14, now())",
            "INSERT INTO archived_pages (segment_id, start, size, body_bytes, site_id, page_id,"
            " crawl_id, kind, url, http_status, fetched_at)"
            " SELECT s.id, p.id, 1, 1, p.site_id, p.id, p.crawl_id, 'product', p.url, 200,"
            " now() - interval '1 minute' FROM pages p, archive_segments s",
        ):
            connection.execute(sa.text(statement), name if ":shop" in statement else {})
    return found


def counted(engine: sa.Engine) -> dict[str, int]:
    for module in model_modules():
        import_module(module)
    return {
        table.name: rows(engine, f"SELECT count(*) FROM {table.name}")[0][0]
        for table in Base.metadata.sorted_tables
    }


@pytest.mark.parametrize("batch", [10_000, 3])
def test_everything_of_one_site_goes_and_nothing_of_another(
    run: Run,
    engine: sa.Engine,
    shops: tuple[Shop, Shop],
    batch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if batch == 3:
        monkeypatch.setattr(deletion, "BATCH", 3)
        small = str(deletion.CHANGES).replace("10000", "3")
        monkeypatch.setattr(deletion, "CHANGES", sa.text(small))
    before = counted(engine)
    name = shops[0].site.name
    told = json.loads(run(name, "--yes", "--json").stdout)
    assert (told["products"], told["pages"], told["crawls"], told["deleted"]) == (7, 7, 3, True)
    after = counted(engine)
    for table, number in before.items():
        assert table in NO_SITES or after[table] * 2 == number, table
    assert rows(engine, "SELECT name FROM sites") == [("other",)]
    assert rows(engine, "SELECT pages FROM archive_segments") == [(7,)]
    assert "no site named" in run(name, "--yes", code=2).output
    sell(shops[1], 4)


def test_progress_is_of_what_was_counted(engine: sa.Engine, shops: tuple[Shop, Shop]) -> None:
    name = shops[0].site.name
    with engine.connect() as connection:
        _, counts = deletion.count_rows(connection, name)
    done = Counter[str]()
    deletion.delete_site(engine, name, lambda what, deleted: done.update({what: deleted}))
    assert done["archived pages"] == counts["archived pages"] == 7
    assert done.keys() <= counts.keys()


def test_a_plugin_whose_tables_were_never_made_is_passed_over(
    own_database: str, run: Run, engine: sa.Engine, shops: tuple[Shop, Shop]
) -> None:
    migrations.downgrade(engine, "base", "matching")
    run(shops[0].site.name, "--yes")
    assert rows(engine, "SELECT name FROM sites") == [("other",)]


def test_it_asks_and_says_what_it_would_do(
    run: Run, engine: sa.Engine, shops: tuple[Shop, Shop], environment: Settings
) -> None:
    name = shops[0].site.name
    before = counted(engine)
    assert "7 products" in run(name, "--dry-run").output
    assert "say --yes" in run(name, code=2).output, "there is no terminal"
    file = environment.sites_dir / "own.yaml"
    file.write_text(f"name: {name}\n")
    told = run(name, "--yes", code=2).output
    assert "own.yaml" in told and "delete that file first" in told
    file.unlink()
    open_crawl(engine, shops[0].site)
    assert "is running" in run(name, "--yes", code=1).output
    assert counted(engine) == before | {"crawls": before["crawls"] + 1}


def test_who_is_interrupted_calls_it_again(
    run: Run, engine: sa.Engine, shops: tuple[Shop, Shop]
) -> None:
    before, name = counted(engine), shops[0].site.name

    def interrupt(what: str, _: int) -> None:
        if what == "pages":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deletion.delete_site(engine, name, interrupt)
    assert rows(engine, "SELECT enabled, paused FROM sites WHERE name <> 'other'") == [
        (False, True)
    ]
    run(name, "--yes")
    after = counted(engine)
    for table, number in before.items():
        assert table in NO_SITES or after[table] * 2 == number, table


def test_products_by_a_condition_go_with_their_changes_and_may_come_again(
    run: Run, engine: sa.Engine, shops: tuple[Shop, Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "BATCH", 2)
    shop, where = shops[0], ("--where", "title~no.", "--where", "price>=5")
    name, site_id = shop.site.name, shop.crawl[0]
    prices = shop.begin(*URLS)
    for number, url in enumerate(URLS):
        shop.give(prices[url], str(number), title=f"no. {number}", price=Decimal(number))
    assert "is running" in run(name, *where, "--yes", code=1).output
    shop.end()
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET extractor_hash = 1, body_hash = 1"))
        connection.execute(sa.text("UPDATE products SET delisted_at = now() WHERE id % 2 = 0"))
    before = counted(engine)
    assert "2 products would be" in run(name, *where, "--dry-run").output
    assert "say --yes" in run(name, *where, code=2).output
    assert "is not a condition" in run(name, "--where", "price", "--yes", code=2).output
    assert counted(engine) == before
    run(name, *where, "--yes")
    of_site = f"WHERE site_id = {site_id} ORDER BY 1"
    assert [id_ for (id_,) in rows(engine, f"SELECT external_id FROM products {of_site}")] == [
        *"01234"
    ]
    asked = rows(engine, f"SELECT url, extractor_hash, fetched_at IS NULL FROM pages {of_site}")
    assert asked == [(url, 1, False) for url in URLS[:5]] + [(url, None, True) for url in URLS[5:]]
    after = counted(engine)
    kept = {"products": 12, "pages": 14, "sites": 2, "crawls": 7}
    assert {table: after[table] for table in kept} == kept
    orphans = "SELECT FROM changes WHERE product_id NOT IN (SELECT id FROM products)"
    assert not rows(engine, orphans) and after["changes"] < before["changes"]
    assert not rows(
        engine, "SELECT FROM price_alerts WHERE change_id NOT IN (SELECT id FROM changes)"
    )
    prices = shop.begin(*URLS)
    for number, url in enumerate(URLS[:7]):
        shop.give(prices[url], str(number), title=f"no. {number}", price=Decimal(number))
    shop.end()
    assert rows(engine, "SELECT event FROM changes ORDER BY id DESC LIMIT 1") == [("new",)]


def test_a_login_is_forgotten_with_its_site(
    run: Run, shops: tuple[Shop, Shop], valkey_url: str
) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        for site in ("shop", "other"):
            client.hset(f"scraper:login:{site}:me", "generation", "1")
        run("shop", "--yes")
        assert not client.hexists("scraper:login:shop:me", "generation")
        assert client.hexists("scraper:login:other:me", "generation")
