"""Handlers of the pages that other plug-ins add to the Crawls tab, and of their JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tornado.web
from tornado.web import url

from scraper.plugins.flower.handlers.action_api import ActionApi
from scraper.plugins.flower.handlers.base import (
    ApiHandler,
    GuardedHandler,
    PageHandler,
    first_paragraph,
)
from scraper.plugins.flower.tab_pages import (
    all_actions,
    body_limit,
    questions_of,
    scripts_of,
    secret_values,
    tab_pages,
)

QUERY_MAX = 300
LOGGED_CHARS = 200


class PluginPage(PageHandler):
    """GET /crawls/NAME: the shell that the plug-in's script fills."""

    def get(self, name: str) -> None:
        self.render_shell("plugin_page.html", name=name, title=tab_pages()[name].TITLE)


class PluginApi(ApiHandler):
    """GET /crawls/api/NAME?…: what the plug-in reads."""

    @classmethod
    def summarize(cls, words: Sequence[str]) -> str:
        return first_paragraph(tab_pages()[words[0]].read.__doc__)

    async def get(self, page: str) -> None:
        names = sorted(self.request.query_arguments)
        query = {name: self.get_query_argument(name) for name in names}
        if sum(map(len, query.values())) > QUERY_MAX:
            raise tornado.web.HTTPError(400, f"a query has at most {QUERY_MAX} characters")
        read = tab_pages()[page].read
        key = (page, *query.items())
        await self.answer_with(key, lambda connection: read(connection, query))


class PluginActionApi(ActionApi):
    """POST /crawls/api/NAME/ACTION. Logs the user, the action and the result; a question, which
    changes nothing, is not logged."""

    PATH_NAMES = ()

    @classmethod
    def summarize(cls, words: Sequence[str]) -> str:
        return first_paragraph(all_actions(tab_pages()[words[0]])[words[1]].__doc__)

    async def post(self, page: str, action: str) -> None:
        shown = tab_pages()[page]
        work = all_actions(shown)[action]
        body = self.parse_body(body_limit(shown))
        if action in questions_of(shown):
            await self.answer_question(lambda engine, _: work(engine, body, self.user))
            return
        secret = secret_values(shown)
        logged = {
            name: "***" if name in secret else _shorten_value(value) for name, value in body.items()
        }
        await self.run_action(
            lambda engine, _: work(engine, body, self.user), action=action, page=page, body=logged
        )


def _shorten_value(value: Any) -> Any:
    """Returns what the log says of a value in a body."""
    text = str(value)
    return value if len(text) <= LOGGED_CHARS else f"{text[:LOGGED_CHARS]}… ({len(text)})"


class PluginScript(GuardedHandler):
    """GET /crawls/scripts/NAME.js"""

    def get(self, page: str) -> None:
        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        if self.get_query_argument("v", None) == self.version:
            self.set_header("Cache-Control", "private, max-age=86400")
        self.finish(b"\n".join(file.read_bytes() for file in scripts_of(tab_pages()[page])))


def make_plugin_routes(arguments: dict[str, Any]) -> list[Any]:
    """Returns the routes of all plug-ins' pages; none without such a page."""
    names = "|".join(map(re.escape, tab_pages()))
    if not names:
        return []
    return [
        url(rf"/crawls/({names})", PluginPage, arguments),
        url(rf"/crawls/scripts/({names})\.js", PluginScript, arguments),
        url(rf"/crawls/api/({names})", PluginApi, arguments),
        *(
            url(rf"/crawls/api/({re.escape(name)})/({actions})", PluginActionApi, arguments)
            for name, page in tab_pages().items()
            if (actions := "|".join(all_actions(page)))
        ),
    ]
