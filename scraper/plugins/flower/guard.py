"""Closes Flower: it requires a login, listens on loopback and allows no frames, unless its options
explicitly say otherwise.
"""

from __future__ import annotations

import sys
from typing import Any

import flower.options  # noqa: F401 - defines the options that are read below
from flower import urls
from flower.app import Flower
from tornado.httputil import HTTPHeaders
from tornado.options import options
from tornado.web import OutputTransform

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
