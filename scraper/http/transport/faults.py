"""Turns what the network raised into the one error that leaves this package, in words that say what
to fix."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from typing import Protocol

import httpx

from scraper.domain import Outcome, ProxySignal
from scraper.errors import FetchError
from scraper.http.transport.guard import ForbiddenAddressError
from scraper.http.transport.tunnel import ProxyHopError

_DETAIL_MAX = 200


class Timeouts(Protocol):
    @property
    def connect_timeout_s(self) -> float: ...
    @property
    def read_timeout_s(self) -> float: ...


def fetch_error(
    error: Exception, *, url: str, host: str, limits: Timeouts, status: int | None = None
) -> FetchError:
    """Returns the FetchError for any error of one hop. Never raises; an unknown error counts as a
    malformed response."""
    if isinstance(error, FetchError):
        error.url = error.url or url
        error.status = error.status if error.status is not None else status
        return error
    if isinstance(error, ProxyHopError):
        # The proxy says so; the caller decides whether to believe it.
        unreached = error.signal is ProxySignal.FAILED
        outcome = Outcome.UNREACHABLE if unreached else Outcome.PROXY_FAILED
        return FetchError(outcome, str(error), url=url, status=status, signal=error.signal)
    outcome, message = _classify_error(error, host, limits)
    return FetchError(outcome, message, url=url, status=status)


def _classify_error(error: Exception, host: str, limits: Timeouts) -> tuple[Outcome, str]:
    for cause in _iterate_causes(error):
        if isinstance(cause, ForbiddenAddressError):
            return Outcome.FORBIDDEN_ADDRESS, _describe_forbidden(cause, host)
        if isinstance(cause, ssl.SSLError):
            reason = printable(cause.strerror or str(cause))
            return Outcome.TLS, f"TLS with {host} failed: {reason}"
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return Outcome.TIMEOUT, (
                f"no connection to {host} within {limits.connect_timeout_s:g} s"
                " (connect timeout, DNS and TLS included: SCRAPER_CONNECT_TIMEOUT_S)"
            )
        case httpx.TimeoutException():
            return Outcome.TIMEOUT, (
                f"{host} sent nothing for {limits.read_timeout_s:g} s"
                " (read timeout: SCRAPER_READ_TIMEOUT_S)"
            )
        case httpx.ConnectError():
            return Outcome.UNREACHABLE, f"no connection to {host}: {_describe_cause(error)}"
        case httpx.NetworkError():
            return (
                Outcome.UNREACHABLE,
                f"the connection to {host} broke off: {_describe_cause(error)}",
            )
        case httpx.InvalidURL():
            return Outcome.MALFORMED, f"not a URL that can be requested: {printable(error)}"
        case httpx.RemoteProtocolError():
            return (
                Outcome.MALFORMED,
                f"{host} does not speak valid HTTP: {printable(_root_cause(error))}",
            )
        case _:
            return (
                Outcome.MALFORMED,
                f"the answer of {host} is unusable: {type(error).__name__}: {printable(error)}",
            )


def _describe_forbidden(cause: ForbiddenAddressError, host: str) -> str:
    if cause.reason.startswith("a cloud"):
        return f"{host} leads to {cause.address}, {cause.reason}, which is never fetched"
    return (
        f"{host} leads to {cause.address}, which is {cause.reason}"
        " (if that is meant: 'allow_private: true' in the site definition, and this host among its"
        " 'hosts')"
    )


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and its causes. aiohttp's connector errors keep the cause in `os_error`."""
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or getattr(cause, "os_error", None)


def _root_cause(error: BaseException) -> BaseException:
    return list(_iterate_causes(error))[-1]


def _describe_cause(error: BaseException) -> str:
    """Returns the system's words without a number, such as "connection refused"."""
    cause = _root_cause(error)
    if isinstance(cause, socket.gaierror):
        return printable(cause.strerror or cause).lower()
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno).lower()
    return printable(cause)


def printable(text: object) -> str:
    """Returns a short, printable text: errors quote what a hostile server sent, and PostgreSQL
    refuses NUL."""
    words = " ".join(str(text).split())[:_DETAIL_MAX]
    return "".join(char if char.isprintable() else "?" for char in words)
