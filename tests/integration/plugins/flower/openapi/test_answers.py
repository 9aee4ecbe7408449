"""Every answer of the tab's JSON, of real data, as the OpenAPI document describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from openapi_spec_validator import validate

from scraper.domain import Blame, CrawlStatus
from scraper.frontier.progress import STATES
from scraper.plugins.flower.access.users import change_users, with_token
from scraper.plugins.flower.latest.changes import EVENTS
from scraper.plugins.flower.openapi.document import make_document
from scraper.plugins.flower.openapi.schemas import OWN
from scraper.plugins.flower.tab import make_routes
from scraper.plugins.flower.tab_pages import all_actions, answers_of, tab_pages
from scraper.settings import Settings
from scraper.settings import load as load_settings
from tests.acceptance.commands import Commands, until
from tests.integration.plugins.flower.openapi.described import Described
from tests.integration.plugins.flower.openapi.filled import fill_database, write_alert_files
from tests.support.servers.flower import Flower
from tests.support.servers.receivers import receivers
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop

SETUP = "/crawls/api/setup"
ALERTS = "/crawls/api/alerts"
ARTICLES = "/crawls/api/articles"
FILES = [OWN, *filter(None, map(answers_of, tab_pages().values()))]
HEAD = {"schedule": "0 6 * * *", "timezone": "UTC", "queue": "browser"}
# What no answer here has, and why.
READ_ONLY = (
    "only if the folder cannot be written, see test_saved_definitions and test_notifications"
)
OTHER_SHOP = "only of a shop with an interface, a sitemap, items, or fields of its whole page"
NEVER_SEEN = {
    **dict.fromkeys(("DraftSaved.file", "DraftSaved.text"), READ_ONLY),
    **dict.fromkeys(("RulesSaved.file", "RulesSaved.text"), READ_ONLY),
    **{
        f"Findings.{name}": OTHER_SHOP
        for name in ("interface", "items", "page_fields", "platform", "sitemap")
    },
}

# What only a search that takes some seconds answers, see test_pick.
SLOW = {"PickBusy.busy", "PickBusy.error"}


class Script:
    """A script with a token. Each of its requests and answers is as the document describes it."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=url, headers=headers, timeout=180)
        self.described = Described(self.client.get("/api/openapi.json").json())

    def get(self, path: str, **query: Any) -> Any:
        return self.send("GET", path, params=query)

    def post(self, path: str, **body: object) -> Any:
        return self.send("POST", path, json=body)

    def send(self, method: str, path: str, **more: Any) -> Any:
        answer = self.client.request(method, path, **more)
        self.described.note(answer.request, more.get("json"), answer)
        return answer.json()


@pytest.mark.slow
def test_every_answer_is_as_described(
    run: Commands,
    environment: Settings,
    engine: sa.Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with receivers(tmp_path) as (webhook, _, _):
        for name, value in write_alert_files(tmp_path, webhook.address).items():
            monkeypatch.setenv(name, value)
            run.env[name] = value
        load_settings.cache_clear()
        fill_database(engine, load_settings(), webhook)
        with change_users(environment.home_dir) as users:
            users["script"], token = with_token("script", "edit")
        script = Script(Flower(run, environment).url, token)
        read_pages(script)
        change_alerts(script)
        set_up(script, environment, run)
        act(script)
    seen = script.described
    script.client.close()
    assert seen.list_operations() - seen.operations == set()
    assert seen.list_properties() - seen.properties - SLOW == set(NEVER_SEEN)


def read_pages(script: Script) -> None:
    for query in ({}, {"show": "crawls"}, {"search": "nothing"}):
        script.get("/api/crawls", **query)
    crawls = [row["id"] for row in script.get("/api/crawls", show="crawls")["crawls"]]
    for id_ in crawls:
        script.get(f"/api/crawls/{id_}")
    for site in ("shop", "other", "never", "alpha"):
        script.get(f"/api/sites/{site}")
    script.get("/api/products", site="shop")
    for site, id_ in (("shop", 3), ("alpha", 0), ("shop", 29)):
        script.get("/api/products", site=site, id=id_)
    script.get("/api/changes")
    script.get("/crawls/api/search", q="kettle")
    script.get("/crawls/api/search", q="")
    script.get("/crawls/api/drops")
    script.get("/crawls/api/plans")
    (article, *_) = script.get(ARTICLES, search="kettle")["articles"]
    script.get(ARTICLES, id=article["article"])
    first, second, *_ = script.get(ARTICLES, show="review")["proposals"]
    script.post(f"{ARTICLES}/confirm", left=first["left_id"], right=first["right_id"])
    script.post(f"{ARTICLES}/refuse", left=second["left_id"], right=second["right_id"])


def change_alerts(script: Script) -> None:
    shown = script.get(ALERTS)
    script.get(ALERTS, preview=1)
    row = shown["recipients"]["list"][0]
    script.post(f"{ALERTS}/test", line=row["line"], key=row["key"])
    script.post(f"{ALERTS}/add", address="https://hooks.example/x", names="more")
    added = script.get(ALERTS)["recipients"]["list"][-1]
    script.post(f"{ALERTS}/remove", line=added["line"], key=added["key"])
    rules = script.post(f"{ALERTS}/rules")
    script.post(f"{ALERTS}/check", text=rules["text"] + "- {name: x}\n")
    script.post(f"{ALERTS}/save", text=rules["text"] + "# more\n", seen=rules["seen"])


def set_up(script: Script, environment: Settings, run: Commands) -> None:
    shop = TEMPLATES["workshop"]()
    with StaticShop(shop.pages) as server:
        told = script.post(f"{SETUP}/survey", addresses=f"{server.url}/all\nx y", rate="1000/s")
        (id_,) = told["ids"]
        script.get(SETUP)

        def ended() -> bool:
            survey = script.get(SETUP, id=id_)["survey"]
            return survey["state"] not in ("waiting", "reading")

        until(ended, 120)
        script.get(SETUP)
        script.post(f"{SETUP}/check", survey=id_, name="workshop", **HEAD)
        text = script.get(SETUP, id=id_)["survey"]["text"]
        script.post(f"{SETUP}/check", name="workshop", text="name: x\nrate: fast\n")
        script.post(f"{SETUP}/save", survey=id_, name="workshop", seen="", tags="new")
        wait_pick(script, survey=id_, text=text)
        wait_pick(script, survey=id_, text=text, page=1)
        wait_pick(script, survey=id_, text=text, page=1, element=5, field="extra")
        file = environment.sites_dir / "workshop.yaml"
        run.scraper("sites", "record", "workshop")
        found = script.get(SETUP, site="workshop")
        script.post(f"{SETUP}/check", name="workshop", text=found["text"] + "# new\n")
        script.post(
            f"{SETUP}/save", name="workshop", text=found["text"] + "# new\n", seen=found["seen"]
        )
        changes = script.get(SETUP, site="workshop")["changes"]
        script.get(SETUP, change=changes[0]["id"])
        script.get(SETUP, change=changes[1]["id"])
        script.post(f"{SETUP}/undo", id=changes[0]["id"])
        server.pages |= {path: page.replace("cost", "amount") for path, page in shop.pages.items()}
        script.post(f"{SETUP}/repair", site="workshop")
        until(lambda: script.get(SETUP, site="workshop")["repair"]["state"] != "reading", 120)
        script.post(f"{SETUP}/crawl", site="workshop")
        script.post(f"{SETUP}/cancel", id=id_)
        script.post(f"{SETUP}/forget", id=id_)
        (environment.sites_dir / "shop.yaml").write_text("name: shop\n")
        script.get(SETUP, site="shop")
        assert file


def wait_pick(script: Script, **body: object) -> None:
    until(lambda: not script.post(f"{SETUP}/pick", **body).get("busy"), 120)


def act(script: Script) -> None:
    ids = {row["site"]: row["id"] for row in script.get("/api/crawls")["crawls"]}
    for action in ("pause", "resume", "crawl"):
        script.post(f"/api/sites/never/{action}")
        script.post(f"/api/crawls/{ids['alpha']}/{action}")
    script.post(f"/api/crawls/{ids['other']}/replay", reason="refused")
    script.post(f"/api/crawls/{ids['other']}/stop")
    script.post(f"/api/crawls/{ids['shop']}/accept", dry=True)
    script.post(f"/api/crawls/{ids['shop']}/reject")
    script.post(f"{SETUP}/accept", id=ids["shop"])
    script.post(f"{SETUP}/reject", id=ids["alpha"])
    script.get(f"/api/crawls/{ids['other']}")
    script.get("/api/openapi.json")
    fail(script)


def fail(script: Script) -> None:
    """Each kind of error."""
    script.get("/api/crawls/4711")
    script.get("/api/sites/nobody")
    script.get("/api/crawls", page="x")
    script.get(SETUP, id="x")
    script.get(SETUP, change=4711)
    script.post(f"{SETUP}/undo", id=4711)
    script.post(f"{SETUP}/check", name="x", text="x" * 400_000)
    script.post(f"{SETUP}/crawl", site="nobody")
    script.client.headers["Authorization"] = "Bearer wrong"
    script.get("/api/crawls")


def test_the_document_is_openapi_and_its_words_are_the_codes(environment: Settings) -> None:
    document = make_document(make_routes(environment))
    validate(document)
    schemas = document["components"]["schemas"]
    assert set(schemas) == Described(document).list_references()
    for name, words in (
        ("State", STATES),
        ("CrawlStatus", list(CrawlStatus)),
        ("Blame", list(Blame)),
        ("Event", EVENTS),
    ):
        assert schemas[name]["enum"] == list(words), name
    named = [name for file in FILES for name in json.loads(file.read_text())["schemas"]]
    assert sorted(named) == sorted(set(schemas)), "no two files name a schema alike"
    for page in tab_pages().values():
        given = json.loads((answers_of(page) or OWN).read_text())
        assert set(given["answers"]) <= {"read", *all_actions(page)}
        assert set(given.get("bodies", {})) == set(all_actions(page))
