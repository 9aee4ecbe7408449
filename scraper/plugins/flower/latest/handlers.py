"""Handlers of the newest changes, as JSON and as an Atom feed."""

from __future__ import annotations

from typing import Any

from scraper.plugins.flower.handlers.base import ApiHandler
from scraper.plugins.flower.latest.atom import write_feed
from scraper.plugins.flower.latest.changes import EVENTS, read_changes
from scraper.plugins.flower.openapi.parameters import Parameter, read_all


class ChangesApi(ApiHandler):
    """The newest changes of products, the newest first."""

    PARAMETERS = (
        Parameter("site", "only of this site"),
        Parameter("event", "only these changes", choices=EVENTS),
    )

    async def get(self) -> None:
        site, event = read_all(self, self.PARAMETERS).values()
        changes = await self.read_or_fail(
            ("changes", site, event), lambda connection: read_changes(connection, site, event)
        )
        if changes is not None:
            self.answer_changes(changes, site)

    def answer_changes(self, changes: list[dict[str, Any]], site: str | None) -> None:
        self.answer_json({"changes": changes})


class AtomFeed(ChangesApi):
    """The newest changes of products as an Atom feed."""

    def answer_changes(self, changes: list[dict[str, Any]], site: str | None) -> None:
        host = f"{self.request.protocol}://{self.request.host}"
        pages = f"{host}{self.reverse_url('crawls')}"
        self.set_header("Content-Type", "application/atom+xml; charset=utf-8")
        self.finish(write_feed(changes, site, f"{host}{self.request.uri}", pages))
