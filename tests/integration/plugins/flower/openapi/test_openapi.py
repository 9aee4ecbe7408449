"""The OpenAPI document: every route of the tab's JSON is in it, as its handler reads it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from scraper.plugins.flower import actions
from scraper.plugins.flower.access.users import change_users, with_token
from scraper.plugins.flower.handlers.base import ApiHandler
from scraper.plugins.flower.openapi.document import METHODS, has_method, make_document
from scraper.plugins.flower.tab import make_routes
from scraper.plugins.flower.tab_pages import questions_of, tab_pages
from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.support.making import a_site, open_crawl
from tests.support.servers.flower import Flower


@pytest.fixture
def routes(environment: Settings) -> list[Any]:
    return make_routes(environment)


def fill(path: str) -> str:
    """A path with values for its names."""
    return path.replace("{crawl}", "1").replace("{site}", "shop")


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_and_method_is_there_and_no_other(routes: list[Any]) -> None:
    document = make_document(routes)
    shown = {(method, path) for method, path, _ in operations(document)}
    for route in routes:
        handler = route.handler_class
        matching = [(m, p) for m, p in shown if route.regex.match(fill(p))]
        if not issubclass(handler, ApiHandler):
            assert matching == [], route.regex.pattern
            continue
        methods = {method for method in METHODS if has_method(handler, method)}
        assert methods and methods <= {method for method, _ in matching}, route.regex.pattern
    for _, path in shown:
        assert any(route.regex.match(fill(path)) for route in routes), path
    for name in actions.ACTIONS:
        assert f"/api/crawls/{{crawl}}/{name}" in document["paths"]
    for name, page in tab_pages().items():
        for action in {**page.ACTIONS, **questions_of(page)}:
            assert "post" in document["paths"][f"/crawls/api/{name}/{action}"]


def test_an_operation_has_all_that_a_reader_needs(routes: list[Any]) -> None:
    document = make_document(routes, "/ops/")
    found = operations(document)
    assert document["servers"] == [{"url": "/ops"}]
    ids = [operation["operationId"] for _, _, operation in found]
    assert len(set(ids)) == len(ids) > 30
    for method, path, operation in found:
        assert re.match("[A-Z].*[.:,a-z]", operation["summary"]), (path, operation["summary"])
        assert operation["x-role"] in ("read", "operate", "edit")
        declared = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path))
        assert ("requestBody" in operation) == (method == "post")
    roles = {path: operation["x-role"] for _, path, operation in found}
    assert roles["/api/crawls/{crawl}/accept"] == "operate" and roles["/api/crawls"] == "read"
    if "setup" in tab_pages():
        assert roles["/crawls/api/setup"] == roles["/crawls/api/setup/save"] == "edit"


def test_the_server_does_as_the_document_says(
    run: Commands, environment: Settings, engine: sa.Engine
) -> None:
    open_crawl(engine, a_site())
    with change_users(environment.home_dir) as users:
        users["script"], token = with_token("script", "read")
    flower = Flower(run, environment)
    script = httpx.Client(
        base_url=flower.url, headers={"Authorization": f"Bearer {token}"}, timeout=60
    )
    assert httpx.get(f"{flower.url}/api/openapi.json", timeout=180).status_code == 401
    document = script.get("/api/openapi.json").json()
    for method, path, operation in operations(document):
        refused = script.request(method, fill(path))
        allowed = operation["x-role"] == "read"
        assert (refused.status_code == 403) is not allowed, (method, path, refused.text)
        assert refused.status_code < 500 and refused.status_code != 405, (path, refused.text)
        if refused.status_code >= 400:
            assert set(refused.json()) == {"error"}, path
        if not allowed:
            continue
        required = {one["name"]: "shop" for one in operation["parameters"] if one["required"]}
        for one in operation["parameters"]:
            limits = one["schema"]
            wrong = (
                ["0", "-1", "x", "1e9", str(limits["maximum"] + 1)] if "maximum" in limits else []
            )
            if "enum" in limits:
                good = script.get(fill(path), params={**required, one["name"]: limits["enum"][-1]})
                assert good.status_code == 200, (path, one, good.text)
                wrong = ["nothing", f"{limits['enum'][0]}x"]
            for value in wrong:
                answer = script.get(fill(path), params={**required, one["name"]: value})
                assert answer.status_code == 400 and one["name"] in answer.json()["error"], (
                    path,
                    value,
                )
    for path, keys in (("/api/crawls/1/stop", {"page": 1}), ("/api/crawls/1/accept", {"x": 1})):
        answer = flower.post(path, keys)
        assert answer.status_code == 400 and "has" in answer.json()["error"]
    script.close()
