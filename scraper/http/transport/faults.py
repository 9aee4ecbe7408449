"""From what the network raised to the one error that leaves this package, with words that say what
to mend."""

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


def fault(
    error: Exception, *, url: str, host: str, limits: Timeouts, status: int | None = None
) -> FetchError:
    """The FetchError for any error of one hop. Never raises; an unknown error counts as a malformed
    answer."""
    if isinstance(error, FetchError):
        error.url = error.url or url
        error.status = error.status if error.status is not None else status
        return error
    if isinstance(error, ProxyHopError):
        # The proxy says so; whether to believe it is the caller's matter.
        unreached = error.signal is ProxySignal.FAILED
        outcome = Outcome.UNREACHABLE if unreached else Outcome.PROXY_FAILED
        return FetchError(outcome, str(error), url=url, status=status, signal=error.signal)
    outcome, message = _outcome_of(error, host, limits)
    return FetchError(outcome, message, url=url, status=status)


def _outcome_of(error: Exception, host: str, limits: Timeouts) -> tuple[Outcome, str]:
    for cause in _causes(error):
        if isinstance(cause, ForbiddenAddressError):
            return Outcome.FORBIDDEN_ADDRESS, _forbidden(cause, host)
        if isinstance(cause, ssl.SSLError):
            return Outcome.TLS, f"TLS with {host} failed: {plain(cause.strerror or str(cause))}"
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
            return Outcome.UNREACHABLE, f"no connection to {host}: {_cause(error)}"
        case httpx.NetworkError():
            return (
                Outcome.UNREACHABLE,
                f"the connection to {host} broke off: {_cause(error)}",
            )
        case httpx.InvalidURL():
            return Outcome.MALFORMED, f"not a URL that can be requested: {plain(error)}"
        case httpx.RemoteProtocolError():
            return (
                Outcome.MALFORMED,
                f"{host} does not speak valid HTTP: {plain(_innermost(error))}",
            )
        case _:
            return (
                Outcome.MALFORMED,
                f"the answer of {host} is unusable: {type(error).__name__}: {plain(error)}",
            )


def _forbidden(cause: ForbiddenAddressError, host: str) -> str:
    if cause.reason.startswith("a cloud"):
        return f"{host} leads to {cause.address}, {cause.reason}, which is never fetched"
    return (
        f"{host} leads to {cause.address}, which is {cause.reason}"
        " (if that is meant: `allow_private: true` in the site definition, and this host among its"
        " `hosts`)"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it stems from; aiohttp's connector errors keep theirs in `os_error`."""
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or getattr(cause, "os_error", None)


def _innermost(error: BaseException) -> BaseException:
    return list(_causes(error))[-1]


def _cause(error: BaseException) -> str:
    """What went wrong, as the system says it and without a number: connection refused."""
    cause = _innermost(error)
    if isinstance(cause, socket.gaierror):
        return plain(cause.strerror or cause).lower()
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno).lower()
    return plain(cause)


def plain(text: object) -> str:
    """Short and printable: error texts quote what a hostile server sent, and PostgreSQL refuses
    NUL."""
    words = " ".join(str(text).split())[:_DETAIL_MAX]
    return "".join(char if char.isprintable() else "?" for char in words)
