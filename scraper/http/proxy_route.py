"""How a request leaves: a proxy and the identity that goes with it. A value that travels from the
pool to the socket."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import lru_cache

from scraper.http.cookies import CookieJar
from scraper.rules.proxies import Proxy


@dataclass(frozen=True, slots=True)
class ProxyRoute:
    """`jar` keeps an identity's cookies from page to page; None if each page is a new visitor. The
    headers of an identity follow from its proxy (`FetchPolicy.headers_from`), so that one address
    is one browser in every process."""

    proxy: Proxy
    jar: CookieJar | None = None


@lru_cache(maxsize=1)
def this_machine() -> str:
    """Returns the machine's name, which identifies requests without a proxy as a proxy's id does
    the others."""
    return socket.gethostname()
