"""Flower is never open: a login, loopback and no frames, whatever it is configured with, unless
somebody says otherwise in so many words.
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
    """No page of Flower's, ours or its own, can be shown within another site's."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        headers["X-Frame-Options"] = "DENY"
        headers.setdefault("Content-Security-Policy", "frame-ancestors 'none'")
        return status_code, headers, chunk


def install(settings: Settings) -> None:
    """To be called before Flower reads its options. Each time that it has read some (first the
    command line, then a file, then both), what is still open is closed."""

    def close() -> None:
        if not options.address:
            options.address = LOOPBACK
        if settings.of(FlowerSettings).flower_login == "password" and not (
            options.basic_auth or options.auth
        ):
            login = flower_login.get(settings)
            options.basic_auth = [f"{login.user}:{login.password}"]

    options.add_parse_callback(close)
    urls.settings["transforms"] = [Unframed]
    Flower.start_http_server = _listen


_start_http_server = Flower.start_http_server


def _listen(app: Flower) -> Any:
    try:
        return _start_http_server(app)
    except OSError as error:
        place = options.unix_socket or f"{options.address}:{options.port}"
        sys.exit(
            f"scraper: Flower cannot listen at {place}: {error.strerror} "
            "(fix: end what listens there, or --port, --address)"
        )
