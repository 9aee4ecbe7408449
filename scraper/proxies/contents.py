"""Compares the content of pages that came through a proxy with that of the others. In memory, for
one process, bounded: what is dropped is learned again.

A proxy that answers everything itself, or that gets captchas in unknown words, looks good by its
statuses. So a page that lacks a required field, or that has the very bytes of another page, is
requested through another proxy; if that one gets the whole page, the first is charged. A shop may
give any proxy a bad page now and then: only a proxy with clearly more of them than the others is
quarantined.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

# A proxy's share of bad pages at a host is that of its last pages there.
WINDOW = 100
# A proxy is clearly worse with at least this many bad pages, if it is this improbable (in nats)
# that the other proxies have the same share of them.
BAD_LEAST = 5
IMPROBABLE = math.log(100_000)
# After this many incomplete pages in a row on which all proxies agree, the site's pages lack it.
SITE_LACKS = 5
HOSTS_MAX = 1000
BODIES_MAX = 20_000


def store_newest(kept: OrderedDict[K, V], key: K, value: V, most: int) -> V:
    """Stores the value as the newest, and drops the oldest one above `most`. Returns the value."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
    return value


def _compare_shares(bad: int, pages: int, others_bad: int, others: int) -> float:
    """Returns how improbable it is, in nats, that a proxy's bad pages and the others' have the same
    cause: the logarithm of the likelihood ratio. 0 if its share is not the larger one.

    5 of 25 where the others have 0 of 50 is 5.9; 5 of 6, where they have 1 of 6, is 2.9.
    """
    if bad * others <= others_bad * pages:
        return 0.0
    apart = _log_likelihood(bad, pages) + _log_likelihood(others_bad, others)
    return apart - _log_likelihood(bad + others_bad, pages + others)


def _log_likelihood(bad: int, pages: int) -> float:
    """Returns the logarithm of the likelihood of that many bad pages by their own share."""
    return sum(count * math.log(count / pages) for count in (bad, pages - bad) if count)


class ProxyContents:
    """One for each process, on its loop. `body` is a hash of a page's bytes."""

    def __init__(self) -> None:
        # For each host and proxy, whether each of the last pages was bad.
        self._pages: OrderedDict[str, dict[str, deque[bool]]] = OrderedDict()
        self._lacking: OrderedDict[str, int] = OrderedDict()
        self._bodies: OrderedDict[tuple[str, str, int], str] = OrderedDict()
        self._repeated_by_shop: OrderedDict[tuple[str, int], None] = OrderedDict()

    def record_whole(self, host: str, proxy_id: str, *, product: bool) -> None:
        """Records a page that had all it should have."""
        self._get_window(host, proxy_id).append(False)
        if product:
            self._lacking.pop(host, None)

    def record_bad(self, host: str, proxy_id: str) -> bool:
        """Records a bad page that another proxy got whole. Returns whether this proxy has clearly
        more of them than the others."""
        mine = self._get_window(host, proxy_id)
        mine.append(True)
        others = [
            was_bad
            for other, window in self._pages[host].items()
            if other != proxy_id
            for was_bad in window
        ]
        doubt = _compare_shares(sum(mine), len(mine), sum(others), len(others))
        return sum(mine) >= BAD_LEAST and doubt >= IMPROBABLE

    def record_lack(self, host: str) -> None:
        """Records that every proxy got an incomplete page."""
        store_newest(self._lacking, host, self._lacking.get(host, 0) + 1, HOSTS_MAX)

    def site_lacks(self, host: str) -> bool:
        """Returns whether product pages are incomplete through any proxy: after a redesign, or with
        a wrong definition."""
        return self._lacking.get(host, 0) >= SITE_LACKS

    def find_repeat(self, host: str, proxy_id: str, body: int, url: str) -> str | None:
        """Returns the other URL for which this proxy gave the same body, unless the shop itself
        repeats it."""
        if (host, body) in self._repeated_by_shop:
            return None
        before = self._bodies.get((host, proxy_id, body))
        if before is None:
            store_newest(self._bodies, (host, proxy_id, body), url, BODIES_MAX)
        return None if before == url else before

    def record_shop_repeat(self, host: str, body: int) -> None:
        """Records that two proxies got the same body."""
        store_newest(self._repeated_by_shop, (host, body), None, BODIES_MAX)

    def _get_window(self, host: str, proxy_id: str) -> deque[bool]:
        windows = store_newest(self._pages, host, self._pages.get(host, {}), HOSTS_MAX)
        return windows.setdefault(proxy_id, deque(maxlen=WINDOW))
