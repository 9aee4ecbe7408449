"""Adds the Crawls tab to Flower before Flower makes its application. `flowerconfig.py` calls it.

Flower has no interface for this. Its application is made from two module-level values,
`flower.urls.handlers` and `flower.urls.settings`, and only this module changes them.
"""

from __future__ import annotations

import re
from html import escape
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
from scraper.plugins.flower.handlers.action_api import ActionApi, SiteActionApi
from scraper.plugins.flower.handlers.assets import ASSETS, AssetHandler, assets_version
from scraper.plugins.flower.handlers.crawls import (
    CrawlApi,
    CrawlsPage,
    FirstPage,
    ListApi,
    SiteApi,
    SitePage,
)
from scraper.plugins.flower.handlers.products import ExportApi, ProductsApi, ProductsPage
from scraper.plugins.flower.latest.handlers import AtomFeed, ChangesApi
from scraper.plugins.flower.openapi.handlers import OpenApi
from scraper.plugins.flower.pictures.handlers import PictureApi, Pictures
from scraper.plugins.flower.plugin_pages import make_plugin_routes
from scraper.plugins.flower.reader import PostgresReader
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings
from scraper.sites.grammar.scalars import SITE_NAME

log = structlog.get_logger()

TEMPLATES = Path(__file__).parent / "templates"
ITEM = """
        <li class="nav-item">
          <a class="nav-link{% if active_tab == 'crawls' %} active{% end %}"
            href="{{ reverse_url('crawls') }}"
            {% if active_tab == 'crawls' %}aria-current="page"{% end %}>Crawls</a>
        </li>
"""
NAME = "Scraper"
ICON = "{{ reverse_url('crawls_asset', 'icon.svg') }}"
DOCS_LINK = """  <li class="nav-item">
          <a class="nav-link" href="{address}" target="_blank" rel="noopener">Documentation</a>
        </li>
      """
FIRST_LIST = re.compile(r'<ul class="app-nav navbar-nav">')
FLOWER_NAME = re.compile(r"(<span>|\{% block title %\}|· )Flower(</span>|\{% end %\})")
FLOWER_ICON = re.compile(r"\{\{ static_url\('favicon\.ico'\) \}\}")
# Items of the navigation that lead to other hosts: Flower's documentation and source.
FLOWER_LINKS = re.compile(
    r'<li class="nav-item">\s*<a [^>]*href="https?://(?:(?!</li>).)*</li>', re.DOTALL
)


class Templates(template.Loader):
    """Loads Flower's templates and those of the tab, which comes first in the navigation."""

    def __init__(self, folder: str, docs: str = "") -> None:
        super().__init__(folder)
        self.docs = docs

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:
        return name

    def _create_template(self, name: str) -> template.Template:
        if (TEMPLATES / name).is_file():
            return template.Template((TEMPLATES / name).read_bytes(), name=name, loader=self)
        text = rename_flower((Path(self.root) / name).read_text("utf-8"))
        if name == "navbar.html":
            text = replace_links(add_tab(text), self.docs)
        return template.Template(text, name=name, loader=self)


def add_tab(navigation: str) -> str:
    """Adds the tab to the template of Flower's navigation. A navigation of unknown form stays
    without the tab."""
    changed, lists = FIRST_LIST.subn(lambda match: match[0] + ITEM, navigation, count=1)
    if not lists:
        log.warning(
            "Flower's navigation has an unknown form; the Crawls tab is at /crawls, without a link"
        )
    return changed


def rename_flower(page: str) -> str:
    """Gives a template of Flower's our name and icon."""
    return FLOWER_ICON.sub(ICON, FLOWER_NAME.sub(rf"\g<1>{NAME}\g<2>", page))


def replace_links(navigation: str, docs: str) -> str:
    """Replaces the links to Flower's own documentation and source by one to `docs`, if given."""
    left = FLOWER_LINKS.sub("", navigation)
    link = DOCS_LINK.format(address=escape(docs)) if docs else ""
    before, end, after = left.rpartition("</ul>")
    return f"{before}{link}{end}{after}"


class GuardedMetrics(Metrics):  # type: ignore[misc] # Flower has no types
    """Requires a login for Flower's metrics, which Flower itself serves without one, with the names
    of workers and tasks."""

    async def get(self) -> None:
        if not self.current_user:
            raise tornado.web.HTTPError(401)
        await super().get()


def install(settings: Settings) -> None:
    """Adds the tab's make_routes, templates and checks. Calling it twice does no harm."""
    if isinstance(urls.settings.get("template_loader"), Templates):
        return
    logs.configure(settings)
    urls.settings["template_loader"] = Templates(
        urls.settings["template_path"], settings.of(FlowerSettings).flower_docs
    )
    # The cookie is not `httponly`: scripts of the same origin, including Flower's, read the token
    # and send it.
    urls.settings["xsrf_cookie_kwargs"] = {"samesite": "Strict"}
    urls.handlers[:] = [_guard_metrics(handler, settings) for handler in urls.handlers]
    routes = make_routes(settings)
    # Flower's own first page has the same name, by which its pages refer to it.
    first = url(r"/", FirstPage, routes[0].kwargs, name="main")
    urls.handlers[:] = [first if _is_first(handler) else handler for handler in urls.handlers]
    urls.handlers[-1:-1] = routes


def make_routes(settings: Settings) -> list[Any]:
    reader = PostgresReader(settings)
    arguments = {"reader": reader, "version": assets_version()}
    names = "|".join(re.escape(name) for name in ASSETS)
    routes = [
        url(r"/crawls", CrawlsPage, arguments, name="crawls"),
        url(r"/crawls/(\d{1,19})", CrawlsPage, arguments, name="crawl"),
        url(r"/crawls/products", ProductsPage, arguments, name="products"),
        url(rf"/crawls/sites/({SITE_NAME})", SitePage, arguments),
        url(rf"/api/sites/({SITE_NAME})", SiteApi, arguments, name="api_site"),
        url(rf"/api/sites/({SITE_NAME})/({'|'.join(OF_SITES)})", SiteActionApi, arguments),
        url(r"/api/products\.(csv|jsonl)", ExportApi, arguments),
        url(r"/api/products", ProductsApi, arguments, name="api_products"),
        url(r"/api/products/picture", PictureApi, {**arguments, "pictures": Pictures(reader)}),
        url(r"/api/changes", ChangesApi, arguments),
        url(r"/api/changes\.atom", AtomFeed, arguments, name="changes_feed"),
        url(rf"/crawls/assets/({names})", AssetHandler, arguments, name="crawls_asset"),
        url(r"/api/crawls", ListApi, arguments, name="api_crawls"),
        url(r"/api/crawls/(\d{1,19})", CrawlApi, arguments),
        url(rf"/api/crawls/(\d{{1,19}})/({'|'.join(ACTIONS)})", ActionApi, arguments),
        *make_plugin_routes(arguments),
    ]
    routes.append(url(r"/api/openapi\.json", OpenApi, {**arguments, "routes": routes}))
    return routes


def _is_first(handler: Any) -> bool:
    return getattr(handler, "name", None) == "main"


def _guard_metrics(handler: Any, settings: Settings) -> Any:
    own = settings.of(FlowerSettings)
    if own.flower_metrics == "public" or not (
        isinstance(handler, tuple) and handler[0] == "/metrics"
    ):
        return handler
    return (
        "/metrics",
        GuardedMetrics if own.flower_metrics == "login" else NotFoundErrorHandler,
    )
