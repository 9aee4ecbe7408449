"""Decides which proxy is lent next, and how long a failed one is in quarantine. Pure: `now`, rates
and the random source are arguments.

A proxy's stats are per host (`ProxyStats`): one that a shop has banned may be good everywhere else.
Texts name a proxy by its id only, never by its address or a credential.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from scraper.domain import ProxySignal

POOLS = ("datacenter", "residential")

# How long a proxy at a host, or a proxy as a whole, is in quarantine after its first strike, its
# second and so on.
QUARANTINES_S = (30.0, 120.0, 600.0, 3600.0, 21_600.0)
# One strike is forgiven for each of these times that the proxy was free again.
FORGIVEN_AFTER_S = 3600.0
FAULT_WAITS_S = (0.5, 5.0, 20.0, 60.0, 180.0, 300.0)
# This many failures in a row at a host, in any process, are a strike.
STREAK_MAX = 5

# The worst proxy is still lent now and then, or its recovery would go unseen.
_SUCCESS_MIN, _SPEED_MIN = 0.02, 0.2
_DRAWS = 4


@dataclass(frozen=True, slots=True)
class Proxy:
    """One line of the list. `repr` and `str` show the id alone."""

    id: str
    scheme: str
    host: str = field(repr=False)
    port: int = field(repr=False)
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    pool: str = "datacenter"
    region: str | None = None
    weight: float = 1.0

    def __str__(self) -> str:
        return self.id

    @property
    def tunnels(self) -> bool:
        """Returns whether even plain http goes through a tunnel, so that every answer is the host's
        own."""
        return self.scheme.startswith("socks")


@dataclass(frozen=True, slots=True)
class ProxyNeed:
    """What a site needs of a proxy. `sticky_s` and `sticky_requests` are how long one identity
    lasts; 0: one page. `account`: who is logged in, and stays with one proxy in every process
    (`choose_for_account`)."""

    site_id: int
    pool: str
    region: str | None = None
    sticky_s: float = 0.0
    sticky_requests: int = 0
    account: str | None = None

    @property
    def sticky(self) -> bool:
        return self.sticky_s > 0 and self.sticky_requests > 0


@dataclass(frozen=True, slots=True)
class ProxyStats:
    """What the fleet knows of a proxy at one host. `success` and `latency_s` are moving averages
    over requests that say something about it; `free_at` is when its quarantine ends, on the
    caller's clock."""

    requests: int = 0
    answered: int = 0
    failed: int = 0
    success: float = 1.0
    latency_s: float = 0.0
    free_at: float = 0.0
    strikes: int = 0
    why: str = ""


NO_STATS = ProxyStats()


def after_strike(strikes: int, free_for_s: float) -> tuple[int, float]:
    """Returns the strikes that count now, this one included, and the seconds of quarantine, for a
    proxy that had `strikes` and has been free for `free_for_s` since.

    >>> after_strike(1, 60), after_strike(3, 7300)
    ((2, 120.0), (2, 120.0))
    """
    count = max(0, strikes - int(free_for_s // FORGIVEN_AFTER_S)) + 1
    return count, QUARANTINES_S[min(count, len(QUARANTINES_S)) - 1]


def fault_wait_s(faults: int) -> float:
    """Returns how long a page waits that met only faults of proxies, in `faults` visits in a row
    before this one as well."""
    return FAULT_WAITS_S[min(faults, len(FAULT_WAITS_S) - 1)]


def answer_signal(
    status: int, headers: Mapping[str, str], url: str, proxy: Proxy, *, blocked: bool
) -> ProxySignal:
    """Returns what an answer alone says about its proxy. BLOCKED and FAILED need other proxies'
    confirmation.

    Plain http through an http proxy has no tunnel: a 502, 503 or 504 may then be the proxy's own
    (RFC 9110 15.6.3 to 15.6.5). `blocked` is what `scraper.rules.blocks` found.
    """
    if blocked:
        return ProxySignal.BLOCKED
    if (
        status in (502, 503, 504)
        and url.startswith("http:")
        and not proxy.tunnels
        and "retry-after" not in headers
    ):
        return ProxySignal.FAILED
    return ProxySignal.ANSWERED


def score_proxy(proxy: Proxy, stats: ProxyStats, fastest_s: float) -> float:
    """Returns how often the proxy is lent, relative to the others: its weight, less where it fails
    or is slow. Never 0."""
    success = max(_SUCCESS_MIN, stats.success**2)
    speed = 1.0 if not stats.latency_s or not fastest_s else (fastest_s / stats.latency_s) ** 0.5
    return proxy.weight * success * min(1.0, max(_SPEED_MIN, speed))


class ProxyChooser:
    """The proxies of a pool that are free for one host at a time, drawn by score. Creating it costs
    O(n), a draw next to nothing; changed stats need a new one."""

    __slots__ = ("_cumulated", "free")

    def __init__(
        self,
        proxies: Sequence[Proxy],
        at_host: Mapping[str, ProxyStats],
        everywhere: Mapping[str, ProxyStats],
        now: float,
    ) -> None:
        self.free = [proxy for proxy in proxies if free_at(proxy, at_host, everywhere) <= now]
        stats = [at_host.get(proxy.id, NO_STATS) for proxy in self.free]
        fastest_s = min((known.latency_s for known in stats if known.latency_s), default=0.0)
        self._cumulated = list(
            accumulate(
                score_proxy(proxy, known, fastest_s)
                for proxy, known in zip(self.free, stats, strict=True)
            )
        )

    def draw(self, rng: random.Random, without: Collection[str]) -> Proxy | None:
        """Returns a free proxy that is not in `without` (ids), or None."""
        if not self.free:
            return None
        last = len(self.free) - 1
        for _ in range(_DRAWS):
            point = rng.random() * self._cumulated[-1]
            proxy = self.free[min(bisect(self._cumulated, point), last)]
            if proxy.id not in without:
                return proxy
        left = [index for index, proxy in enumerate(self.free) if proxy.id not in without]
        if not left:
            return None
        weights = [self._cumulated[i] - (self._cumulated[i - 1] if i else 0.0) for i in left]
        return self.free[rng.choices(left, weights)[0]]


def choose_for_account(account: str, proxies: Iterable[Proxy]) -> Proxy | None:
    """Returns the account's own proxy: the same in every process without coordination, and another
    one only while that one is missing (rendezvous hashing)."""
    return max(
        proxies,
        key=lambda proxy: hashlib.sha256(f"{account} {proxy.id}".encode()).digest(),
        default=None,
    )


def free_at(
    proxy: Proxy, at_host: Mapping[str, ProxyStats], everywhere: Mapping[str, ProxyStats]
) -> float:
    """Returns when the proxy is out of quarantine, both at the host and as a whole."""
    return max(at_host.get(proxy.id, NO_STATS).free_at, everywhere.get(proxy.id, NO_STATS).free_at)
