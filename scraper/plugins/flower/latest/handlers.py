"""Handlers of the newest changes, as JSON and as an Atom feed."""

from __future__ import annotations

from typing import Any

import tornado.web

from scraper.plugins.flower.handlers import ApiHandler
from scraper.plugins.flower.latest.atom import write_feed
from scraper.plugins.flower.latest.changes import EVENTS, read_changes


class ChangesApi(ApiHandler):
    """GET /api/changes?site=…&event=…: the newest changes; with `.atom` for feed readers."""

    async def get(self, form: str | None = None) -> None:
        site = self.get_query_argument("site", None) or None
        event = self.get_query_argument("event", None) or None
        if event is not None and event not in EVENTS:
            raise tornado.web.HTTPError(400, f"event is one of: {', '.join(EVENTS)}")
        changes = await self.read_or_fail(
            ("changes", site, event), lambda connection: read_changes(connection, site, event)
        )
        if changes is None:
            return
        if form is None:
            self.answer_json({"changes": changes})
        else:
            self._answer_feed(changes, site)

    def _answer_feed(self, changes: list[dict[str, Any]], site: str | None) -> None:
        host = f"{self.request.protocol}://{self.request.host}"
        pages = f"{host}{self.reverse_url('crawls')}"
        self.set_header("Content-Type", "application/atom+xml; charset=utf-8")
        self.finish(write_feed(changes, site, f"{host}{self.request.uri}", pages))
