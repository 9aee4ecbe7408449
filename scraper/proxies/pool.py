"""The proxies of one worker process: lends them, reports on them, quarantines them, and keeps
identities that last.

It chooses by stats of the fleet that are at most a few seconds old, so that a page costs no round
trip. It reports sums every two seconds (`refresh`), and strikes at once. It never lends a proxy in
quarantine or off the list, nor any while Redis is away: `lend` returns a proxy or raises
`NoProxyError`, and never lets a page go without one.

Identities (proxy, cookies, headers) belong to this process and stay in memory: two processes never
share one, and they end with the process. Those of accounts outlive it, and
`scraper.plugins.accounts.pool` keeps them: here an account only has a proxy of its own, the same in
every process.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic

import structlog

from scraper.errors import DeferredError, NoProxyError
from scraper.http.cookies import CookieJar
from scraper.http.proxy_route import ProxyRoute
from scraper.proxies.file import ProxyFile
from scraper.proxies.health import EVERYWHERE, ProxyHealth, Tally
from scraper.proxies.shortage import WAIT_MAX_S, WAIT_MIN_S, describe_pool, explain_quarantines
from scraper.rules import proxies as policy
from scraper.rules.proxies import Proxy, ProxyChooser, ProxyNeed, ProxyStats, choose_for_account

log = structlog.get_logger()

REFRESHED_EVERY_S = 2.0
# Stats older than this are read again before a proxy is lent.
STALE_S = 10.0
# The stats of a host that no page needed for this long are no longer read.
HOST_KEPT_S = 60.0
# Quarantines end, so a chooser serves for this long.
CHOOSER_KEPT_S = 1.0
# After this many unexplained failures in a row a proxy is avoided for a while.
DOUBTS_MAX, AVOIDED_S = 3, 10.0
WARNED_EVERY_S = 60.0
ACCOUNTS_MAX = 10_000


@dataclass(slots=True)
class _Identity:
    route: ProxyRoute
    until: float
    left: int


@dataclass(slots=True)
class _ProxiesAtHost:
    """The proxies' stats at one host."""

    stats: dict[str, ProxyStats]
    read_at: float
    used_at: float


class ProxyPool:
    """One for each process, on its loop. Times are `monotonic`."""

    def __init__(self, file: ProxyFile, health: ProxyHealth, rng: random.Random) -> None:
        self._file = file
        self._health = health
        self._rng = rng
        self._hosts: dict[str, _ProxiesAtHost] = {}
        self._everywhere: dict[str, ProxyStats] = {}
        self._choosers: dict[tuple[str, str | None, str], tuple[float, ProxyChooser]] = {}
        self._identities: dict[tuple[int, str, str | None], _Identity] = {}
        self._accounts: dict[tuple[str, str, str | None, str], tuple[ProxyChooser, Proxy]] = {}
        self._tallies: defaultdict[str, defaultdict[str, Tally]] = defaultdict(
            lambda: defaultdict(Tally)
        )
        self._doubts: defaultdict[str, dict[str, tuple[int, float]]] = defaultdict(dict)
        # When a host last answered through a proxy.
        self._answered_at: dict[tuple[str, str], float] = {}
        self._warned_at: dict[tuple[str, str | None, str], float] = {}
        self._reading = asyncio.Lock()
        self._in_use = False

    async def lend(self, need: ProxyNeed, host: str, without: Collection[str] = ()) -> ProxyRoute:
        """Returns a proxy for one page of `host`, none of `without` (ids). Raises `NoProxyError`
        where none is free, and `DeferredError` where Redis is away."""
        self._start_using()
        at_host = await self._read_if_stale(host)
        now = at_host.used_at = monotonic()
        chooser = self._get_chooser(need, host, at_host, now)
        if need.account is not None:
            return self._lend_to_account(need, need.account, host, chooser, now, without)
        avoided = {*without, *self._list_suspects(host, now)}
        key = need.site_id, need.pool, need.region
        identity = self._identities.get(key)
        if identity is not None:
            if self._is_reusable(identity, need, host, avoided, now):
                identity.left -= 1
                return identity.route
            del self._identities[key]
            # The next identity has another address, where there is a choice.
            avoided.add(identity.route.proxy.id)
        proxy = chooser.draw(self._rng, avoided) or chooser.draw(self._rng, without)
        if proxy is None:
            raise self._explain_shortage(need, host, now, without)
        if not need.sticky:
            return ProxyRoute(proxy)
        route = ProxyRoute(proxy, CookieJar())
        self._identities[key] = _Identity(route, now + need.sticky_s, need.sticky_requests - 1)
        return route

    def record_requests(self, route: ProxyRoute, host: str, requests: int = 1) -> None:
        """Records requests that say nothing about the proxy, or not yet."""
        self._tallies[host][route.proxy.id].requests += requests

    def record_success(
        self, route: ProxyRoute, host: str, latency_s: float, requests: int = 1
    ) -> None:
        """Records a page that the host answered through the proxy; redirects are `requests`,
        too."""
        proxy_id = route.proxy.id
        tally = self._tallies[host][proxy_id]
        tally.requests += requests
        tally.answered += 1
        tally.latency_s += latency_s
        self._answered_at[host, proxy_id] = monotonic()
        if host in self._doubts:
            self._doubts[host].pop(proxy_id, None)

    def record_doubt(self, route: ProxyRoute, host: str) -> None:
        """Records a failure that may be the proxy's fault, the host's or the page's. After
        `DOUBTS_MAX` in a row the proxy is avoided for a moment."""
        count, _ = self._doubts[host].get(route.proxy.id, (0, 0.0))
        self._doubts[host][route.proxy.id] = count + 1, monotonic()

    def record_failure(self, route: ProxyRoute, host: str) -> None:
        """Records that the proxy was at fault for a request that `record_requests` has counted.
        Several in a row are a strike."""
        self._tallies[host][route.proxy.id].failed += 1
        self._end_identity(route)

    def has_answered(self, route: ProxyRoute, host: str, since: float) -> bool:
        """Returns whether the host answered this process through the proxy after `since`, and after
        the proxy's last quarantine."""
        return self._answered_at.get((host, route.proxy.id), -1.0) > since

    def is_host_up(self, host: str, since: float) -> bool:
        """Returns whether the host answered this process through any proxy after `since`."""
        return any(at > since for (name, _), at in self._answered_at.items() if name == host)

    async def strike(self, route: ProxyRoute, host: str, why: str, least_s: float = 0.0) -> None:
        """Quarantines the proxy for `host` at once (`EVERYWHERE`: for all hosts), because it was
        blocked, denied or does not work. Any number of pages and processes cause one strike."""
        self._end_identity(route)
        now, proxy_id = monotonic(), route.proxy.id
        self._answered_at.pop((host, proxy_id), None)
        try:
            rests_s = await self._health.strike(host, proxy_id, why, least_s)
        except DeferredError:
            # While Redis is away, nothing is lent; until then this process remembers.
            rests_s = STALE_S
        stats = self._get_stats(host)
        if stats is not None:
            before = stats.get(proxy_id, policy.NO_STATS)
            failed, free_at = before.failed + 1, now + rests_s
            stats[proxy_id] = replace(before, failed=failed, free_at=free_at, strikes=1, why=why)
        self._choosers.clear()
        log.info("proxy in quarantine", proxy=proxy_id, host=host, why=why, seconds=round(rests_s))

    async def run(self) -> None:
        """Refreshes the pool until it is cancelled. It runs apart from the keeper of leases, which
        must not wait for a Redis that hangs."""
        while True:
            await asyncio.sleep(REFRESHED_EVERY_S)
            try:
                await self.refresh()
            except Exception:
                log.exception("cannot refresh the proxies")

    async def flush_within(self, seconds: float) -> None:
        """Reports the tallies before the process ends, if that can be done in time."""
        with suppress(DeferredError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self.flush()

    async def refresh(self) -> None:
        """Loads a changed list, reports tallies, and reads the fleet's stats. Never raises."""
        if not self._in_use:
            return
        self._reload_list()
        self._drop_expired(monotonic())
        try:
            await self.flush()
            if self._hosts:
                await self._read_stats(list(self._hosts))
        except DeferredError:
            # Tallies are reported later; stats grow stale, and then nothing is lent.
            return

    async def flush(self) -> None:
        """Reports the tallies to the fleet. Raises `DeferredError` where Redis is away, and keeps
        them."""
        for host in list(self._tallies):
            tallies = self._tallies.pop(host)
            try:
                await self._health.report(host, tallies)
            except DeferredError:
                for proxy_id, tally in tallies.items():
                    self._tallies[host][proxy_id].add(tally)
                raise

    def _start_using(self) -> None:
        # A process whose sites need no proxy never reads the list.
        if not self._in_use:
            self._in_use = True
            self._reload_list()

    def _reload_list(self) -> None:
        version = self._file.version
        self._file.refresh()
        if self._file.version != version:
            self._choosers.clear()
            listed = {proxy.id: proxy for proxy in self._file.proxies}
            for key, identity in list(self._identities.items()):
                if listed.get(identity.route.proxy.id) != identity.route.proxy:
                    del self._identities[key]

    def _drop_expired(self, now: float) -> None:
        hosts = {
            host: at_host
            for host, at_host in self._hosts.items()
            if now - at_host.used_at <= HOST_KEPT_S
        }
        self._hosts = hosts
        for pair in [pair for pair in self._answered_at if pair[0] not in hosts]:
            del self._answered_at[pair]
        for host in [host for host in self._doubts if host not in hosts]:
            del self._doubts[host]
        for key in [key for key, lent in self._identities.items() if lent.until <= now]:
            del self._identities[key]

    async def _read_if_stale(self, host: str) -> _ProxiesAtHost:
        at_host = self._hosts.get(host)
        if at_host is None or monotonic() - at_host.read_at > STALE_S:
            async with self._reading:
                at_host = self._hosts.get(host)
                if at_host is None or monotonic() - at_host.read_at > STALE_S:
                    await self._read_stats([host])
                    at_host = self._hosts[host]
        return at_host

    async def _read_stats(self, hosts: list[str]) -> None:
        now = monotonic()
        by_host = await self._health.read([EVERYWHERE, *hosts], now)
        self._everywhere = by_host.pop(EVERYWHERE)
        for host, stats in by_host.items():
            before = self._hosts.get(host)
            self._hosts[host] = _ProxiesAtHost(stats, now, before.used_at if before else now)
        self._choosers.clear()

    def _get_stats(self, host: str) -> dict[str, ProxyStats] | None:
        if host == EVERYWHERE:
            return self._everywhere
        at_host = self._hosts.get(host)
        return at_host.stats if at_host is not None else None

    def _get_chooser(
        self, need: ProxyNeed, host: str, at_host: _ProxiesAtHost, now: float
    ) -> ProxyChooser:
        key = need.pool, need.region, host
        cached = self._choosers.get(key)
        if cached is None or now - cached[0] > CHOOSER_KEPT_S:
            fitting = self._list_fitting(need)
            chooser = ProxyChooser(fitting, at_host.stats, self._everywhere, now)
            cached = self._choosers[key] = now, chooser
        return cached[1]

    def _list_fitting(self, need: ProxyNeed) -> list[Proxy]:
        return [
            proxy
            for proxy in self._file.proxies
            if proxy.pool == need.pool and need.region in (None, proxy.region)
        ]

    def _list_suspects(self, host: str, now: float) -> list[str]:
        return [
            proxy_id
            for proxy_id, (count, at) in self._doubts.get(host, {}).items()
            if count >= DOUBTS_MAX and now - at < AVOIDED_S
        ]

    def _lend_to_account(
        self,
        need: ProxyNeed,
        account: str,
        host: str,
        chooser: ProxyChooser,
        now: float,
        without: Collection[str],
    ) -> ProxyRoute:
        """Returns the account's own proxy while it is free; its cookies are the caller's."""
        key = account, need.pool, need.region, host
        cached = self._accounts.get(key)
        if cached is None or cached[0] is not chooser or cached[1].id in without:
            free = [proxy for proxy in chooser.free if proxy.id not in without]
            proxy = choose_for_account(account, free)
            if proxy is None:
                raise self._explain_shortage(need, host, now, without)
            if len(self._accounts) >= ACCOUNTS_MAX:
                self._accounts.clear()
            cached = self._accounts[key] = chooser, proxy
        return ProxyRoute(cached[1])

    def _is_reusable(
        self, identity: _Identity, need: ProxyNeed, host: str, avoided: Collection[str], now: float
    ) -> bool:
        proxy = identity.route.proxy
        free_at = policy.free_at(proxy, self._hosts[host].stats, self._everywhere)
        lasts = identity.left > 0 and now < identity.until
        return need.sticky and lasts and free_at <= now and proxy.id not in avoided

    def _end_identity(self, route: ProxyRoute) -> None:
        """Ends the identity of a proxy that failed: a visitor does not change address in the middle
        of a visit."""
        for key, identity in list(self._identities.items()):
            if identity.route is route:
                del self._identities[key]

    def _explain_shortage(
        self, need: ProxyNeed, host: str, now: float, without: Collection[str]
    ) -> NoProxyError:
        fitting, stats = self._list_fitting(need), self._hosts[host].stats
        if self._file.path is None:
            return NoProxyError(f"{describe_pool(need)}: this worker has no PROXY_LIST", WAIT_MAX_S)
        if not fitting:
            return NoProxyError(f"{describe_pool(need)} is on the list", WAIT_MAX_S)
        if without and any(
            policy.free_at(proxy, stats, self._everywhere) <= now for proxy in fitting
        ):
            return NoProxyError(f"no further {need.pool} proxy is free for {host}", WAIT_MIN_S)
        shortage = explain_quarantines(need, host, fitting, stats, self._everywhere, now)
        self._warn_of_shortage(need, host, shortage.reason, now)
        return shortage

    def _warn_of_shortage(self, need: ProxyNeed, host: str, reason: str, now: float) -> None:
        key = need.pool, need.region, host
        if now - self._warned_at.get(key, -WARNED_EVERY_S) < WARNED_EVERY_S:
            return
        self._warned_at[key] = now
        log.warning(
            "no proxy left, pages wait",
            pool=need.pool,
            region=need.region,
            host=host,
            reason=reason,
        )
