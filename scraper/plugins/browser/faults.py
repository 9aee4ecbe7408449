"""Translates a browser's errors to a `FetchError`, which says what to blame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http.transport.faults import Timeouts, fetch_error, printable
from scraper.rules.urls import host_of

if TYPE_CHECKING:
    from playwright.async_api import Error, Response

_CODE = re.compile(r"net::(ERR_[A-Z0-9_]+)")
_TIMEOUTS = ("ERR_TIMED_OUT", "ERR_CONNECTION_TIMED_OUT")
_LOOPS = ("ERR_TOO_MANY_REDIRECTS",)
_UNREACHED = (
    "ERR_CONNECTION_", "ERR_EMPTY_RESPONSE", "ERR_TUNNEL_CONNECTION_FAILED", "ERR_PROXY_",
    "ERR_ADDRESS_", "ERR_NAME_", "ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_", "ERR_SOCKET_",
    "ERR_HTTP2_PING_FAILED", "ERR_INCOMPLETE_",
)  # fmt: skip


class BrowserLostError(Exception):
    """The browser or one page's renderer ended. `own`: no other page was lost with it."""

    def __init__(self, text: str, *, own: bool = False) -> None:
        super().__init__(text)
        self.own = own


def navigation_fault(
    error: Error,
    failures: Mapping[str, Exception],
    url: str,
    limits: Timeouts,
    main: Response | None,
) -> FetchError:
    """Returns the error of a page that did not load. `failures`, the proxy's connection errors by
    host, are more precise than the browser's."""
    host = host_of(url)
    connection_error = failures.get(urlsplit(url).hostname or "")
    if connection_error is not None and main is None:
        return fetch_error(connection_error, url=url, host=host, limits=limits)
    match = _CODE.search(str(error))
    code = match[1] if match else ""
    status = main.status if main is not None else None
    outcome, text = _classify_error(code, str(error), host)
    return FetchError(outcome, text, url=url, status=status)


def _classify_error(code: str, text: str, host: str) -> tuple[Outcome, str]:
    if "Download is starting" in text or code == "ERR_ABORTED":
        return (
            Outcome.MALFORMED,
            "it is a download or empty, so a browser shows no page",
        )
    if code.startswith(("ERR_CERT_", "ERR_SSL_")) or code == "ERR_BAD_SSL_CLIENT_AUTH_CERT":
        return Outcome.TLS, f"TLS with {host} failed: {code}"
    if code in _TIMEOUTS:
        return Outcome.TIMEOUT, f"{host} did not answer in time: {code}"
    if code in _LOOPS:
        return Outcome.REDIRECT_LOOP, f"redirects in a circle: {code}"
    if code.startswith(_UNREACHED):
        return Outcome.UNREACHABLE, f"the connection to {host} failed: {code}"
    return Outcome.MALFORMED, f"the answer of {host} is unusable: {code or printable(text)}"
