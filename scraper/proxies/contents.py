"""What the pages that came through a proxy hold, compared with those of the others. In memory, of
one process, bounded: what is forgotten is learned anew.

A proxy that answers everything itself, or that gets captchas in words nobody knows, looks well by
its statuses. So a page without what it should have, or with the very bytes of another page, is
asked for by another proxy, and where that one gets it whole the first is charged. A shop may give
any proxy a bad page now and then: only a proxy with clearly more of them than the others rests.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import TypeVar

from scraper.rules.quality import improbability

K = TypeVar("K")
V = TypeVar("V")

# The last pages of a proxy at a host, by which its share of bad ones is known.
WINDOW = 100
# So many of them, and so improbable by the others' share.
BAD_LEAST = 5
IMPROBABLE = math.log(100_000)
# After so many pages in a row that all agree on, the site's pages are so.
SITE_LACKS = 5
HOSTS_MAX = 1000
BODIES_MAX = 20_000


def store_newest(kept: OrderedDict[K, V], key: K, value: V, most: int) -> V:
    """The value, stored as the newest; the oldest go."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
    return value


class ProxyContents:
    """One a process, on its loop."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, dict[str, deque[bool]]] = OrderedDict()
        self._lacking: OrderedDict[str, int] = OrderedDict()
        self._bodies: OrderedDict[tuple[str, str, int], str] = OrderedDict()
        self._shops_own: OrderedDict[tuple[str, int], None] = OrderedDict()

    def whole(self, host: str, proxy_id: str, *, product: bool) -> None:
        """A page that had all it should have."""
        self._window(host, proxy_id).append(False)
        if product:
            self._lacking.pop(host, None)

    def bad(self, host: str, proxy_id: str) -> bool:
        """A page that another proxy got whole. True where this one has clearly more of them."""
        mine = self._window(host, proxy_id)
        mine.append(True)
        others = [
            was_bad
            for other, window in self._pages[host].items()
            if other != proxy_id
            for was_bad in window
        ]
        usual = (len(others) - sum(others) + 1) / (len(others) + 2)
        whole = len(mine) - sum(mine)
        return sum(mine) >= BAD_LEAST and improbability(whole, len(mine), usual) >= IMPROBABLE

    def agreed(self, host: str) -> None:
        """A page that nobody got whole."""
        store_newest(self._lacking, host, self._lacking.get(host, 0) + 1, HOSTS_MAX)

    def site_lacks(self, host: str) -> bool:
        """True where product pages lack something whoever asks: a redesign, a wrong definition."""
        return self._lacking.get(host, 0) >= SITE_LACKS

    def repeats(self, host: str, proxy_id: str, body: int, url: str) -> str | None:
        """The other URL for which this proxy gave the same body, unless the shop itself does."""
        if (host, body) in self._shops_own:
            return None
        before = self._bodies.get((host, proxy_id, body))
        if before is None:
            store_newest(self._bodies, (host, proxy_id, body), url, BODIES_MAX)
        return None if before == url else before

    def shop_repeats(self, host: str, body: int) -> None:
        """Another proxy got that body, too."""
        store_newest(self._shops_own, (host, body), None, BODIES_MAX)

    def _window(self, host: str, proxy_id: str) -> deque[bool]:
        windows = store_newest(self._pages, host, self._pages.get(host, {}), HOSTS_MAX)
        return windows.setdefault(proxy_id, deque(maxlen=WINDOW))
