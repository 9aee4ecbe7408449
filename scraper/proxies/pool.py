"""The proxies as one worker process has them: lent, reported on, quarantined, and the identities
that last.

Chooses from what was read of the fleet's knowledge at most a few seconds ago, so that a page costs
no round trip; tells what it saw in sums (`keep`, every two seconds), and a strike at once. Refuses
to lend what is in quarantine, what is not on the list, and anything while Redis is away. There is
no answer "go without": it lends, or raises `NoProxyError`.

Identities (proxy, cookies, headers) are this process's own and in memory: two processes never share
one, and a process that ends takes its visitors with it. Those of accounts outlive it, and are kept
by `scraper.plugins.accounts.pool`: here an account only has a proxy of its own, the same in every
process.
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

from scraper.domain import ProxySignal
from scraper.errors import DeferredError, NoProxyError
from scraper.http.cookies import CookieJar
from scraper.http.proxy_route import ProxyRoute
from scraper.proxies.file import ProxyFile
from scraper.proxies.health import EVERYWHERE, ProxyHealth, Tally
from scraper.rules import proxies as policy
from scraper.rules.proxies import Proxy, ProxyChooser, ProxyNeed, ProxyStats, choose_for_account

log = structlog.get_logger()

KEPT_EVERY_S = 2.0
# Knowledge older than this is asked for again before a proxy is lent.
STALE_S = 10.0
# A host that nobody asked for so long is no longer read every time.
HOST_KEPT_S = 60.0
DOUBTS_MAX, AVOIDED_S = 3, 10.0
WAIT_MIN_S, WAIT_MAX_S = 5.0, 120.0
SAID_EVERY_S = 60.0
ACCOUNTS_MAX = 10_000


@dataclass(slots=True)
class _Identity:
    route: ProxyRoute
    until: float
    left: int


@dataclass(slots=True)
class _HostState:
    """What is known of one host."""

    at_host: dict[str, ProxyStats]
    read_at: float
    used_at: float


class ProxyPool:
    """One a process, on its loop. Times are `monotonic`."""

    def __init__(self, file: ProxyFile, health: ProxyHealth, rng: random.Random) -> None:
        self._file = file
        self._health = health
        self._rng = rng
        self._hosts: dict[str, _HostState] = {}
        self._whole: dict[str, ProxyStats] = {}
        self._choosers: dict[tuple[str, str | None, str], tuple[float, ProxyChooser]] = {}
        self._identities: dict[tuple[int, str, str | None], _Identity] = {}
        self._accounts: dict[tuple[str, str, str | None, str], tuple[ProxyChooser, Proxy]] = {}
        self._tallies: defaultdict[str, defaultdict[str, Tally]] = defaultdict(
            lambda: defaultdict(Tally)
        )
        self._doubts: defaultdict[str, dict[str, tuple[int, float]]] = defaultdict(dict)
        self._good: dict[tuple[str, str], float] = {}
        self._warned_at: dict[tuple[str, str | None, str], float] = {}
        self._reading = asyncio.Lock()
        self._in_use = False

    async def lend(self, need: ProxyNeed, host: str, without: Collection[str] = ()) -> ProxyRoute:
        """A proxy for one page of `host`, none of `without` (ids). Raises `NoProxyError` where none
        is free, and `DeferredError` where Redis is away."""
        self._use()
        state = await self._fresh(host)
        now = monotonic()
        state.used_at = now
        chooser = self._chooser(need, host, state, now)
        if need.account is not None:
            return self._steady(need, need.account, host, state, chooser, now, without)
        avoided = {*without, *self._suspects(host, now)}
        key = need.site_id, need.pool, need.region
        before = self._identities.get(key)
        if before is not None:
            if self._lasts(before, need, host, avoided, now):
                before.left -= 1
                return before.route
            del self._identities[key]
            # Another address follows, where there is a choice.
            avoided.add(before.route.proxy.id)
        proxy = chooser.draw(self._rng, avoided) or chooser.draw(self._rng, without)
        if proxy is None:
            raise self._none(need, host, state, now, without)
        if not need.sticky:
            return ProxyRoute(proxy)
        route = ProxyRoute(proxy, CookieJar())
        self._identities[key] = _Identity(route, now + need.sticky_s, need.sticky_requests - 1)
        return route

    def _steady(
        self,
        need: ProxyNeed,
        account: str,
        host: str,
        state: _HostState,
        chooser: ProxyChooser,
        now: float,
        without: Collection[str],
    ) -> ProxyRoute:
        """That of an account: its own for as long as that is free, whose cookies are the
        caller's."""
        key = account, need.pool, need.region, host
        before = self._accounts.get(key)
        if before is None or before[0] is not chooser or before[1].id in without:
            proxy = choose_for_account(
                account, [option for option in chooser.free if option.id not in without]
            )
            if proxy is None:
                raise self._none(need, host, state, now, without)
            if len(self._accounts) >= ACCOUNTS_MAX:
                self._accounts.clear()
            before = self._accounts[key] = chooser, proxy
        return ProxyRoute(before[1])

    def asked(self, route: ProxyRoute, host: str, requests: int = 1) -> None:
        """Requests that say nothing about the proxy, or about whom nobody can tell yet."""
        self._tallies[host][route.proxy.id].requests += requests

    def answered(self, route: ProxyRoute, host: str, latency_s: float, requests: int = 1) -> None:
        """A page that the host answered through it, in so many requests (redirects)."""
        tally = self._tallies[host][route.proxy.id]
        tally.requests += requests
        tally.answered += 1
        tally.latency_s += latency_s
        self._good[host, route.proxy.id] = monotonic()
        if host in self._doubts:
            self._doubts[host].pop(route.proxy.id, None)

    def good(self, route: ProxyRoute, host: str, since: float) -> bool:
        """True where this process got an answer from the host through it since then, and since its
        last quarantine."""
        return self._good.get((host, route.proxy.id), -1.0) > since

    def doubted(self, route: ProxyRoute, host: str) -> None:
        """No answer through it, and nobody knows yet why. After some in a row it is avoided for a
        moment."""
        count, _ = self._doubts[host].get(route.proxy.id, (0, 0.0))
        self._doubts[host][route.proxy.id] = count + 1, monotonic()

    def alive(self, host: str, since: float) -> bool:
        """True where the host has answered this process since then, through any proxy."""
        return any(at > since for (name, _), at in self._good.items() if name == host)

    def failed(self, route: ProxyRoute, host: str) -> None:
        """One request, counted by `asked` before, that it was to blame for. Several in a row are a
        strike."""
        self._tallies[host][route.proxy.id].failed += 1
        self._end(route)

    async def strike(self, route: ProxyRoute, host: str, why: str, least_s: float = 0.0) -> None:
        """Quarantine at once, for `host` (`EVERYWHERE`: for all): it was blocked, denied, or serves
        nobody. Once, however many pages and processes say so. What finds out blocks by other signs
        than a status calls this one."""
        self._end(route)
        now, proxy_id = monotonic(), route.proxy.id
        self._good.pop((host, proxy_id), None)
        try:
            rests_s = await self._health.strike(host, proxy_id, why, least_s)
        except DeferredError:
            # Redis is away, and lends nothing meanwhile; this process remembers by itself.
            rests_s = STALE_S
        healths = (
            self._whole
            if host == EVERYWHERE
            else self._hosts[host].at_host
            if host in self._hosts
            else None
        )
        if healths is not None:
            before = healths.get(proxy_id, ProxyStats())
            failed, free_at = before.failed + 1, now + rests_s
            healths[proxy_id] = replace(before, failed=failed, free_at=free_at, strikes=1, why=why)
        self._choosers.clear()
        log.info("proxy in quarantine", proxy=proxy_id, host=host, why=why, seconds=round(rests_s))

    async def run(self) -> None:
        """Keeps it until it is cancelled. Apart from the leases' keeper, which must not wait for a
        Redis that hangs."""
        while True:
            await asyncio.sleep(KEPT_EVERY_S)
            try:
                await self.keep()
            except Exception:
                log.exception("could not keep the proxies")

    async def tell_in(self, seconds: float) -> None:
        """Before the process ends: tells what was seen if that can be done in time."""
        with suppress(DeferredError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self.flush()

    async def keep(self) -> None:
        """Once: takes over a changed list, tells what was seen, reads what others saw. Raises
        nothing."""
        if not self._in_use:
            return
        self._look()
        now = monotonic()
        for host in [
            host for host, state in self._hosts.items() if now - state.used_at > HOST_KEPT_S
        ]:
            del self._hosts[host]
        for pair in [pair for pair in self._good if pair[0] not in self._hosts]:
            del self._good[pair]
        for host in [host for host in self._doubts if host not in self._hosts]:
            del self._doubts[host]
        for key in [key for key, lent in self._identities.items() if lent.until <= now]:
            del self._identities[key]
        try:
            await self.flush()
            if self._hosts:
                await self._read(list(self._hosts))
        except DeferredError:
            # What was seen is told later; what is known grows stale, and nothing is lent then.
            return

    async def flush(self) -> None:
        """Tells the fleet what was seen. Raises `DeferredError` where Redis is away; nothing is
        lost then."""
        for host in list(self._tallies):
            tallies = self._tallies.pop(host)
            try:
                await self._health.report(host, tallies)
            except DeferredError:
                for proxy_id, tally in tallies.items():
                    mine = self._tallies[host][proxy_id]
                    mine.requests += tally.requests
                    mine.answered += tally.answered
                    mine.failed += tally.failed
                    mine.latency_s += tally.latency_s
                raise

    def _use(self) -> None:
        # A process whose sites need no proxy never looks at the list.
        if not self._in_use:
            self._in_use = True
            self._look()

    def _look(self) -> None:
        version = self._file.version
        self._file.refresh()
        if self._file.version != version:
            self._choosers.clear()
            listed = {proxy.id: proxy for proxy in self._file.proxies}
            for key, lent in list(self._identities.items()):
                if listed.get(lent.route.proxy.id) != lent.route.proxy:
                    del self._identities[key]

    async def _fresh(self, host: str) -> _HostState:
        state = self._hosts.get(host)
        if state is None or monotonic() - state.read_at > STALE_S:
            async with self._reading:
                state = self._hosts.get(host)
                if state is None or monotonic() - state.read_at > STALE_S:
                    await self._read([host])
                    state = self._hosts[host]
        return state

    async def _read(self, hosts: list[str]) -> None:
        now = monotonic()
        healths = await self._health.read([EVERYWHERE, *hosts], now)
        self._whole = healths.pop(EVERYWHERE)
        for host, at_host in healths.items():
            state = self._hosts.get(host)
            self._hosts[host] = _HostState(at_host, now, state.used_at if state else now)
        self._choosers.clear()

    def _chooser(self, need: ProxyNeed, host: str, state: _HostState, now: float) -> ProxyChooser:
        key = need.pool, need.region, host
        # Quarantines end meanwhile, so that a chooser serves for a second.
        cached = self._choosers.get(key)
        if cached is None or now - cached[0] > 1.0:
            cached = self._choosers[key] = (
                now,
                ProxyChooser(self._fitting(need), state.at_host, self._whole, now),
            )
        return cached[1]

    def _fitting(self, need: ProxyNeed) -> list[Proxy]:
        return [
            proxy
            for proxy in self._file.proxies
            if proxy.pool == need.pool and need.region in (None, proxy.region)
        ]

    def _suspects(self, host: str, now: float) -> list[str]:
        doubts = self._doubts.get(host)
        if not doubts:
            return []
        return [
            proxy_id
            for proxy_id, (count, at) in doubts.items()
            if count >= DOUBTS_MAX and now - at < AVOIDED_S
        ]

    def _lasts(
        self, identity: _Identity, need: ProxyNeed, host: str, without: Collection[str], now: float
    ) -> bool:
        proxy = identity.route.proxy
        free = policy.free_at(proxy, self._hosts[host].at_host, self._whole) <= now
        lasts = identity.left > 0 and now < identity.until
        return need.sticky and lasts and free and proxy.id not in without

    def _end(self, route: ProxyRoute) -> None:
        """An identity whose proxy failed is over: a visitor does not change their address in the
        middle of a visit."""
        for key, lent in list(self._identities.items()):
            if lent.route is route:
                del self._identities[key]

    def _none(
        self, need: ProxyNeed, host: str, state: _HostState, now: float, without: Collection[str]
    ) -> NoProxyError:
        fitting = self._fitting(need)
        which = f"no {need.pool} proxy" + (f" in {need.region}" if need.region else "")
        if self._file.path is None:
            return NoProxyError(f"{which}: this worker has no PROXY_LIST", WAIT_MAX_S)
        if not fitting:
            return NoProxyError(f"{which} is on the list", WAIT_MAX_S)
        if without and any(
            policy.free_at(proxy, state.at_host, self._whole) <= now for proxy in fitting
        ):
            return NoProxyError(f"no further {need.pool} proxy is free for {host}", WAIT_MIN_S)
        wait_s = min(policy.free_at(proxy, state.at_host, self._whole) for proxy in fitting) - now
        reasons: defaultdict[str, int] = defaultdict(int)
        for proxy in fitting:
            at_host, whole = (
                state.at_host.get(proxy.id, ProxyStats()),
                self._whole.get(proxy.id, ProxyStats()),
            )
            reasons[(at_host if at_host.free_at > whole.free_at else whole).why] += 1
        counts = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
        reason = f"{which} is free for {host}: all {len(fitting)} are in quarantine ({counts})"
        if now - self._warned_at.get((need.pool, need.region, host), -SAID_EVERY_S) >= SAID_EVERY_S:
            self._warned_at[need.pool, need.region, host] = now
            log.warning(
                "no proxy left, pages wait",
                pool=need.pool,
                region=need.region,
                host=host,
                reason=reason,
            )
        return NoProxyError(
            reason,
            min(max(wait_s, WAIT_MIN_S), WAIT_MAX_S),
            blocked=self._banned(fitting, state, now),
        )

    def _banned(self, fitting: list[Proxy], state: _HostState, now: float) -> bool:
        """Whether the host has blocked every proxy that serves anybody."""
        alive = [
            proxy for proxy in fitting if self._whole.get(proxy.id, ProxyStats()).free_at <= now
        ]
        return bool(alive) and all(
            state.at_host.get(proxy.id, ProxyStats()).why == ProxySignal.BLOCKED.value
            for proxy in alive
        )
