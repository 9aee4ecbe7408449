"""The role of every route of the tab: a route or a method that is not named here fails, so that
each new one is decided on."""

from __future__ import annotations

import re
from typing import Any

import pytest

from scraper.plugins.flower.access.roles import needed_role
from scraper.plugins.flower.handlers.base import GuardedHandler
from scraper.plugins.flower.openapi.document import expand_pattern
from scraper.plugins.flower.tab import make_routes
from scraper.settings import Settings

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
# `1` is what varies in a path.
ROLES = {
    "GET read": """
        /api/changes /api/changes.atom /api/crawls /api/crawls/1 /api/openapi.json /api/products
        /api/products.csv /api/products.jsonl /api/products/picture /api/sites/1
        /crawls /crawls/1 /crawls/assets/1 /crawls/products /crawls/sites/1
        /crawls/alerts /crawls/articles /crawls/drops /crawls/plans /crawls/search
        /crawls/api/alerts /crawls/api/articles /crawls/api/drops /crawls/api/plans
        /crawls/api/search /crawls/scripts/alerts.js /crawls/scripts/articles.js
        /crawls/scripts/drops.js /crawls/scripts/plans.js /crawls/scripts/search.js""",
    "GET edit": "/crawls/setup /crawls/api/setup /crawls/scripts/setup.js",
    "POST operate": """
        /api/crawls/1/accept /api/crawls/1/crawl /api/crawls/1/pause /api/crawls/1/reject
        /api/crawls/1/replay /api/crawls/1/resume /api/crawls/1/stop
        /api/sites/1/crawl /api/sites/1/pause /api/sites/1/resume
        /crawls/api/alerts/test /crawls/api/articles/confirm /crawls/api/articles/refuse""",
    "POST edit": """
        /crawls/api/alerts/add /crawls/api/alerts/check /crawls/api/alerts/remove
        /crawls/api/alerts/rules /crawls/api/alerts/save
        /crawls/api/setup/accept /crawls/api/setup/cancel /crawls/api/setup/check
        /crawls/api/setup/crawl /crawls/api/setup/forget /crawls/api/setup/pick
        /crawls/api/setup/reject /crawls/api/setup/repair /crawls/api/setup/save
        /crawls/api/setup/survey /crawls/api/setup/undo""",
}
# Other spellings of paths that need a role.
EVASIONS = (
    *("/crawls/api/setup/", "/crawls/api/setup/save/", "/crawls//api/setup", "//crawls/api/setup"),
    *(
        "/crawls/api/%73etup",
        "/crawls/api/setup%2Fsave",
        "/crawls/./api/setup",
        "/CRAWLS/api/setup",
    ),
    *(
        "/crawls/api/setup;x",
        "/crawls/x/../api/setup",
        "/crawls/scripts/setup.js/",
        "/crawls/setup.",
    ),
    *("/api/crawls/1/stop/x/api/crawls/1", "/api/sites/a/../b/pause"),
)


def test_every_route_has_the_role_that_is_named_here(environment: Settings) -> None:
    actual = set()
    for route in make_routes(environment):
        handler: Any = route.handler_class
        assert issubclass(handler, GuardedHandler)
        for path, _ in expand_pattern(route.regex.pattern, ["1", "1"]):
            for method in METHODS:
                if getattr(handler, method.lower()) is not getattr(GuardedHandler, method.lower()):
                    path = path.replace("{1}", "1")
                    actual.add((method, needed_role(method, path), path))
    named = {(*key.split(), path) for key, paths in ROLES.items() for path in paths.split()}
    assert actual == named


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", EVASIONS)
def test_no_other_spelling_of_a_path_needs_less(
    environment: Settings, method: str, path: str
) -> None:
    reached = [route for route in make_routes(environment) if route.regex.match(path)]
    assert not reached or needed_role(method, re.sub("/+", "/", path)) == "edit", path
