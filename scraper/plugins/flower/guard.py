"""Closes Flower: it requires a login, listens on loopback and allows no frames, unless its options
explicitly say otherwise. Without a login it answers only to hosts that it knows, since a web page
may let its own name lead here (DNS rebinding), and its scripts may then read and post.
"""

from __future__ import annotations

import sys
from ipaddress import ip_address
from typing import Any

import flower.options  # noqa: F401 - defines the options that are read below
from flower import urls
from flower.app import Flower
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.options import options
from tornado.web import ErrorHandler, OutputTransform

from scraper.plugins.flower import login as flower_login
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings

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
            login = flower_login.read_login(settings)
            options.basic_auth = [f"{login.user}:{login.password}"]

    options.add_parse_callback(close)
    urls.settings["transforms"] = [Unframed]
    Flower.start_http_server = _start_listening
    names = frozenset(filter(None, settings.of(FlowerSettings).flower_hosts.lower().split(",")))

    def find_handler(app: Flower, request: HTTPServerRequest, **more: Any) -> Any:
        """Finds the handler of each request, Flower's own and WebSockets included."""
        if options.basic_auth or options.auth or is_own_host(request.host_name, names):
            return _find_handler(app, request, **more)
        return app.get_handler_delegate(request, ErrorHandler, {"status_code": 421})

    Flower.find_handler = find_handler


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
