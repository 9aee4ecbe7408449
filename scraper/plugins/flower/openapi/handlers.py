"""The handler of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scraper.plugins.flower.handlers.base import ApiHandler
from scraper.plugins.flower.openapi.document import make_document
from scraper.plugins.flower.reader import PostgresReader


class OpenApi(ApiHandler):
    """GET /api/openapi.json: this document."""

    routes: Sequence[Any]

    def initialize(self, reader: PostgresReader, version: str, routes: Sequence[Any] = ()) -> None:
        super().initialize(reader, version)
        self.routes = routes

    def get(self) -> None:
        self.answer_json(make_document(self.routes, self.application.options.url_prefix or ""))
