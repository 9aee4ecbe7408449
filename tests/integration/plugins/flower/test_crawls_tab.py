"""The Crawls tab by HTTP: a real Flower, behind its login, over a real PostgreSQL that may go away
and come back."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import pytest
import sqlalchemy as sa

from scraper.coordinator.finish import finish
from scraper.domain import Outcome
from scraper.errors import ConfigError
from scraper.feed import reader as feed
from scraper.feed.prices import price_moves
from scraper.frontier import sites
from scraper.plugins.flower import site_history, view
from scraper.results import rejection
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.support.databases import admin
from tests.support.judged_crawls import crawled, good, shop, without
from tests.support.making import (
    a_site,
    add,
    claimed,
    give_up,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    urls,
    with_product,
)
from tests.support.servers.flower import PLAIN, Flower
from tests.support.servers.forked import BIN, ROOT
from tests.support.shops.crawled_shop import Shop

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e"
GETS = [
    "/crawls",
    "/crawls/1",
    "/api/crawls",
    "/api/crawls/1",
    "/crawls/assets/crawls.js",
    "/crawls/products?site=shop",
    "/crawls/sites/shop",
    "/api/sites/shop",
    "/api/products?site=shop",
    "/api/products.csv?site=shop",
    "/metrics",
]
ACTIONS = ["stop", "pause", "resume", "crawl", "replay", "accept", "reject"]


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    """A running crawl with two dead pages, an invalid one and one that is due."""
    found = open_crawl(engine, a_site(schedule="0 6 * * *", timezone="Europe/Berlin"))
    give_up(engine, found, urls(2), Outcome.REFUSED, error=EVIL, excerpt=EVIL)
    give_up(
        engine,
        found,
        ["https://other.example/1"],
        Outcome.NOT_EXTRACTED,
        error="title is missing",
        excerpt=EVIL,
    )
    add(engine, [new_page(found, "https://shop.example/due")])
    return found


@pytest.fixture
def flower(run: Commands, environment: Settings, crawl: tuple[int, int]) -> Flower:
    return Flower(run, environment)


def test_nothing_is_shown_and_nothing_done_without_the_login(
    flower: Flower, engine: sa.Engine
) -> None:
    for auth in (None, ("admin", "wrong"), ("somebody", flower.login[1])):
        for path in GETS:
            answer = flower.get(path, auth=auth)
            assert answer.status_code == 401 and "shop" not in answer.text, path
            assert answer.headers["WWW-Authenticate"].startswith("Basic")
        for action in ACTIONS:
            answer = httpx.post(
                f"{flower.url}/api/crawls/1/{action}",
                auth=auth,  # type: ignore[arg-type]
                timeout=180,
                verify=PLAIN,
            )
            assert answer.status_code == 401
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
            answer = httpx.request(
                method,
                f"{flower.url}/api/crawls",
                auth=auth,  # type: ignore[arg-type]
                timeout=180,
                verify=PLAIN,
            )
            assert answer.status_code in (401, 405)
    assert rows(engine, "SELECT status FROM crawls") == [("running",)]
    health = flower.get("/healthcheck", auth=None)
    assert (health.status_code, health.text) == (200, "OK"), "says that it lives, and no more"
    assert flower.get("/metrics").status_code == 200 and "flower_" in flower.get("/metrics").text


@pytest.mark.parametrize(("said", "without", "within"), [("public", 200, 200), ("off", 404, 404)])
def test_flowers_metrics_by_the_setting(
    run: Commands, environment: Settings, database: str, said: str, without: int, within: int
) -> None:
    run.env["SCRAPER_FLOWER_METRICS"] = said
    flower = Flower(run, environment)
    assert [flower.get("/metrics", auth=None).status_code, flower.get("/metrics").status_code] == [
        without,
        within,
    ]


def test_a_rebound_name_reads_and_does_nothing_where_no_login_is_asked_for(
    run: Commands, environment: Settings, engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """A web page whose name leads to this machine: its requests are of the same origin."""
    run.env["SCRAPER_FLOWER_LOGIN"] = "none"
    run.env["SCRAPER_FLOWER_HOSTS"] = "tab.example, other.example"
    flower = Flower(run, environment)
    with httpx.Client(base_url=flower.url, timeout=180) as own:
        assert own.get("/crawls").status_code == 200
        token = own.cookies["_xsrf"]
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Version": "13",
        }
        for host in (
            f"evil.example:{flower.port}",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ):
            headers = {"Host": host, "Origin": f"http://{host}", "X-XSRFToken": token}
            for path in (
                *GETS,
                "/",
                "/workers",
                "/api/workers",
                "/healthcheck",
                "/static/js/flower.js",
            ):
                assert own.get(path, headers=headers).status_code == 421, (host, path)
                assert own.get(path, headers=headers | upgrade).status_code == 421, (host, path)
            for path in (
                "/api/crawls/1/pause",
                "/api/sites/shop/pause",
                "/api/worker/shutdown/w",
                "/api/task/send-task/x",
            ):
                answer = own.post(path, headers=headers, json={})
                assert answer.status_code == 421 and "shop" not in answer.text, (host, path)
        assert rows(engine, "SELECT paused FROM sites") == [(False,)]
        for host in ("localhost", "[::1]", "10.0.0.7:5555", "Tab.Example:80", "other.example."):
            assert own.get("/crawls", headers={"Host": host}).status_code == 200, host
        assert own.post("/api/crawls/1/pause", headers={"X-XSRFToken": token}).status_code == 200


def test_an_action_needs_the_token_and_the_same_origin(flower: Flower, engine: sa.Engine) -> None:
    path = "/api/crawls/1/stop"
    refused = [
        flower.post(path, token=False),
        flower.post(
            path, token=False, **{"X-XSRFToken": "2|00000000|00000000000000000000000000000000|0"}
        ),
        flower.post(path, Origin="https://evil.example"),
        flower.post(path, **{"Sec-Fetch-Site": "cross-site"}),
        flower.post(path, **{"Sec-Fetch-Site": "same-site"}),
        # as a form on another site would
        httpx.post(f"{flower.url}{path}", auth=flower.login, data={"a": "b"}, timeout=180),
    ]
    assert [answer.status_code for answer in refused] == [403] * len(refused)
    assert rows(engine, "SELECT status FROM crawls") == [("running",)]
    cookie = flower.get("/crawls").headers["Set-Cookie"]
    assert cookie.startswith("_xsrf=") and "SameSite=Strict" in cookie
    assert flower.get(path).status_code == 405, "a link does nothing"


def test_a_crawl_is_stopped_once_and_it_is_logged(flower: Flower, engine: sa.Engine) -> None:
    answer = flower.post("/api/crawls/1/stop", Origin=flower.url)
    assert (answer.status_code, answer.json()) == (200, {"message": "Crawl 1 is stopped."})
    assert rows(engine, "SELECT status, note, dropped FROM crawls") == [
        ("stopped", "stopped by admin in Flower", 1)
    ]
    again = flower.post("/api/crawls/1/stop")
    assert again.status_code == 409 and "is not running: it is stopped" in again.json()["error"]
    missing = [
        flower.post(f"/api/crawls/{number}/stop").status_code
        for number in (2, 9_999_999_999_999_999_999)
    ]
    assert missing == [404, 404]
    logged = [json.loads(line) for line in flower.log().splitlines() if "in Flower" in line]
    said = [
        (line["event"], line["action"], line["crawl"], line["by"], line["ip"]) for line in logged
    ]
    assert said[:2] == [
        ("done in Flower", "stop", 1, "admin", "127.0.0.1"),
        ("refused in Flower", "stop", 1, "admin", "127.0.0.1"),
    ]
    assert flower.login[1] not in flower.log()


def test_a_site_is_paused_and_goes_on(flower: Flower, engine: sa.Engine) -> None:
    assert flower.post("/api/crawls/1/pause").json() == {"message": "shop is paused."}
    assert flower.json("/api/crawls/1")["crawl"]["phase"] == "paused"
    with engine.connect() as connection:
        assert sites.paused_names(connection) == ["shop"]
    refused = flower.post("/api/crawls/1/replay", {"page": 1})
    assert refused.status_code == 409 and "scraper sites resume shop" in refused.json()["error"]
    assert flower.post("/api/crawls/1/resume").json() == {"message": "shop is resumed."}
    assert flower.post("/api/crawls/1/resume").json() == {"message": "shop was not paused."}


def test_a_site_is_crawled_now(flower: Flower, engine: sa.Engine) -> None:
    running = flower.post("/api/crawls/1/crawl").json()
    assert running == {"message": "Crawl 1 of shop was already running."}
    assert flower.post("/api/crawls/1/stop").status_code == 200
    done = flower.post("/api/crawls/1/crawl")
    number = rows(engine, "SELECT max(id) FROM crawls WHERE status = 'planned'")[0][0]
    assert done.json() == {"message": f"Crawl {number} of shop is opened."}


def test_dead_pages_are_replayed_one_by_reason_or_all(flower: Flower, engine: sa.Engine) -> None:
    found = flower.json("/api/crawls/1")
    assert [(one["reason"], one["pages"], one["blame"]) for one in found["dead_reasons"]] == [
        ("refused", 2, "page"),
        ("not_extracted", 1, "parser"),
    ]
    first = next(one["id"] for one in found["dead"] if one["reason"] == "refused")
    assert flower.post("/api/crawls/1/replay", {"page": first}).json() == {
        "message": "1 page is tried again, in crawl 1."
    }
    assert rows(engine, f"SELECT status FROM pages WHERE id = {first}") == [("due",)]
    assert rows(engine, "SELECT dead, invalid FROM crawls") == [(1, 1)]
    again = flower.post("/api/crawls/1/replay", {"page": first})
    assert again.status_code == 404 and "no longer" in again.json()["error"]
    assert flower.post("/api/crawls/1/replay", {"reason": "not_extracted"}).status_code == 200
    assert rows(engine, "SELECT dead, invalid FROM crawls") == [(1, 0)]
    assert flower.post("/api/crawls/1/replay").json() == {
        "message": "1 page is tried again, in crawl 1."
    }
    assert flower.json("/api/crawls/1")["dead"] == []
    for body in ({"page": "1"}, {"pages": 1}, {"reason": "luck"}, []):
        assert flower.post("/api/crawls/1/replay", body or {"x": 1}).status_code == 400


def test_another_crawls_pages_are_not_replayed(flower: Flower, engine: sa.Engine) -> None:
    other = open_crawl(engine, a_site("other"))
    give_up(engine, other, ["https://third.example/"])
    (page,) = (row[0] for row in rows(engine, f"SELECT id FROM pages WHERE crawl_id = {other[1]}"))
    assert flower.post("/api/crawls/1/replay", {"page": page}).status_code == 404
    assert rows(engine, "SELECT dead FROM crawls ORDER BY id") == [(2,), (1,)]


def test_a_suspect_crawl_says_why_and_is_accepted_or_rejected(
    run: Commands, environment: Settings, engine: sa.Engine
) -> None:
    for _ in range(2):
        crawled(engine, shop(), range(30))
    crawl = crawled(engine, shop(), range(30), lambda n: without(good(n), "price"))
    flower, path = Flower(run, environment), f"/api/crawls/{crawl.id}"
    shown = flower.json(path)
    assert shown["why"] and shown["may_accept"] and shown["may_reject"]
    assert [one["field"] for one in shown["reasons"]] == ["price"]
    assert [bool(page["url"]) for page in shown["reasons"][0]["examples"]] == [True] * 3
    assert sum(one["number"] for one in shown["held"]) == 30
    held = "SELECT count(*) FROM held_values"
    before = flower.post(f"{path}/accept", {"dry": True}).json()["message"]
    assert before == f"crawl {crawl.id}: 30 held values and products would be released"
    assert "30 held values go" in flower.post(f"{path}/reject", {"dry": True}).json()["message"]
    for body in ({"dry": 1}, {"page": 1}):
        assert flower.post(f"{path}/reject", body).status_code == 400
    assert flower.post(f"{path}/accept", {}, token=False).status_code == 403
    assert rows(engine, held) == [(30,)] and crawl.row.suspect, "nothing is done yet"
    assert flower.post(f"{path}/reject").status_code == 200 and rows(engine, held) == [(0,)]
    again = flower.post(f"{path}/reject")
    assert again.status_code == 409 and "was rejected before" in again.json()["error"]
    other = crawled(engine, shop(), range(30), lambda n: without(good(n), "price"))
    assert (
        "30 held values and products are released"
        in flower.post(f"/api/crawls/{other.id}/accept").text
    )
    assert rows(engine, held) == [(0,)] and not other.row.suspect
    shown = flower.json(f"/api/crawls/{other.id}")
    assert not shown["may_accept"] and shown["may_reject"] and not shown["held"]


def test_read_only_means_read_only(
    run: Commands, environment: Settings, crawl: tuple[int, int], engine: sa.Engine
) -> None:
    flower = Flower(run, environment, "--read_only=True")
    assert flower.post("/api/crawls/1/stop").status_code == 403
    assert rows(engine, "SELECT status FROM crawls") == [("running",)]
    assert 'data-read-only="yes"' in flower.get("/crawls/1").text


def test_what_is_answered_and_with_which_headers(flower: Flower) -> None:
    for path in GETS[:7]:
        headers = flower.get(path).headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"], path
        assert (
            headers["X-Frame-Options"] == "DENY" and headers["X-Content-Type-Options"] == "nosniff"
        )
        assert "Access-Control-Allow-Origin" not in headers
    assert flower.get("/api/crawls/1").headers["Content-Type"] == "application/json; charset=utf-8"
    for path in ("/crawls", "/crawls/1"):
        text = flower.get(path).text
        assert "onerror" not in text and "alert(" not in text, (
            "nothing of a shop's is in the page itself"
        )
        for address in re.findall(r'(?:src|href)="(/[^"]+)"', text):
            assert flower.get(address.removeprefix(flower.prefix)).status_code == 200, address
    assert flower.json("/api/crawls/1")["dead"][0]["excerpt"] == EVIL
    assert (
        flower.get("/crawls").text.count(">Crawls</a>") == 1
        and ">Crawls</a>" in flower.get("/workers").text
    )
    missing = [
        "/crawls/2",
        "/api/crawls/2",
        "/crawls/assets/handlers.py",
        "/crawls/x",
        "/api/crawls/9999999999999999999",
    ]
    assert {path: flower.get(path).status_code for path in missing} == dict.fromkeys(missing, 404)
    wrong = [
        f"/api/crawls?{query}"
        for query in (
            *("limit=0", "limit=x", "limit=1000", "page=0", "page=99999999999", "sort=id;DROP"),
            *("state=odd", "show=all"),
        )
    ]
    assert {path: flower.get(path).status_code for path in wrong} == dict.fromkeys(wrong, 400)
    assert flower.json("/api/crawls?site=nobody")["crawls"] == []


def test_the_numbers_are_postgresqls(flower: Flower, engine: sa.Engine) -> None:
    listed, found = flower.json("/api/crawls"), flower.json("/api/crawls/1")
    (row,) = rows(engine, "SELECT dead, invalid, product_total, product_done, fetches FROM crawls")
    for crawl in (listed["crawls"][0], found["crawl"]):
        assert (
            tuple(
                crawl[name]
                for name in ("dead", "invalid", "product_total", "product_done", "fetches")
            )
            == row
        )
        assert crawl["phase"] == "fetching" and crawl["left"] == "–"
    (shop,) = listed["crawls"]
    assert shop["site"] == "shop" and shop["next_slot"][14:19] == "00:00"
    assert (listed["totals"]["crawls"], listed["totals"]["failed"]) == (1, row[0] + row[1])
    assert shop["state"] == "failing" and "not_extracted: title is missing" in shop["why"]
    assert found["fields"] == []


def test_five_hundred_sites_are_a_small_answer(flower: Flower, engine: sa.Engine) -> None:
    with engine.begin() as connection:
        sites.store_definitions(
            connection, [a_site(f"shop-{n}", tags=["big"] if n < 3 else []) for n in range(500)]
        )
        connection.execute(
            sa.text(
                """INSERT INTO crawls (site_id, slot, trigger, status, definition, definition_hash,
                                       concurrency, started_at, note)
                   SELECT id, now(), 'manual', 'running', definition, definition_hash, 4, now(),
                          repeat('why ', 100) FROM sites WHERE name LIKE 'shop-%'"""
            )
        )
    answer = flower.get("/api/crawls?limit=100")
    assert len(answer.content) < 300_000 and answer.json()["matching"] == 501
    assert answer.json()["totals"]["crawls"] == 501
    pages = [flower.json(f"/api/crawls?sort=site&page={page}")["crawls"] for page in range(1, 12)]
    assert len({row["site"] for page in pages for row in page}) == 501
    assert [row["site"] for row in flower.json("/api/crawls?search=SHOP-499")["crawls"]] == [
        "shop-499"
    ]
    assert len(flower.json("/api/crawls?show=crawls&site=shop")["crawls"]) == 1
    tagged = flower.json("/api/crawls?show=crawls&tag=big")
    assert (tagged["matching"], tagged["tags"]) == (3, ["big"])


def test_a_site_has_its_history(run: Commands, environment: Settings, engine: sa.Engine) -> None:
    # It is noon there, so no day ends during the test.
    site = shop(timezone=f"Etc/GMT{datetime.now(UTC).hour - 12:+d}")
    crawled(engine, site, range(30))
    crawled(engine, site, range(28), lambda n: good(n) | {"name": f"n{n % 3}"})
    crawl = crawled(
        engine, site, range(28), lambda n: good(n) | ({"price": Decimal(9)} if n < 3 else {})
    )
    rejected = crawled(engine, site, range(28), lambda n: good(n, price=Decimal(n + 50)))
    with engine.begin() as connection:
        assert rejection.reject_crawl(connection, rejected.id)
        sites.store_definitions(connection, [a_site("fresh", schedule="0 6 * * *", tags="x")])
        connection.execute(
            sa.text(
                """UPDATE crawls SET started_at = now() - interval '3 d',
                          finished_at = now() - interval '3 d' WHERE id = 1"""
            )
        )
        connection.execute(
            sa.text(
                """INSERT INTO throughput VALUES
                   (:id, now(), 10, 'w', 'q', '', 'fetched', 9, 9, 1, 700),
                   (:id, now(), 10, 'w', 'q', 'residential', 'fetched', 9, 9, 1, 300)"""
            ),
            {"id": crawl.id},
        )
    flower = Flower(run, environment)
    shown = flower.json("/api/sites/shop")
    numbers = rows(
        engine,
        "SELECT id, products_new, products_changed, products_delisted, fetches FROM crawls"
        " ORDER BY id DESC",
    )
    keys = ("id", "products_new", "products_changed", "products_delisted", "fetches")
    assert [tuple(one[key] for key in keys) for one in shown["crawls"]] == numbers
    assert json.loads(shown["definition"])["product"] and not shown["paused"]
    assert {"name", "price"} <= set(shown["fill"])
    assert {point["fill"] for point in shown["fill"]["price"]} == {1}
    assert (shown["state"], shown["crawl"]) == ("suspect", rejected.id) and shown["why"]
    days = shown["days"]
    assert len(days) == 30 and [day["crawls"] for day in days if day["crawls"]] == [1, 3]
    for day, which in ((days[-4], "id = 1"), (days[-1], "id > 1")):
        names = ("new", "changed", "delisted", "requests")
        ((*sums, listed),) = rows(
            engine,
            f"""SELECT sum(products_new), sum(products_changed), sum(products_delisted),
                       sum(fetches), (array_agg(q.products ORDER BY id DESC))[1]
                  FROM crawls JOIN crawl_quality q ON q.crawl_id = id WHERE {which}""",
        )
        assert [day[name] for name in names] == sums and day["listed"] == listed
    moved = [
        change
        for change in feed.read(engine, 0)
        if change.event == "changed" and change.crawl != rejected.id and price_moves(change)
    ]
    assert days[-1]["repriced"] == len(moved) > 1
    assert (days[-1]["bytes"], days[-1]["proxy_bytes"]) == (1000, 300)
    with engine.begin() as connection:
        for statement in (
            "UPDATE crawls SET status = 'failed' WHERE id = :id",
            "UPDATE crawl_quality SET products = 0 WHERE crawl_id = :id",
        ):
            connection.execute(sa.text(statement), {"id": rejected.id})
    assert flower.json("/api/sites/shop")["days"][-1]["listed"] == 28, "what failed lists nothing"
    never = flower.json("/api/sites/fresh")
    assert never["crawls"] == [] and never["next"] and never["schedule"] == "0 6 * * *"
    assert (never["state"], never["tags"], never["crawl"]) == ("never crawled", ["x"], None)
    assert flower.get("/api/sites/nobody").status_code == 404


def test_a_definitions_problems_are_shown(
    engine: sa.Engine, environment: Settings, tmp_path: Path
) -> None:
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(rate="unlimited")])

    def shown() -> list[str]:
        settings = environment.model_copy(update={"sites_dir": tmp_path})
        with engine.connect() as connection:
            return site_history.read(connection, settings, "shop")["problems"]

    assert any(line.startswith("rate is unlimited") for line in shown())
    (tmp_path / "other.yaml").write_text("name: other")
    assert shown() == [f"{tmp_path}/ no longer defines the site, so it is crawled only by hand"]
    (tmp_path / "x.yaml").write_text("name: shop\nrate: fast\n")
    assert any("x.yaml:2: rate: " in line for line in shown())
    assert shown()[-1] == "its last valid version stays"


def test_secret_headers_of_a_definition_are_dots(engine: sa.Engine, environment: Settings) -> None:
    secrets = ("Authorization", "COOKIE", "x-api-key", "X-Shop-Token", "X-Session", "Api_Secret")
    headers = {name: f"s3cret-{name}" for name in secrets}
    with engine.begin() as connection:
        site = a_site(headers=headers | {"Accept-Language": "de"})
        sites.store_definitions(connection, [site])
        shown = site_history.read(connection, environment, "shop")["definition"]
    assert "s3cret" not in shown and json.loads(shown)["headers"] == {
        **dict.fromkeys(secrets, "•••"),
        "Accept-Language": "de",
    }


def test_a_site_that_was_never_crawled_is_crawled_and_paused(
    flower: Flower, engine: sa.Engine
) -> None:
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site("fresh")])
    assert "Crawl 2 of fresh is opened." in flower.post("/api/sites/fresh/crawl").text
    assert "already running" in flower.post("/api/sites/fresh/crawl").text
    assert "fresh is paused." in flower.post("/api/sites/fresh/pause").text
    assert rows(engine, "SELECT paused FROM sites WHERE name = 'fresh'") == [(True,)]
    assert flower.json("/api/sites/fresh")["state"] == "planned"
    assert "fresh is resumed." in flower.post("/api/sites/fresh/resume").text
    for path, status in (("nobody/crawl", 404), ("fresh/stop", 404), ("nobody/pause", 404)):
        assert flower.post(f"/api/sites/{path}").status_code == status
    assert flower.post("/api/sites/fresh/pause", token=False).status_code == 403
    assert '"site": "fresh"' in flower.log() and '"by": "admin"' in flower.log()


def test_a_product_has_its_history(run: Commands, environment: Settings, engine: sa.Engine) -> None:
    shop = Shop(engine)
    for price in ("10.00", "8.00", "12.00"):
        shop.once("7/&?", title=EVIL, price=Decimal(price), price_currency="EUR", in_stock=True)
    shop.once("7/&?", title=EVIL, price=Decimal("12.00"), price_currency="EUR", in_stock=False)
    flower = Flower(run, environment)
    (listed,) = flower.json("/api/products?site=shop&search=ALERT&sort=-price")["products"]
    assert (listed["id"], listed["prices"]) == ("7/&?", [{"field": "price", "text": "12.00 EUR"}])
    found = flower.json(f"/api/products?site=shop&id={quote('7/&?', safe='')}")
    assert [(one["value"], one["percent"]) for one in found["prices"]["price"]] == [
        (10, None), (8, -20), (12, 50)
    ]  # fmt: skip
    (price,) = [one for one in found["values"] if one["field"] == "price"]
    assert price["value"] == "12.00 EUR" and found["changes_in_all"] == 4
    assert price["crawl"] == 3 and price["since"] == found["changes"][1]["at"]
    assert price["sources"] == [] and price["held"] is None
    assert [(one["crawl"], one["what"]) for one in found["crawls"]] == [
        (4, "changed it, read it last"), (3, "changed it"), (2, "changed it"),
        (1, "brought it"),
    ]  # fmt: skip
    assert [one["value"] for one in found["stock"]["in_stock"]] == [True, False]
    assert listed["stock"] is False
    assert found["changes"][0]["fields"] == [
        {"field": "in_stock", "before": "True", "after": "False", "percent": ""}
    ]
    assert found["changes"][1]["fields"] == [
        {"field": "price", "before": "8.00 EUR", "after": "12.00 EUR", "percent": "+50.0%"}
    ]
    assert flower.json("/api/products?site=shop&search=nothing")["products"] == []
    statuses = {
        path: flower.get(f"/api/products{path}").status_code
        for path in (
            "",
            "?site=nobody",
            "?site=shop&id=8",
            "?site=shop&page=0",
            "?site=shop&sort=x",
        )
    }
    assert list(statuses.values()) == [400, 404, 404, 400, 200]
    assert "alert(1)" not in flower.get("/crawls/products?site=shop").text


def test_what_is_shown_is_exported(
    run: Commands, environment: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n, title in enumerate(["Pot", "=1+1 pan", "Pan, large"]):
        crawl = open_crawl(engine, a_site(revisit="0s", quality="none"))
        add(engine, [new_page(crawl, f"https://shop.example/p/{n}")])
        (batch,) = lease_all(engine, "shop.example")
        lease = claimed(engine, batch)
        assert lease is not None
        data = {"title": title, "price": Decimal(f"{n}.50"), "price_currency": "EUR"}
        store(
            engine,
            crawl,
            [with_product(settled(lease.pages[0].id, crawl, batch.id), crawl, str(n), data)],
        )
        finish(engine, crawl[1])
    flower = Flower(run, environment)
    path = "/api/products.{}?site=shop&search=PAN&sort=-price"
    answer = flower.get(path.format("csv"))
    assert answer.headers["content-disposition"] == 'attachment; filename="shop.csv"'
    assert answer.headers["content-type"].startswith("text/csv")
    lines = list(csv.DictReader(answer.text.splitlines()))
    assert [(line["id"], line["title"], line["price"]) for line in lines] == [
        ("2", "Pan, large", "2.50"),
        ("1", "'=1+1 pan", "1.50"),
    ]
    jsonl = [json.loads(line) for line in flower.get(path.format("jsonl")).text.splitlines()]
    assert [line["title"] for line in jsonl] == ["Pan, large", "=1+1 pan"]
    assert flower.get("/api/products.csv?site=nobody").status_code == 404
    assert flower.get("/api/products.csv?site=shop", auth=("admin", "x")).status_code == 401
    monkeypatch.setattr(view, "EXPORT_MAX", 2)
    with engine.connect() as connection, pytest.raises(ConfigError, match="3 products are too"):
        view.export_products(connection, "shop", "", "id", "csv")


def test_behind_a_prefix_every_link_works(
    run: Commands, environment: Settings, crawl: tuple[int, int], engine: sa.Engine
) -> None:
    flower = Flower(run, environment, "--url_prefix=ops/flower", prefix="/ops/flower")
    text = flower.get("/crawls/1").text
    links = re.findall(r'(?:src|href|data-api|data-pages)="(/[^"]*)"', text)
    assert links and all(link.startswith("/ops/flower/") for link in links), links
    assert {"/ops/flower/crawls", "/ops/flower/api/crawls"} <= set(links)
    assert flower.get("/").headers["Location"] == "/ops/flower/crawls"
    assert flower.get("/", auth=None).status_code == 401
    for link in links:
        answer = flower.get(link.removeprefix("/ops/flower"), follow_redirects=True)
        assert answer.status_code == 200, link
    assert flower.get("/metrics", auth=None).status_code == 401
    assert flower.post("/api/crawls/1/stop").status_code == 200


@pytest.mark.usefixtures("own_database")
def test_postgresql_goes_away_and_comes_back(
    run: Commands, environment: Settings, crawl: tuple[int, int], tmp_path: Path, servers: Settings
) -> None:
    """Its socket is reached through a link, which is taken away; its connections are cut."""
    url = str(environment.database_url)
    folder = tmp_path / "pg"
    folder.mkdir()
    real = Path(unquote(url.partition("host=")[2].partition("&")[0]))
    link = folder / ".s.PGSQL.5432"
    link.symlink_to(real / ".s.PGSQL.5432")
    run.env["DATABASE_URL"] = url.replace(quote(str(real), safe=""), quote(str(folder), safe=""))
    flower = Flower(run, environment)
    assert flower.get("/crawls/1").status_code == 200
    link.unlink()
    with admin(servers) as connection:
        name = sa.engine.make_url(url).database
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
    for path in ("/crawls", "/crawls/1"):
        answer = until(lambda path=path: (a := flower.get(path)).status_code == 503 and a, 10)  # type: ignore[misc]
        assert "PostgreSQL does not answer" in answer.text and ">Workers</a>" in answer.text
        assert answer.headers["Retry-After"] == "5"
    assert "PostgreSQL does not answer" in flower.get("/api/crawls").json()["error"]
    assert flower.post("/api/crawls/1/stop").status_code == 503
    assert flower.get("/workers").status_code == 200, "Flower goes on"
    link.symlink_to(real / ".s.PGSQL.5432")
    until(lambda: flower.get("/api/crawls/1").status_code == 200, 20)
    assert "Traceback" not in flower.log()


def test_a_database_without_tables_is_said(
    run: Commands, environment: Settings, empty_database: str
) -> None:
    run.env["DATABASE_URL"] = empty_database
    flower = Flower(run, environment)
    answer = flower.get("/api/crawls")
    assert answer.status_code == 503 and "scraper migrate" in answer.json()["error"]


def test_many_who_look_at_once_are_one_question(flower: Flower, engine: sa.Engine) -> None:
    """Asked at the same moment, everybody gets the same answer."""
    import threading

    found: list[str] = []

    def look() -> None:
        found.append(flower.get("/api/crawls").text)

    flower.get("/api/crawls")
    threads = [threading.Thread(target=look) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20 and all(json.loads(text)["crawls"][0]["id"] == 1 for text in found)
    # An autovacuum worker of the database is not a client.
    query = """SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND backend_type = 'client backend'"""
    ((busy,),) = rows(engine, query)
    assert isinstance(busy, int) and busy <= 8


def on_a_terminal(run: Commands, *words: str) -> str:
    """What a command prints where its output is a terminal."""
    terminal, end = pty.openpty()
    try:
        subprocess.run(
            [BIN / words[0], *words[1:]],
            cwd=ROOT,
            env=run.environ(),
            stdout=end,
            check=True,
            timeout=180,
        )
    finally:
        os.close(end)
    told = b""
    # Linux says EIO at its end
    with suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as file:
        while chunk := file.read(4096):
            told += chunk
    return told.decode()


def test_up_shows_a_made_password_on_a_terminal_alone(run: Commands, environment: Settings) -> None:
    piped = run.scraper("up").stdout
    made = (environment.home_dir / "flower-password").read_text().strip()
    assert made not in piped and f"password in {environment.home_dir}" in piped
    assert f"log in as admin, password {made}" in on_a_terminal(run, "scraper", "up")
    run.env["SCRAPER_FLOWER_PASSWORD"] = "from-the-environment"
    told = on_a_terminal(run, "scraper", "up")
    assert (
        "password in SCRAPER_FLOWER_PASSWORD" in told
        and "from-the-environment" not in told
        and made not in told
    )
