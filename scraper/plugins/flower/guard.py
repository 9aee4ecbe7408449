"""Closes Flower: it requires a login, listens on loopback and allows no frames, unless its options
explicitly say otherwise. Without a login it answers only to hosts that it knows, since a web page
may let its own name lead here (DNS rebinding), and its scripts may then read and post.
"""

from __future__ import annotations

import sys
from ipaddress import ip_address
from typing import Any

import flower.options  # noqa: F401 - defines the options that are read below
import structlog
import tornado.web
from flower import urls
from flower.app import Flower
from flower.views import BaseHandler
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.options import options
from tornado.web import OutputTransform

from scraper.errors import ConfigError
from scraper.plugins.flower import login as flower_login
from scraper.plugins.flower.access.roles import needed_role
from scraper.plugins.flower.access.senders import Senders
from scraper.plugins.flower.access.users import LoggedIn, may
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings

log = structlog.get_logger()

LOOPBACK = "127.0.0.1"


class Unframed(OutputTransform):
    """Keeps other sites from showing Flower's pages in a frame."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        headers["X-Frame-Options"] = "DENY"
        headers.setdefault("Content-Security-Policy", "frame-ancestors 'none'")
        return status_code, headers, chunk


def install(settings: Settings) -> None:
    """Closes Flower each time after it has read options: the command line, a file, then both. Call
    this before that."""

    def close() -> None:
        if not options.address:
            options.address = LOOPBACK
        if settings.of(FlowerSettings).flower_login == "password" and not (
            options.basic_auth or options.auth
        ):
            try:
                login = flower_login.read_login(settings)
            except ConfigError as error:
                sys.exit(f"scraper: {error}")
            options.basic_auth = [f"{login.user}:{login.password}"]

    options.add_parse_callback(close)
    urls.settings["transforms"] = [Unframed]
    Flower.start_http_server = _start_listening
    senders = Senders(settings)
    names = frozenset(settings.of(FlowerSettings).flower_hosts.lower().replace(",", " ").split())

    def find_handler(app: Flower, request: HTTPServerRequest, **more: Any) -> Any:
        """Finds the handler of each request, Flower's own and WebSockets included."""
        if not requires_login():
            if is_own_host(request.host_name, names):
                return _find_handler(app, request, **more)
            refusal = {
                "sentence": "Flower does not serve this host name (fix: SCRAPER_FLOWER_HOSTS)",
                "status": 421,
            }
            return app.get_handler_delegate(request, RefusalHandler, refusal)
        user = senders.find_user(app, request)
        needed = needed_role(request.method or "", strip_prefix(request.path))
        if user is None or may(user.role, needed):
            # Without a user of the file, the handler itself asks for the login of Flower.
            return _find_handler(app, request, **more)
        log.warning("refused in Flower", by=user.name, path=request.path, ip=request.remote_ip)
        sentence = f"{user.name} has the role {user.role}; this needs {needed}."
        return app.get_handler_delegate(request, RefusalHandler, {"sentence": sentence})

    def get_current_user(handler: BaseHandler) -> Any:
        user = senders.find_user(handler.application, handler.request) if requires_login() else None
        return _get_current_user(handler) if user is None else LoggedIn(user)

    Flower.find_handler = find_handler
    BaseHandler.get_current_user = get_current_user


class RefusalHandler(tornado.web.RequestHandler):
    """Answers a user whose role is not enough, and who asks by the name of another host."""

    def initialize(self, sentence: str, status: int = 403) -> None:
        self.sentence, self.status = sentence, status

    def check_xsrf_cookie(self) -> None:
        """Nothing is done."""

    def prepare(self) -> None:
        self.set_status(self.status)
        self.finish({"error": self.sentence})


def requires_login() -> bool:
    return bool(options.basic_auth or options.auth)


def strip_prefix(path: str) -> str:
    prefix = (options.url_prefix or "").strip("/")
    return path.removeprefix(f"/{prefix}") if prefix else path


def is_own_host(host: str, names: frozenset[str]) -> bool:
    """Returns whether no other site can have this host: it is an address, a name of this machine's
    own, or one of `names`."""
    host = host.rstrip(".")
    if host == "localhost" or host.endswith(".localhost") or host in names:
        return True
    try:
        return bool(ip_address(host.strip("[]")))
    except ValueError:
        return False


_find_handler = Flower.find_handler
_get_current_user = BaseHandler.get_current_user
_start_http_server = Flower.start_http_server


def _start_listening(app: Flower) -> Any:
    try:
        return _start_http_server(app)
    except OSError as error:
        place = options.unix_socket or f"{options.address}:{options.port}"
        sys.exit(
            f"scraper: Flower cannot listen at {place}: {error.strerror} "
            "(fix: stop the other program, or use --port or --address)"
        )
