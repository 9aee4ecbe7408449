"""Two real workers at a shop that shows prices to those who are logged in, and `scraper login`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import redis
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, assert_counted, until
from tests.support.making import rows
from tests.support.shops.login_shop import PASSWORD, SESSION, LoginShop

PRODUCTS = 400
LASTS = 60


@pytest.fixture
def listed(run: Commands, tmp_path: Path) -> Callable[[str], None]:
    def write(text: str) -> None:
        path, new = tmp_path / "accounts.yaml", tmp_path / "accounts.new"
        new.write_text(text)
        new.chmod(0o600)
        new.replace(path)
        run.env["SCRAPER_ACCOUNTS"] = str(path)

    return write


def ended(engine: sa.Engine) -> bool:
    return not rows(engine, "SELECT FROM crawls WHERE status IN ('planned', 'running')")


@pytest.mark.timeout(600)
def test_hundreds_of_pages_by_two_workers_are_one_login_an_expiry(
    run: Commands, listed: Callable[[str], None], engine: sa.Engine, environment: Settings
) -> None:
    """Sessions that end after sixty pages, one that the shop ends by itself, and a Redis that is
    emptied in the middle."""
    with LoginShop(PRODUCTS, lasts=LASTS) as shop:
        listed(shop.accounts("ann@shop.example"))
        (environment.sites_dir / "shop.yaml").write_text(
            shop.definition().replace("unlimited", "60/s")
        )
        run.coordinator()
        workers = [
            run.worker(
                "datacenter", env={"SCRAPER_LOG_LEVEL": "DEBUG", "SCRAPER_BATCH_PAGES": "20"}
            )
            for _ in range(2)
        ]
        for worker in workers:
            run.until_ready(worker)
        assert run.json("login", "list")[0]["state"] == "not yet"
        run.scraper("crawl", "shop")
        until(lambda: len(rows(engine, "SELECT FROM products")) > 100, 120)
        with redis.Redis.from_url(environment.valkey_url) as client:
            client.flushdb()
        until(lambda: len(rows(engine, "SELECT FROM products")) > 200, 120)
        shop.expire_all()
        until(lambda: ended(engine), 180)
        stored = dict(rows(engine, "SELECT external_id, data ->> 'price' FROM products"))
        assert stored == {str(n): f"{n}.50" for n in range(PRODUCTS)}
        assert rows(engine, "SELECT status, dead, invalid FROM crawls") == [("completed", 0, 0)]
        # Two sessions end early: one with the emptied Redis, one with the shop's own end.
        assert shop.expired >= PRODUCTS // LASTS - 2
        assert len(shop.logins) == shop.expired + 1 and shop.refused == [] and shop.forged == 0
        # What was under way when a session ended: on a slow machine that is more.
        assert shop.logged_out <= PRODUCTS, "once a page, on average"
        assert_counted(engine, run.crawls("shop")[0])
        (told,) = run.json("login", "list", "shop")
        assert told["state"] == "logged in" and told["listed"] and told["seen_working"]
        tables = rows(engine, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        kept = "".join(
            str(row)
            for (table,) in tables
            for row in rows(engine, f"SELECT t::text FROM {table} t")
        )
        with redis.Redis.from_url(environment.valkey_url) as client:
            kept += "".join(repr(key) + repr(client.dump(key)) for key in client.scan_iter())
        kept += " ".join(
            " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
        )
        kept += run.logs(whole=True) + str(told)
        for secret in (PASSWORD, SESSION, "ann@shop.example"):
            assert secret not in kept
        for worker in workers:
            assert run.end(worker) == 0


def test_the_commands_say_who_is_logged_in_and_why_not(
    run: Commands, listed: Callable[[str], None], environment: Settings
) -> None:
    with LoginShop(10) as shop:
        definition = environment.sites_dir / "shop.yaml"
        definition.write_text(shop.definition())
        assert "SCRAPER_ACCOUNTS is not set" in run.scraper("login", "check", "shop", code=2).stderr
        listed("shop:\n  - {name: ann, username: ann@shop.example, password: wr0ng-pa55word}\n")
        (told,) = run.json("login", "check", "shop", code=1)
        assert not told["worked"] and told["kind"] == "rejected" and "success" in told["saw"]
        assert "wr0ng" not in str(told)
        done = run.scraper("login", "check", "shop", code=1)
        assert "shop: not logged in: ann" in done.stderr and "rejected" in done.stdout
        (one,) = run.json("login", "list")
        assert one["state"] == "quarantine" and one["kind"] == "rejected" and one["failures"] == 2
        listed(
            shop.accounts("ann@shop.example", "bob@shop.example").replace(
                "{username: ann", "{name: ann, username: ann"
            )
        )
        told, other = run.json("login", "check", "shop")
        assert told["worked"] and told["cookies"] == ["anonymous", "seen", "sid"] and told["stored"]
        assert other["account"] == "2" and other["worked"] and PASSWORD not in str(other)
        table = run.scraper("login", "list").stdout
        assert table.count("logged in") == 2 and "ann" in table
        assert run.json("login", "forget", "shop", "ann") == {"site": "shop", "forgotten": ["ann"]}
        assert [one["state"] for one in run.json("login", "list")] == ["not yet", "logged in"]
        assert "forgotten: 2" in run.scraper("login", "forget", "shop").stdout
        assert "no site 'nope'" in run.scraper("login", "check", "nope", code=2).stderr
        assert (
            "an account 'eve' of shop"
            in run.scraper("login", "check", "shop", "eve", code=2).stderr
        )
        definition.write_text(
            shop.definition().partition("login:")[0]
            + "listing: {products: a}\nproduct: {fields: {a: b}}\n"
        )
        assert "has no `login:`" in run.scraper("login", "check", "shop", code=2).stderr
