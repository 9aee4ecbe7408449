"""What the fleet knows of its proxies, in Redis: requests, answers, latency and quarantines of each
proxy at each host.

Each decision is one atomic script (`proxies/strike.lua`, `proxies/report.lua`) on Redis's clock.
Processes report sums, a few each second; a strike is reported at once. Redis holds only the
proxies' ids, no address and no credential.

A Redis that loses its memory forgets health and quarantines: each banned proxy costs one more
request.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio as aredis
from redis.exceptions import RedisError

from scraper.errors import DeferredError
from scraper.infra.redis_clients import report_foreign
from scraper.infra.statements import lua
from scraper.rules.proxies import FORGIVEN_AFTER_S, QUARANTINES_S, STREAK_MAX, ProxyStats

# The host name that means the proxy as a whole.
EVERYWHERE = "*"
PREFIX = "scraper:proxies:"
KEPT_S = 14 * 86_400
# Pages come back after this when Redis does not answer.
AWAY_S = 5.0
FAILING = "failing"

_RULES = (
    round(FORGIVEN_AFTER_S * 1e6),
    KEPT_S,
    ",".join(str(round(step * 1e6)) for step in QUARANTINES_S),
)
_ROW = re.compile(r"(-?\d{1,16})" + r":(\d{1,16})" * 7 + r":([^\n]{0,500})")
# No script writes a longer quarantine.
_RESTS_MAX_US = 24 * 3600 * 1_000_000


@dataclass(slots=True)
class Tally:
    """What a process measured of a proxy at a host since its last report."""

    requests: int = 0
    answered: int = 0
    failed: int = 0
    latency_s: float = 0.0

    def add(self, other: Tally) -> None:
        self.requests += other.requests
        self.answered += other.answered
        self.failed += other.failed
        self.latency_s += other.latency_s


def health_key(host: str) -> str:
    return f"{PREFIX}{host}"


class ProxyHealth:
    """The fleet's knowledge, as one process asks for it. Raises `DeferredError` where Redis is
    away."""

    def __init__(self, client: aredis.Redis) -> None:
        self._strike = client.register_script(lua("proxies/stats.lua", "proxies/strike.lua"))
        self._report = client.register_script(lua("proxies/stats.lua", "proxies/report.lua"))
        self._read = client.register_script(lua("proxies/read.lua"))

    async def read(self, hosts: Iterable[str], now: float) -> dict[str, dict[str, ProxyStats]]:
        """Returns stats by host and proxy id. `free_at` is on the clock of `now`."""
        names = list(hosts)
        at, *replies = await _run_script(self._read, names, [])
        return {
            host: _decode_stats(raw, int(at), now) for host, raw in zip(names, replies, strict=True)
        }

    async def strike(self, host: str, proxy_id: str, why: str, least_s: float = 0.0) -> float:
        """Adds one strike, unless the proxy is in quarantine already. Returns the seconds that its
        quarantine lasts from now."""
        args: list[str | int] = [*_RULES, proxy_id, why, round(least_s * 1e6)]
        (lasts_us,) = await _run_script(self._strike, [host], args)
        return int(lasts_us) / 1e6

    async def report(self, host: str, tallies: Mapping[str, Tally]) -> None:
        """Adds `tallies` by proxy id. A streak of failures is a strike."""
        args: list[str | int] = [*_RULES, STREAK_MAX, FAILING]
        for proxy_id, tally in tallies.items():
            latency_us = round(tally.latency_s * 1e6)
            args += [proxy_id, tally.requests, tally.answered, tally.failed, latency_us]
        await _run_script(self._report, [host], args)


async def _run_script(
    script: Callable[..., Awaitable[list[Any]]], hosts: Sequence[str], args: list[str | int]
) -> list[Any]:
    """Returns the script's reply without the name of a foreign key."""
    try:
        first, foreign, *more = await script(keys=[health_key(host) for host in hosts], args=args)
    except RedisError as error:
        raise DeferredError(AWAY_S) from error
    report_foreign(foreign)
    return [first, *more]


def read_all_stats(client: redis.Redis) -> dict[str, dict[str, ProxyStats]]:
    """Returns all stats by host (`EVERYWHERE` for the proxies as a whole) and proxy id. `free_at`
    is in seconds from now, below 0 where it has passed."""
    keys = sorted(client.scan_iter(match=f"{PREFIX}*", count=1000))
    if not keys:
        return {}
    at, foreign, *replies = client.register_script(lua("proxies/read.lua"))(keys=keys)
    report_foreign(foreign)
    names = [key.decode("utf-8", "replace").removeprefix(PREFIX) for key in keys]
    return {
        host: _decode_stats(raw, int(at), 0.0) for host, raw in zip(names, replies, strict=True)
    }


def _decode_stats(raw: list[Any], at_us: int, now: float) -> dict[str, ProxyStats]:
    """Decodes one hash as `proxies/stats.lua` writes it; `at_us` by Redis's clock is `now` by the
    caller's."""
    stats = {}
    for proxy_id, text in zip(raw[::2], raw[1::2], strict=True):
        # What the scripts did not write counts as lost.
        if match := _ROW.fullmatch(text.decode("utf-8", "replace")):
            *words, why = match.groups()
            requests, answered, failed, _, latency, success, free_at, strikes = map(int, words)
            if free_at <= at_us + _RESTS_MAX_US:
                times = min(success / 1e6, 1.0), latency / 1e6, now + (free_at - at_us) / 1e6
                proxy_stats = ProxyStats(requests, answered, failed, *times, strikes, why)
                stats[proxy_id.decode("utf-8", "replace")] = proxy_stats
    return stats
