"""The page "Add shops" by HTTP, asked by a person and by hostile pages."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from scraper.plugins.setup.tab import ACTIONS, QUESTIONS
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.support.making import rows
from tests.support.servers.flower import PLAIN, Flower
from tests.support.servers.silent_shop import SilentShop
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.slow

API = "/crawls/api/setup"
GETS = ("/crawls/setup", API, f"{API}?site=shop", f"{API}?id=1", f"{API}?change=1")
POSTS = sorted(QUESTIONS | ACTIONS)
NEW = {"name": "shop", "text": "name: shop\nstart: https://shop.example/\n", "seen": ""}
BODIES = {"survey": {"addresses": "http://127.0.0.1:9/"}, "crawl": {"site": "shop"}, "save": NEW}


def survey(flower: Flower, addresses: str) -> dict[str, Any]:
    """Asks for surveys, and returns the first once it has ended."""
    told = flower.post(f"{API}/survey", {"addresses": addresses, "rate": "1000/s"})
    assert told.status_code == 200, told.text
    path = f"{API}?id={told.json()['ids'][0]}"

    def state() -> str:
        return str(flower.json(path)["survey"]["state"])

    until(lambda: state() not in ("waiting", "reading"), 60)
    shown: dict[str, Any] = flower.json(path)["survey"]
    return shown


def test_an_address_becomes_a_definition(environment: Settings, flower: Flower) -> None:
    shop = TEMPLATES["workshop"]()
    with StaticShop(shop.pages) as server:
        shown = survey(flower, f"{server.url}/all\nnot an address")
    assert shown["state"] == "ready" and "product:" in shown["text"] and shown["by"] == "admin"
    (listed,) = flower.json(API)["surveys"]
    assert listed["id"] == shown["id"] and listed["fields"] > 3
    assert list(environment.sites_dir.iterdir()) == []
    assert flower.post(f"{API}/forget", {"id": shown["id"]}).status_code == 200
    assert flower.get(f"{API}?id={shown['id']}").status_code == 404


def test_requests_of_a_hostile_page_start_nothing(flower: Flower) -> None:
    with SilentShop() as shop:
        body = {"addresses": f"{shop.url}/", "rate": "4/s"}
        assert flower.post(f"{API}/survey", body, token=False).status_code == 403
        assert flower.post(f"{API}/survey", body, Origin="https://evil.example").status_code == 403
        assert flower.get(API, auth=None).status_code == 401
        assert httpx.post(f"{flower.url}{API}/survey", json=body, timeout=180).status_code == 401
        for wrong, status in (
            ({"addresses": "--help"}, 409),
            ({"addresses": "file:///etc/passwd"}, 409),
            ({"addresses": ["a.example"]}, 409),
            ({"addresses": f"{shop.url}/", "rate": "--json"}, 409),
            ({"addresses": f"{shop.url}/", "rate": "unlimited"}, 409),
            ({"addresses": f"{shop.url}/", "sites": "/"}, 409),
            ({"addresses": "\n".join(f"h{n}.example" for n in range(501))}, 409),
            ({"addresses": "x" * 400_000}, 413),
            ([], 400),
        ):
            assert flower.post(f"{API}/survey", wrong).status_code == status, str(wrong)[:80]
        assert flower.post(f"{API}/delete", {}).status_code == 404
        for wrong in ({"id": "1"}, {"id": True}, {"id": 999}, {}):
            assert flower.post(f"{API}/cancel", wrong).status_code in (404, 409)
        for query in ("id=x", "id=999", f"id={'9' * 200}"):
            assert flower.get(f"{API}?{query}").status_code in (404, 409)
        assert flower.json(API)["surveys"] == [] and shop.connections == []


def assert_nothing_done(environment: Settings, engine: sa.Engine, flower: Flower) -> None:
    assert list(environment.sites_dir.iterdir()) == []
    assert rows(engine, "SELECT count(*) FROM definition_changes") == [(0,)]
    assert rows(engine, "SELECT count(*) FROM crawls") == [(0,)]
    assert "done in Flower" not in flower.log()


def test_every_route_asks_for_the_login_and_every_action_for_its_own_origin(
    environment: Settings, flower: Flower, engine: sa.Engine
) -> None:
    for auth in (None, ("admin", "wrong")):
        for path in GETS:
            assert flower.get(path, auth=auth).status_code == 401, path
        for name in POSTS:
            answer = httpx.post(f"{flower.url}{API}/{name}", auth=auth, timeout=30, verify=PLAIN)
            assert answer.status_code == 401, name
    for name in POSTS:
        path, body = f"{API}/{name}", BODIES.get(name, {"id": 1})
        refused = [
            flower.post(path, body, token=False),
            flower.post(path, body, Origin="https://evil.example"),
            flower.post(path, body, **{"Sec-Fetch-Site": "cross-site"}),
            flower.post(path, body, **{"Sec-Fetch-Site": "same-site"}),
            # as a form on another site would
            httpx.post(f"{flower.url}{path}", auth=flower.login, data={"a": "b"}, timeout=30),
        ]
        assert [answer.status_code for answer in refused] == [403] * len(refused), name
        assert flower.get(path).status_code == 405, name
    assert_nothing_done(environment, engine, flower)


def test_who_may_only_read_changes_nothing(
    run: Commands, environment: Settings, engine: sa.Engine
) -> None:
    flower = Flower(run, environment, "--read_only=True")
    for name in ACTIONS:
        assert flower.post(f"{API}/{name}", BODIES.get(name, {"id": 1})).status_code == 403, name
    assert flower.get(API).status_code == 200
    assert_nothing_done(environment, engine, flower)


def test_a_rebound_name_reaches_no_route_where_no_login_is_asked_for(
    run: Commands, environment: Settings, engine: sa.Engine
) -> None:
    """A web page whose name leads to this machine: its requests are of the same origin."""
    run.env["SCRAPER_FLOWER_LOGIN"] = "none"
    flower = Flower(run, environment)
    with httpx.Client(base_url=flower.url, timeout=30) as own:
        assert own.get("/crawls/setup").status_code == 200
        token = own.cookies["_xsrf"]
        for host in (f"evil.example:{flower.port}", "localhost.evil.example"):
            headers = {"Host": host, "Origin": f"http://{host}", "X-XSRFToken": token}
            for path in GETS:
                assert own.get(path, headers=headers).status_code == 421, (host, path)
            for name in POSTS:
                answer = own.post(
                    f"{API}/{name}", headers=headers, json=BODIES.get(name, {"id": 1})
                )
                assert answer.status_code == 421 and "shop" not in answer.text, (host, name)
        assert_nothing_done(environment, engine, flower)
        # The same request by its own name is answered.
        asked = own.post(f"{API}/check", headers={"X-XSRFToken": token}, json=NEW)
        assert asked.status_code == 200 and asked.json()["problems"]


def test_a_guarded_tab_surveys_nothing_of_its_own_network(
    run: Commands, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_SETUP_PRIVATE", "0")
    flower = Flower(run, environment, "--read_only=True")
    with SilentShop() as shop:
        told = flower.post(f"{API}/survey", {"addresses": shop.url, "rate": "4/s"})
        assert told.status_code == 403
        flower.stop()
        flower = Flower(run, environment)
        for url in (
            shop.url,
            "http://localhost/",
            "http://169.254.169.254/latest",
            "http://[::1]/",
        ):
            told = flower.post(f"{API}/survey", {"addresses": url, "rate": "4/s"})
            assert told.status_code == 409 and "own network" in told.text
        assert shop.connections == []
