"""Puts the Crawls tab into Flower, before Flower has made its application: called by
`flowerconfig.py`.

Flower has no interface for this. What it has are two module-level values that its application is
made from, `flower.urls.handlers` and `flower.urls.settings`; both are changed here, and nowhere
else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import structlog
import tornado.web
from flower import urls
from flower.views.error import NotFoundErrorHandler
from flower.views.monitor import Metrics
from tornado import template
from tornado.web import url

from scraper.infra import logs
from scraper.plugins.flower.actions import ACTIONS, OF_SITES
from scraper.plugins.flower.handlers import (
    ASSETS,
    ActionApi,
    AssetHandler,
    CrawlApi,
    CrawlsPage,
    ExportApi,
    ListApi,
    ProductsApi,
    ProductsPage,
    SiteActionApi,
    SiteApi,
    SitePage,
    assets_version,
)
from scraper.plugins.flower.reader import Reader
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings

log = structlog.get_logger()

OURS = Path(__file__).parent / "templates"
ITEM = """
        <li class="nav-item">
          <a class="nav-link{% if active_tab == 'crawls' %} active{% end %}"
            href="{{ reverse_url('crawls') }}"
            {% if active_tab == 'crawls' %}aria-current="page"{% end %}>Crawls</a>
        </li>
"""
SITE = r"[a-z0-9][a-z0-9_-]{0,62}"
FIRST_LIST = re.compile(r'<ul class="app-nav navbar-nav">')


class Templates(template.Loader):
    """Flower's templates, ours beside them, and our tab as the first in Flower's navigation."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:
        return name

    def _create_template(self, name: str) -> template.Template:
        if (OURS / name).is_file():
            return template.Template((OURS / name).read_bytes(), name=name, loader=self)
        if name == "navbar.html":
            return template.Template(
                with_tab((Path(self.root) / name).read_text("utf-8")), name=name, loader=self
            )
        return super()._create_template(name)


def with_tab(navigation: str) -> str:
    """Flower's navigation with one more item. A Flower that has changed it keeps its own, without
    the tab."""
    changed, lists = FIRST_LIST.subn(lambda match: match[0] + ITEM, navigation, count=1)
    if not lists:
        log.warning(
            "this Flower's navigation is unknown: "
            "the Crawls tab is at /crawls, without a link to it"
        )
    return changed


class GuardedMetrics(Metrics):  # type: ignore[misc] # Flower has no types
    """Flower serves its metrics to everybody, names of workers and tasks included."""

    async def get(self) -> None:
        if not self.current_user:
            raise tornado.web.HTTPError(401)
        await super().get()


def install(settings: Settings) -> None:
    """Adds our routes, templates and checks. Twice does the same as once."""
    if isinstance(urls.settings.get("template_loader"), Templates):
        return
    logs.configure(settings)
    urls.settings["template_loader"] = Templates(urls.settings["template_path"])
    # Not `httponly`: scripts of the same origin, Flower's own too, read the token and send it
    # along.
    urls.settings["xsrf_cookie_kwargs"] = {"samesite": "Strict"}
    urls.handlers[:] = [_metrics(handler, settings) for handler in urls.handlers]
    urls.handlers[-1:-1] = routes(settings)


def routes(settings: Settings) -> list[Any]:
    ours = {"reader": Reader(settings), "version": assets_version()}
    names = "|".join(re.escape(name) for name in ASSETS)
    return [
        url(r"/crawls", CrawlsPage, ours, name="crawls"),
        url(r"/crawls/(\d{1,19})", CrawlsPage, ours, name="crawl"),
        url(r"/crawls/products", ProductsPage, ours, name="products"),
        url(rf"/crawls/sites/({SITE})", SitePage, ours),
        url(rf"/api/sites/({SITE})", SiteApi, ours, name="api_site"),
        url(rf"/api/sites/({SITE})/({'|'.join(OF_SITES)})", SiteActionApi, ours),
        url(r"/api/products\.(csv|jsonl)", ExportApi, ours),
        url(r"/api/products", ProductsApi, ours, name="api_products"),
        url(rf"/crawls/assets/({names})", AssetHandler, ours, name="crawls_asset"),
        url(r"/api/crawls", ListApi, ours, name="api_crawls"),
        url(r"/api/crawls/(\d{1,19})", CrawlApi, ours),
        url(rf"/api/crawls/(\d{{1,19}})/({'|'.join(ACTIONS)})", ActionApi, ours),
    ]


def _metrics(handler: Any, settings: Settings) -> Any:
    own = settings.of(FlowerSettings)
    if own.flower_metrics == "public" or not (
        isinstance(handler, tuple) and handler[0] == "/metrics"
    ):
        return handler
    return (
        "/metrics",
        GuardedMetrics if own.flower_metrics == "login" else NotFoundErrorHandler,
    )
