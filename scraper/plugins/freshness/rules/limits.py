"""How many requests a day the limits of a budget allow: requests, bytes, and money for proxies.
Pure.

A limit is what a day may use. Listings, sitemaps and other pages use their part first, but at most
half; the rest is for visits of products. A visit uses what visits have used so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# At least this part of a limit is for visits, however many listings there are.
VISITS_PART = 0.5
# What a request counts in addition to the body: its headers, and those of the response.
HEADER_BYTES = 1_000
# The size of a page before any has been read.
FIRST_BYTES = 100_000
GB = 1e9


class Used(NamedTuple):
    """What requests have used: `sized` of them had a known size, `bytes` in sum; `proxied` went
    through proxies, `proxy_bytes` in sum of those with a known size, `proxy_sized`."""

    requests: float = 0.0
    sized: float = 0.0
    bytes: float = 0.0
    proxied: float = 0.0
    proxy_sized: float = 0.0
    proxy_bytes: float = 0.0

    @property
    def traffic(self) -> float:
        """Returns the bytes of all requests; those without a size count as the others do."""
        return self.requests * (HEADER_BYTES + _mean_bytes(self.bytes, self.sized))

    def money(self, per_request: float, per_gb: float) -> float:
        """Returns what the proxies cost.

        >>> Used(10, 10, 5e8, proxied=4, proxy_sized=4, proxy_bytes=4e8 - 4000).money(0.5, 10)
        6.0
        """
        bytes_ = self.proxied * (HEADER_BYTES + _mean_bytes(self.proxy_bytes, self.proxy_sized))
        return self.proxied * per_request + bytes_ / GB * per_gb


class Limit(NamedTuple):
    """A limit a day, what a visit uses, and what other requests use a day."""

    ceiling: float
    visit: float
    others: float

    @property
    def visits(self) -> float:
        """Returns how many visits a day it allows.

        >>> Limit(1000, 2, 200).visits, Limit(1000, 2, 900).visits
        (400.0, 250.0)
        """
        if not self.visit:
            return float("inf")
        return max(self.ceiling - self.others, self.ceiling * VISITS_PART) / self.visit


def find_tightest(limits: Mapping[str, Limit]) -> str | None:
    """Returns the name of the limit that allows the fewest visits; None without a limit.

    >>> find_tightest({"requests": Limit(1000, 1, 0), "bytes": Limit(1e9, 2e6, 0)})
    'bytes'
    """
    return min(limits, key=lambda name: limits[name].visits, default=None)


def budget_of(limits: Mapping[str, Limit], others: float) -> float | None:
    """Returns how many requests a day a budget allows if `others` are not visits; None without a
    limit."""
    name = find_tightest(limits)
    if name is None:
        return None
    return limits[name].ceiling if name == "requests" else limits[name].visits + others


def _mean_bytes(total: float, sized: float) -> float:
    return total / sized if sized else FIRST_BYTES
