"""The Crawls tab's pages, API and files, as handlers of Flower's Tornado. All require Flower's
login.

Shops' texts never become HTML here: pages are empty shells that `crawls.js` fills in the browser
from JSON, as text and never as markup.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa
import structlog
import tornado.web
from flower.views import BaseHandler

from scraper.errors import NotFoundError, ScraperError, ServerUnavailableError
from scraper.frontier.progress import STATES
from scraper.infra.database import dumps
from scraper.plugins.flower import actions, view
from scraper.plugins.flower.access.users import LoggedIn, Role, may
from scraper.plugins.flower.openapi.parameters import Parameter, read_all
from scraper.plugins.flower.reader import PostgresReader, UnavailableError
from scraper.plugins.flower.tab_pages import BODY_MAX_BYTES, read_role, scripts_of, tab_pages
from scraper.settings import Settings
from scraper.views.site_table import ORDERS, Query

log = structlog.get_logger()
T = TypeVar("T")
Work = Callable[[sa.Engine, Settings], str | dict[str, Any]]

FOLDER = Path(__file__).parent
ASSETS = {
    "crawls.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "uPlot.min.js": "text/javascript; charset=utf-8",
    "crawls.css": "text/css; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
    "uPlot.LICENSE": "text/plain; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
PAGE_MAX = 1_000_000

# Flower's pages contain no inline scripts or styles; the icons in Bootstrap's style sheet are data:
# images.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def assets_version() -> str:
    """Returns a hash of the assets, so that browsers may cache each version."""
    own = [FOLDER / "assets" / name for name in ASSETS]
    scripts = [file for page in tab_pages().values() for file in scripts_of(page)]
    texts = [file.read_bytes() for file in (*own, *scripts)]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


def first_paragraph(text: str | None) -> str:
    """Returns the first paragraph of a docstring, in one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


class GuardedHandler(BaseHandler):  # type: ignore[misc] # Flower has no types
    """A route that requires Flower's login for every method."""

    reader: PostgresReader
    version: str

    def initialize(self, reader: PostgresReader, version: str) -> None:
        self.reader, self.version = reader, version

    def set_default_headers(self) -> None:
        super().set_default_headers()
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        # `current_user` itself raises a 401 if basic auth is wrong or missing.
        if not self.current_user:
            self.refuse_access()

    def refuse_access(self) -> None:
        raise tornado.web.HTTPError(401)

    def options(self, *_: str) -> None:
        raise tornado.web.HTTPError(405)

    def check_xsrf_cookie(self) -> None:
        """Checks the origin as Flower does, and always the token too: browsers add basic auth to
        requests that another site makes them send."""
        # Clients that are not logged in get a 401 first.
        self.prepare()
        # No browser adds a user's token of its own accord.
        if isinstance(self.current_user, LoggedIn) and self.current_user.by_token:
            return
        super().check_xsrf_cookie()
        tornado.web.RequestHandler.check_xsrf_cookie(self)

    @property
    def role(self) -> Role:
        """The role of the user: of those in the file and of OAuth, their own; of Flower's own
        login, every right."""
        return self.current_user.role if isinstance(self.current_user, LoggedIn) else "edit"

    @property
    def user(self) -> str:
        """The name of the user who is logged in."""
        if isinstance(self.current_user, str):
            return self.current_user
        _, _, credentials = self.request.headers.get("Authorization", "").partition(" ")
        return b64decode(credentials).decode("utf-8", "replace").partition(":")[0] or "nobody"


class PageHandler(GuardedHandler):
    """The shell of a page."""

    def refuse_access(self) -> None:
        self.redirect(self.get_login_url())  # OAuth

    def render_shell(
        self, template: str, *, site: str = "", crawl_id: str = "", problem: str = "", **more: Any
    ) -> None:
        self.render(
            template,
            site=site,
            crawl_id=crawl_id,
            version=self.version,
            read_only=bool(self.application.options.read_only) or not may(self.role, "operate"),
            may_edit=not self.application.options.read_only and may(self.role, "edit"),
            problem=problem,
            tab_pages={
                name: page for name, page in tab_pages().items() if may(self.role, read_role(page))
            },
            **more,
        )


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


class ApiHandler(GuardedHandler):
    """JSON, errors included: `{"error": …}`. The OpenAPI document has what its classes declare:
    the parameters of their queries, and names for the variable parts of their paths."""

    PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    PATH_NAMES: ClassVar[tuple[str, ...]] = ()
    # The media type of answers; "" follows from the path.
    ANSWER_TYPE: ClassVar[str] = ""

    # Any other `ScraperError` is a conflict.
    STATUS: ClassVar[dict[type[Exception], int]] = {
        actions.BadRequestError: 400,
        NotFoundError: 404,
        ServerUnavailableError: 503,
        UnavailableError: 503,
    }

    @classmethod
    def summarize(cls, words: Sequence[str]) -> str:
        """Returns what the handler does, for the fixed words of a path."""
        return first_paragraph(cls.__doc__)

    @classmethod
    def list_keys(cls, words: Sequence[str]) -> Mapping[str, type]:
        """Returns the keys of a body, which may all be left out."""
        return {}

    async def read_or_fail(self, key: Hashable, ask: Callable[[sa.Connection], T]) -> T | None:
        """Returns what `ask` reads; None, after answering with the error, if it fails."""
        try:
            return await self.reader.read(key, ask)
        except (ScraperError, UnavailableError) as error:
            self.answer_error(error)
            return None

    async def answer_with(
        self, key: Hashable, ask: Callable[[sa.Connection], dict[str, Any]]
    ) -> None:
        """Answers with what `ask` reads."""
        value = await self.read_or_fail(key, ask)
        if value is not None:
            self.answer_json(value)

    def answer_json(self, value: Any) -> None:
        _ = self.xsrf_token  # sets the cookie
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(dumps(value))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 401:
            # As Flower says it to browsers, which then ask for the login.
            self.set_header("WWW-Authenticate", 'Basic realm="flower"')
        error = kwargs.get("exc_info", (None, None))[1]
        message = error.log_message if isinstance(error, tornado.web.HTTPError) else None
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(dumps({"error": message or self._reason}))

    def answer_error(self, error: Exception) -> None:
        status = next((code for kind, code in self.STATUS.items() if isinstance(error, kind)), 409)
        self.set_status(status)
        if status == 503:
            self.set_header("Retry-After", "5")
        self.answer_json({"error": str(error)})


SITE = Parameter("site", "the name of a site", required=True)
SEARCH = Parameter("search", "only products with this text", default="")
SORT = Parameter("sort", "id, or a field; with - before it the largest first", default="id")
PAGE = Parameter("page", "which page of rows", default=1, largest=PAGE_MAX)


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


class ProductsApi(ApiHandler):
    """A page of a site's products, or with `id` one product and its history."""

    PARAMETERS = (SITE, Parameter("id", "the product's id"), SEARCH, SORT, PAGE)

    async def get(self) -> None:
        given = read_all(self, self.PARAMETERS)
        offset = (given["page"] - 1) * view.LIMIT

        def ask(connection: sa.Connection) -> dict[str, Any]:
            if given["id"] is not None:
                return view.product_details(connection, given["site"], given["id"])
            return view.products_listing(
                connection, given["site"], given["search"], given["sort"], offset
            )

        await self.answer_with(("products", *given.values()), ask)


class ExportApi(ApiHandler):
    """A file of all matching products of a site."""

    PARAMETERS = (SITE, SEARCH, SORT)

    async def get(self, form: str) -> None:
        site, search, sort = read_all(self, self.PARAMETERS).values()
        body = await self.read_or_fail(
            ("export", form, site, search, sort),
            lambda c: view.export_products(c, site, search, sort, form),
        )
        if body is not None:
            kind = "text/csv" if form == "csv" else "application/x-ndjson"
            self.set_header("Content-Type", f"{kind}; charset=utf-8")
            self.set_header("Content-Disposition", f'attachment; filename="{site}.{form}"')
            self.finish(body)


class ProductsPage(PageHandler):
    """A site's products, and a product."""

    def get(self) -> None:
        self.render_shell("products.html")


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
        except ValueError:
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


class AssetHandler(GuardedHandler):
    """Scripts and style sheets, from a fixed list of names."""

    async def get(self, name: str) -> None:
        self.set_header("Content-Type", ASSETS[name])
        if self.get_query_argument("v", None) == self.version:
            self.set_header("Cache-Control", "private, max-age=86400")
        self.finish((FOLDER / "assets" / name).read_bytes())
