"""Actions on crawls and sites. Each is logged with the user and the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import sqlalchemy as sa
import structlog
import tornado.web

from scraper.errors import ScraperError
from scraper.plugins.flower import actions, view
from scraper.plugins.flower.handlers.base import ApiHandler, first_paragraph
from scraper.plugins.flower.reader import UnavailableError
from scraper.plugins.flower.tab_pages import BODY_MAX_BYTES
from scraper.settings import Settings

log = structlog.get_logger()
Work = Callable[[sa.Engine, Settings], str | dict[str, Any]]


class ActionApi(ApiHandler):
    """POST /api/crawls/ID/ACTION, one of `ACTIONS`. Logs the user, the action, the crawl and the
    result."""

    PATH_NAMES: ClassVar[tuple[str, ...]] = ("crawl",)

    @classmethod
    def summarize(cls, words: Sequence[str]) -> str:
        return first_paragraph(actions.describe_action(words[-1]))

    @classmethod
    def list_keys(cls, words: Sequence[str]) -> Mapping[str, type]:
        return actions.KEYS.get(words[-1], {})

    async def post(self, crawl_id: str, action: str) -> None:
        if int(crawl_id) > view.ID_MAX:
            raise tornado.web.HTTPError(404, f"no crawl has the id {crawl_id}")
        body, act = self._read_body(action), actions.ACTIONS[action]
        await self.run_action(
            lambda engine, settings: act(engine, settings, int(crawl_id), body, self.user),
            action=action,
            crawl=int(crawl_id),
            **body,
        )

    async def run_action(self, work: Work, **event: Any) -> None:
        if self.application.options.read_only:
            raise tornado.web.HTTPError(403, "Flower is in read-only mode")
        logger = log.bind(by=self.user, ip=self.request.remote_ip, **event)
        reader = self.reader
        try:
            answer = await reader.run(work, reader.engine, reader.settings)
        except ScraperError as error:
            logger.warning("refused in Flower", error=str(error))
            self.answer_error(error)
        except UnavailableError as error:
            logger.warning("failed in Flower", error=str(error))
            self.answer_error(error)
        else:
            reply = answer if isinstance(answer, dict) else {"message": answer}
            logger.info("done in Flower", result=reply["message"])
            self.answer_json(reply)
        finally:
            reader.forget()

    async def answer_question(self, work: Work) -> None:
        """Answers with what `work` returns, which changes nothing."""
        reader = self.reader
        try:
            self.answer_json(await reader.run(work, reader.engine, reader.settings))
        except (ScraperError, UnavailableError) as error:
            self.answer_error(error)

    def _read_body(self, action: str) -> dict[str, Any]:
        body, keys = self.parse_body(), actions.KEYS.get(action, {})
        if not set(body) <= set(keys):
            names = ", ".join(keys) or "no keys"
            raise tornado.web.HTTPError(400, f"the body of {action} has {names}")
        return body

    def parse_body(self, most: int = BODY_MAX_BYTES) -> dict[str, Any]:
        if len(self.request.body) > most:
            raise tornado.web.HTTPError(413)
        try:
            body = json.loads(self.request.body or b"{}")
        except (ValueError, RecursionError):
            raise tornado.web.HTTPError(400, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise tornado.web.HTTPError(400, "the body is not a JSON object")
        return body


class SiteActionApi(ActionApi):
    """POST /api/sites/NAME/ACTION, one of `OF_SITES`. Logs likewise."""

    PATH_NAMES: ClassVar[tuple[str, ...]] = ("site",)

    async def post(self, site: str, action: str) -> None:
        act = actions.OF_SITES[action]
        await self.run_action(
            lambda engine, settings: act(engine, settings, site), action=action, site=site
        )
