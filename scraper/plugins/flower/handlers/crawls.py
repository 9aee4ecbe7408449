"""The pages of crawls and sites, and their JSON."""

from __future__ import annotations

from typing import ClassVar

import tornado.web

from scraper.errors import NotFoundError
from scraper.frontier.progress import STATES
from scraper.plugins.flower import view
from scraper.plugins.flower.handlers.base import PAGE, ApiHandler, PageHandler
from scraper.plugins.flower.openapi.parameters import Parameter, read_all
from scraper.plugins.flower.reader import UnavailableError
from scraper.views.site_table import ORDERS, Query


class FirstPage(PageHandler):
    """GET /: leads to the tab."""

    def get(self) -> None:
        self.redirect(self.reverse_url("crawls"))


class CrawlsPage(PageHandler):
    """The page of all crawls, or of one. While PostgreSQL does not answer, it says so with a 503,
    and reloads itself."""

    async def get(self, crawl_id: str = "") -> None:
        problem = ""
        try:
            if crawl_id:
                await self.reader.read(
                    ("crawl", int(crawl_id)), lambda c: view.crawl_details(c, int(crawl_id))
                )
            else:
                await self.reader.read(Query(), lambda c: view.fleet_listing(c, Query()))
        except NotFoundError as error:
            raise tornado.web.HTTPError(404, str(error)) from None
        except UnavailableError as error:
            problem = str(error)
            self.set_status(503)
            self.set_header("Retry-After", "5")
        template = "crawl.html" if crawl_id else "crawls.html"
        self.render_shell(template, crawl_id=crawl_id, problem=problem)


class ListApi(ApiHandler):
    """The fleet's totals, and a page of its sites or crawls."""

    PARAMETERS = (
        Parameter("show", "what the rows are", default="sites", choices=("sites", "crawls")),
        Parameter("site", "only this site"),
        Parameter("search", "only sites with this text in their name"),
        Parameter("state", "only rows in this state", choices=STATES),
        Parameter("queue", "only sites of this queue"),
        Parameter("tag", "only sites with this tag"),
        Parameter("sort", "worst first for sites, else newest", choices=tuple(ORDERS)),
        PAGE,
        Parameter("limit", "rows of a page", default=view.LIMIT, largest=view.LIMIT_MAX),
    )

    async def get(self) -> None:
        query = self._parse_query()
        await self.answer_with(query, lambda c: view.fleet_listing(c, query))

    def _parse_query(self) -> Query:
        given = read_all(self, self.PARAMETERS)
        history = given["show"] == "crawls"
        names = ("site", "search", "state", "queue", "tag", "limit")
        return Query(
            history=history,
            sort=given["sort"] or ("newest" if history else "worst"),
            offset=(given["page"] - 1) * given["limit"],
            **{name: given[name] for name in names},
        )


class CrawlApi(ApiHandler):
    """Everything about a crawl."""

    PATH_NAMES: ClassVar[tuple[str, ...]] = ("crawl",)

    async def get(self, crawl_id: str) -> None:
        await self.answer_with(
            ("crawl", int(crawl_id)), lambda c: view.crawl_details(c, int(crawl_id))
        )


class SiteApi(ApiHandler):
    """Everything about a site."""

    PATH_NAMES: ClassVar[tuple[str, ...]] = ("site",)

    async def get(self, site: str) -> None:
        settings = self.reader.settings
        await self.answer_with(("site", site), lambda c: view.site_details(c, settings, site))


class SitePage(PageHandler):
    """A site's page."""

    def get(self, site: str) -> None:
        self.render_shell("site.html", site=site)
