"""Keeps the connections of a thread that sends out of the operator's network."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from socket import SOCK_STREAM, socket
from typing import Any

from scraper.http.transport.guard import (
    ANYWHERE,
    ForbiddenAddressError,
    Networks,
    forbidden_reason,
)

_SENDING_EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_sending = threading.local()


@contextmanager
def guard_connections(private: Networks) -> Iterator[None]:
    """Lets this thread connect only to public addresses and to those in `private`, and never to a
    cloud's metadata service. Other connections raise `ForbiddenAddressError`.

    A recipient's name may lead elsewhere than when the tab added it. The libraries that send look
    names up themselves, so only an audit hook sees the address of the connection itself, and no
    rebound name comes between. The hook stays in the process, and does nothing in other threads.
    """
    _add_hook()
    _sending.private = private
    try:
        yield
    finally:
        del _sending.private


@cache
def _add_hook() -> None:
    # The hook outlives the names of this module, which the interpreter takes away as it ends.
    events, sending, check = _SENDING_EVENTS, _sending, _check_connection

    def check_event(event: str, args: tuple[Any, ...]) -> None:
        if event in events and hasattr(sending, "private"):
            check(*args)

    sys.addaudithook(check_event)


def _check_connection(connection: socket, address: Any) -> None:
    # The address of a Unix socket is a text. A datagram (syslog) may go to a name, whose address is
    # not known here: it is refused where only public ones are allowed.
    is_judged = connection.type == SOCK_STREAM or _sending.private != ANYWHERE
    if isinstance(address, tuple) and is_judged:
        host = str(address[0]).partition("%")[0]
        reason = forbidden_reason(host, _sending.private)
        if reason is not None:
            raise ForbiddenAddressError(host, reason)
