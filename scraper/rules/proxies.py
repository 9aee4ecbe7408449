"""Proxies: what the list says, which one is lent next, and how long one rests that failed. Pure.

`now`, rates and the random source are arguments. Refuses to name a proxy by anything but its id:
neither an address nor a credential of it leaves this module in a text. What is known of a proxy's
health is per host (`Health`): one that a shop has banned may be good everywhere else.
"""

from __future__ import annotations

import hashlib
import random
import re
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from urllib.parse import SplitResult, unquote, urlsplit

from scraper.domain import ProxySignal

POOLS = ("datacenter", "residential")
SCHEMES = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
WEIGHT_MAX = 1000.0

# How long a (proxy, host), or a proxy as a whole, rests after its first strike, its second … One
# strike is forgiven for each hour that it was free again: what was banned yesterday begins small.
QUARANTINES_S = (30.0, 120.0, 600.0, 3600.0, 21_600.0)
FORGIVEN_AFTER_S = 3600.0
FAULT_WAITS_S = (0.5, 5.0, 20.0, 60.0, 180.0, 300.0)
# So many failures in a row at a host, by anybody's requests, count as a strike.
STREAK_MAX = 5

_REGION = re.compile(r"[a-z][a-z0-9_-]{0,30}").fullmatch
_SPACE_HASH = re.compile(r"(?:^|\s)#.*$")
# The worst health still gets a little, or it could never be seen to recover.
_UNEVEN_MIN, _SLOW_MIN = 0.02, 0.2
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
        """True where even plain http goes through a tunnel, so that every answer is the host's
        own."""
        return self.scheme.startswith("socks")


class ProxyListError(ValueError):
    """A list that cannot be used. `problems` has one line each, `file:line: …`, and shows nothing
    of what stands there."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def parse_list(text: str, name: str) -> list[Proxy]:
    """The proxies of a list: `http://user:pass@host:port class=residential region=eu weight=2`, one
    a line.

    `#` at a line's start or after a space begins a comment. Raises `ListError` with every mistake.
    """
    proxies: dict[str, tuple[int, Proxy]] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        words = _SPACE_HASH.sub("", line).split()
        if not words:
            continue
        try:
            proxy = _proxy_of(words[0], words[1:])
        except ValueError as error:
            problems.append(f"{name}:{number}: {error}")
            continue
        first, _ = proxies.setdefault(proxy.id, (number, proxy))
        if first != number:
            problems.append(
                f"{name}:{number}: the same proxy as in line {first} (fix: remove one of the two)"
            )
    if problems:
        raise ProxyListError(problems)
    return [proxy for _, proxy in proxies.values()]


def _proxy_of(url: str, words: Sequence[str]) -> Proxy:
    parts, port = _split(url)
    options: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in ("class", "region", "weight"):
            raise ValueError(
                "after the URL only class=, region= and weight= may stand (fix: remove the rest)"
            )
        if key in options:
            raise ValueError(f"{key}= stands there twice (fix: keep one)")
        options[key] = value
    pool = options.get("class", "datacenter")
    if pool not in POOLS:
        raise ValueError("an unknown class (fix: class=datacenter or class=residential)")
    region = options.get("region", "any")
    if not _REGION(region):
        raise ValueError("not a region (fix: a short name of small letters, as in region=eu)")
    host = parts.hostname or ""
    user = None if parts.username is None else unquote(parts.username)
    digest = hashlib.sha256(f"{parts.scheme}://{user or ''}@{host}:{port}".encode()).hexdigest()[
        :10
    ]
    return Proxy(
        id=f"{pool}-{region}-{digest}",
        scheme=parts.scheme,
        host=host,
        port=port,
        user=user,
        password=None if parts.password is None else unquote(parts.password),
        pool=pool,
        region=None if region == "any" else region,
        weight=_weight(options.get("weight", "1")),
    )


def _split(url: str) -> tuple[SplitResult, int]:
    fix = "(fix: as in http://user:password@host:port, special characters percent-encoded)"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"not a URL {fix}") from None
    if parts.scheme not in SCHEMES:
        raise ValueError(f"the scheme must be http, https, socks5 or socks5h {fix}")
    if (
        not parts.hostname
        or port == 0
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
    ):
        raise ValueError(f"not a proxy's URL {fix}")
    both = unquote(parts.username or "") + unquote(parts.password or "")
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in both) or ":" in unquote(
        parts.username or ""
    ):
        raise ValueError("a user name or password with a character that none may have")
    longest = max(len(unquote(part or "").encode()) for part in (parts.username, parts.password))
    if parts.scheme.startswith("socks") and longest > 255:
        raise ValueError("a user name or password longer than SOCKS5 allows (255 bytes)")
    return parts, port or SCHEMES[parts.scheme]


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= WEIGHT_MAX:
        raise ValueError(
            f"weight must be a number above 0, {WEIGHT_MAX:g} at the most (fix: weight=2)"
        )
    return weight


@dataclass(frozen=True, slots=True)
class ProxyNeed:
    """What a site asks of a proxy. `sticky_s` and `sticky_requests` are how long one identity
    lasts; 0: one page. `account`: who is logged in, and is to stay with one proxy, in every process
    (`steady`)."""

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
    """What the fleet knows of a proxy at one host. `success` and `latency_s` are moving averages,
    of requests that say something about it; `free_at` is when its quarantine ends, on the caller's
    clock."""

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
    """The strikes that count now, this one included, and the seconds of quarantine, for one that
    had `strikes` and was free for `free_for_s` since. `after_strike(1, 60) == (2, 120.0)`;
    `after_strike(3, 7300) == (2, 120.0)`."""
    count = max(0, strikes - int(free_for_s // FORGIVEN_AFTER_S)) + 1
    return count, QUARANTINES_S[min(count, len(QUARANTINES_S)) - 1]


def fault_wait_s(faults: int) -> float:
    """How long a page waits that met nothing but faults of proxies, `faults` visits in a row before
    this one."""
    return FAULT_WAITS_S[min(faults, len(FAULT_WAITS_S) - 1)]


def answer_signal(
    status: int, headers: Mapping[str, str], url: str, proxy: Proxy, *, blocked: bool
) -> ProxySignal:
    """What an answer by itself says of the proxy it came through: BLOCKED and FAILED are to be
    confirmed by others.

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


def score_proxy(proxy: Proxy, health: ProxyStats, fastest_s: float) -> float:
    """How often it is lent, relative to the others: its weight, less where it fails or is slow.
    Never 0."""
    even = max(_UNEVEN_MIN, health.success**2)
    slow = 1.0 if not health.latency_s or not fastest_s else (fastest_s / health.latency_s) ** 0.5
    return proxy.weight * even * min(1.0, max(_SLOW_MIN, slow))


class ProxyChooser:
    """The proxies of a pool that are free for one host at a time, drawn by score. Costs O(n) to
    make, a draw next to nothing; made anew when what is known has changed."""

    __slots__ = ("_cumulated", "free")

    def __init__(
        self,
        proxies: Sequence[Proxy],
        at_host: Mapping[str, ProxyStats],
        whole: Mapping[str, ProxyStats],
        now: float,
    ) -> None:
        self.free = [proxy for proxy in proxies if free_at(proxy, at_host, whole) <= now]
        latencies = [
            health.latency_s
            for proxy in self.free
            if (health := at_host.get(proxy.id)) and health.latency_s
        ]
        fastest_s = min(latencies, default=0.0)
        self._cumulated = list(
            accumulate(
                score_proxy(proxy, at_host.get(proxy.id, NO_STATS), fastest_s)
                for proxy in self.free
            )
        )

    def draw(self, rng: random.Random, without: Collection[str]) -> Proxy | None:
        """One of the free ones that is not in `without` (ids), or None where there is none."""
        if not self.free:
            return None
        for _ in range(_DRAWS):
            proxy = self.free[
                min(bisect(self._cumulated, rng.random() * self._cumulated[-1]), len(self.free) - 1)
            ]
            if proxy.id not in without:
                return proxy
        left = [index for index, proxy in enumerate(self.free) if proxy.id not in without]
        if not left:
            return None
        weights = [self._cumulated[i] - (self._cumulated[i - 1] if i else 0.0) for i in left]
        return self.free[rng.choices(left, weights)[0]]


def choose_for_account(account: str, proxies: Iterable[Proxy]) -> Proxy | None:
    """The account's own one of these: the same in every process, without anybody to ask, and
    another only while that one is missing (rendezvous hashing)."""
    return max(
        proxies,
        key=lambda one: hashlib.sha256(f"{account} {one.id}".encode()).digest(),
        default=None,
    )


def free_at(
    proxy: Proxy, at_host: Mapping[str, ProxyStats], whole: Mapping[str, ProxyStats]
) -> float:
    """When neither the host nor the proxy itself keeps it from being lent."""
    return max(at_host.get(proxy.id, NO_STATS).free_at, whole.get(proxy.id, NO_STATS).free_at)
