"""What the Crawls tab's handlers inherit: Flower's login for every method, the shell of a page, and
JSON answers.

Shops' texts never become HTML here: pages are empty shells that `crawls.js` fills in the browser
from JSON, as text and never as markup.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Hashable, Mapping, Sequence
from http.client import responses
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa
import tornado.web
from flower.views import BaseHandler

from scraper.errors import NotFoundError, ScraperError, ServerUnavailableError
from scraper.infra.database import dumps
from scraper.plugins.flower import actions
from scraper.plugins.flower.access.users import LoggedIn, Role, may
from scraper.plugins.flower.openapi.parameters import Parameter
from scraper.plugins.flower.reader import PostgresReader, UnavailableError
from scraper.plugins.flower.tab_pages import read_role, tab_pages

T = TypeVar("T")

PAGE_MAX = 1_000_000
PAGE = Parameter("page", "which page of rows", default=1, largest=PAGE_MAX)

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
        is_http = isinstance(error, tornado.web.HTTPError)
        message = (error.log_message or error.reason) if is_http else None
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(dumps({"error": message or responses.get(status_code, "Unknown")}))

    def answer_error(self, error: Exception) -> None:
        status = next((code for kind, code in self.STATUS.items() if isinstance(error, kind)), 409)
        self.set_status(status)
        if status == 503:
            self.set_header("Retry-After", "5")
        self.answer_json({"error": str(error)})
