"""The service that tries pages again that a crawl has given up."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import sqlalchemy as sa

from scraper.settings import Settings


class ReplayedPages(NamedTuple):
    """How many pages were requested again, and by which crawl."""

    pages: int
    crawl_id: int


class PageReplay(Protocol):
    """A service of a plug-in: replays dead and invalid pages of a site's crawl. It replays one
    `page` (its id), those with a `reason` (an outcome), or all. Raises `NotFoundError` if no such
    page is left, and `ScraperError` if the site refuses."""

    def __call__(
        self,
        engine: sa.Engine,
        settings: Settings,
        crawl_id: int,
        site: str,
        *,
        page: int | None,
        reason: str | None,
    ) -> ReplayedPages: ...
