"""A page's way through proxies: which one, what a failure says about it, and when another one is
tried.

Some failures are the proxy's for certain: no connection to it, its login, its refusal to go to that
host. All others are in doubt: a timeout or a 403 may be the proxy's doing, the host's or the
page's. So another proxy is asked. If it gets an answer, the first one was at fault. If `AGREE`
different proxies say the same (more while the host has answered no proxy), or all there are, the
page or its host is at fault, and is judged and charged as if there were no proxies. Suspicions
outlast a visit, since a proxy that hung may have used up its time.

A shop that bans the whole pool looks like a page that is forbidden to every visitor. So a 403 on
which all agree is believed once one of these proxies has been served another page since; where none
has, for some visits of the page, the proxies are banned. And a failure on which three agree is
their fault where the host serves other proxies, but none of the three.

A page that lacks a field, or has the body of another page, is in doubt like a failure
(`scraper.proxies.contents`). Two that agree suffice there, if one of them has given a whole page.

A page that only meets faults of proxies goes back uncharged, the first time at once, then after
longer and longer waits. It never dies of them: a crawl in which nothing else happens ends after
`SCRAPER_STALLED_S`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import assert_never

from xxhash import xxh3_64_intdigest

from scraper.domain import Fetched, Kind, LeasedPage, Outcome, ProxySignal
from scraper.errors import DeferredError, FetchError, NoProxyError
from scraper.http.proxy_route import ProxyRoute
from scraper.proxies.contents import ProxyContents, store_newest
from scraper.proxies.health import EVERYWHERE
from scraper.proxies.pool import ProxyPool
from scraper.proxies.rotation_state import (
    CONTENT_SIGNALS,
    ProxyAnswer,
    RotationState,
    RotationStep,
    Suspicion,
    choose_step,
    is_strike,
)
from scraper.rules.blocks import Block
from scraper.rules.proxies import ProxyNeed, answer_signal, fault_wait_s
from scraper.rules.verdict import retry_after_s

# A page goes back from this many visits while it is open whether it or its proxies are blocked.
VISITS_BLOCKED = 2
# A host that has answered any proxy within this is up.
ALIVE_S = 60.0
PAGES_MAX = 20_000
# The sign of a block for a page that no proxy was free to request.
PROXIES_BANNED = "proxies-banned"
THROTTLED_S, THROTTLED_MAX_S = 30.0, 1800.0
_IN_DOUBT = frozenset({Outcome.TIMEOUT, Outcome.UNREACHABLE, Outcome.TLS, Outcome.MALFORMED})
_NOT_SENT = frozenset(
    {Outcome.ROBOTS_DISALLOWED, Outcome.ROBOTS_UNAVAILABLE, Outcome.FORBIDDEN_ADDRESS}
)

Get = Callable[[ProxyRoute], Awaitable[Fetched]]
BlockOf = Callable[[Fetched], Block | None]
Final = Callable[[Fetched | FetchError], bool]
# Returns what an answer lacks that its page should have; "" for nothing.
Lacks = Callable[[Fetched], Awaitable[str]]


class ProxyRotation:
    """One for each process. Suspicions and faults are by page, and bounded: a page whose entry was
    dropped is requested again."""

    def __init__(self, pool: ProxyPool) -> None:
        self._pool = pool
        self._suspicions: OrderedDict[int, dict[str, Suspicion]] = OrderedDict()
        self._faults: OrderedDict[int, int] = OrderedDict()
        self._contents = ProxyContents()

    async def fetch(
        self,
        page: LeasedPage,
        need: ProxyNeed,
        get: Get,
        *,
        block_of: BlockOf,
        can_go_up: bool = False,
        page_alone: bool = False,
        final: Final = lambda _: False,
        lacks: Lacks | None = None,
    ) -> Fetched:
        """Returns the page by `get`, through one proxy after the other.

        Raises what `get` raises where that is not a proxy's fault, FetchError(PROXY_FAILED) where
        it is, and `NoProxyError`. `lacks` is asked about each answer that may be the page.
        `can_go_up`: a blocked page has a higher level to go to, so it does not wait for certainty
        whether it or its proxies are blocked. `page_alone`: the host serves other pages at a
        cheaper level, so the block means this page. `final`: no other proxy is asked after these
        answers, whatever is at fault.
        """
        suspicions = self._suspicions.get(page.id, {})
        state = RotationState(monotonic(), can_go_up, page_alone, suspicions, {*suspicions})
        while True:
            try:
                route = await self._lend_proxy(page, need, state)
            except NoProxyError as shortage:
                return await self._decide_without_proxy(page, state, shortage)
            state.tried.add(route.proxy.id)
            answer = await self._ask_proxy(page, state, route, get, block_of)
            if lacks is not None and isinstance(answer.result, Fetched):
                answer = await self._compare_content(page, state, answer, answer.result, lacks)
            if answer.signal is ProxySignal.ANSWERED and isinstance(answer.result, Fetched):
                await self._accept_page(
                    page, state, route, answer.result, compared=lacks is not None
                )
                return answer.result
            if answer.requests:
                self._pool.record_requests(route, page.host, answer.requests)
            if answer.signal is ProxySignal.NEUTRAL:
                return _return_or_raise(answer.result)
            settled = await self._handle_doubt(page, state, answer, final=final(answer.result))
            if settled is not None:
                return settled

    async def _handle_doubt(
        self, page: LeasedPage, state: RotationState, answer: ProxyAnswer, *, final: bool
    ) -> Fetched | None:
        """Returns the page, or raises its failure, where this answer settles it; None where another
        proxy is asked."""
        state.add(answer)
        await self._suspect_proxy(page, state, answer)
        match self._choose_step(page, state, final=final):
            case RotationStep.END:
                self._suspicions.pop(page.id, None)
                return _return_or_raise(answer.result)
            case RotationStep.AGREED:
                return await self._settle_agreement(page, state)
            case RotationStep.GO_BACK:
                raise self._charge_proxies(page, state)
            case RotationStep.ANOTHER:
                return None
            case never:
                assert_never(never)

    def _choose_step(self, page: LeasedPage, state: RotationState, *, final: bool) -> RotationStep:
        return choose_step(
            state,
            final=final,
            host_alive=self._is_alive(page.host),
            now=monotonic(),
            trusted=state.lacking and self._is_lack_trusted(page, state),
        )

    async def _lend_proxy(
        self, page: LeasedPage, need: ProxyNeed, state: RotationState
    ) -> ProxyRoute:
        try:
            return await self._pool.lend(need, page.host, state.tried)
        except NoProxyError:
            if state.reasons or not state.tried:
                raise
            # All free proxies were suspected in earlier visits: this is one last try.
            return await self._pool.lend(need, page.host)

    async def _ask_proxy(
        self, page: LeasedPage, state: RotationState, route: ProxyRoute, get: Get, block_of: BlockOf
    ) -> ProxyAnswer:
        """Returns what came through one proxy. Raises where the page has to wait."""
        try:
            fetched = await get(route)
        except DeferredError as deferred:
            if not state.reasons:
                raise
            raise self._charge_proxies(page, state, deferred.delay_s) from None
        except FetchError as error:
            in_doubt = ProxySignal.FAILED if error.outcome in _IN_DOUBT else ProxySignal.NEUTRAL
            sent = int(error.outcome not in _NOT_SENT)
            return ProxyAnswer(route, error, error.signal or in_doubt, str(error), sent)
        block = block_of(fetched)
        signal = answer_signal(
            fetched.status, fetched.headers, fetched.url, route.proxy, blocked=block is not None
        )
        text = str(block) if block else f"the answer was {fetched.status}"
        return ProxyAnswer(route, fetched, signal, text, fetched.redirects + 1)

    async def _compare_content(
        self,
        page: LeasedPage,
        state: RotationState,
        answer: ProxyAnswer,
        fetched: Fetched,
        lacks: Lacks,
    ) -> ProxyAnswer:
        """Returns the answer, in doubt where the page lacks something or has the body of another
        page. A body that two proxies get for one page is the shop's."""
        if answer.signal is not ProxySignal.ANSWERED or fetched.status != 200 or fetched.same:
            return answer
        host, proxy_id = page.host, answer.route.proxy.id
        body, missing = xxh3_64_intdigest(fetched.body), await lacks(fetched)
        self._clear_suspects_with(body, page, state, proxy_id, missing=bool(missing))
        other = self._contents.find_repeat(host, proxy_id, body, fetched.url)
        if other is not None:
            text = f"the same {len(fetched.body):,} bytes as for {other}"
            return replace(answer, signal=ProxySignal.REPEATED, text=text, body=body)
        if missing:
            return replace(answer, signal=ProxySignal.LACKING, text=missing, body=body)
        return answer

    def _clear_suspects_with(
        self, body: int, page: LeasedPage, state: RotationState, proxy_id: str, *, missing: bool
    ) -> None:
        """Clears the proxies that got the body which `proxy_id` has got, too; if the page lacks
        something, that stays in doubt."""
        confirmed = [
            suspicion
            for suspicion in state.suspicions.values()
            if suspicion.body == body and suspicion.route.proxy.id != proxy_id
        ]
        if confirmed:
            self._contents.record_shop_repeat(page.host, body)
        for suspicion in confirmed:
            suspect_id = suspicion.route.proxy.id
            if missing:
                state.suspicions[suspect_id] = replace(suspicion, signal=ProxySignal.LACKING)
            else:
                del state.suspicions[suspect_id]

    async def _suspect_proxy(
        self, page: LeasedPage, state: RotationState, answer: ProxyAnswer
    ) -> None:
        """Quarantines a proxy that is at fault for certain; suspects any other one."""
        route, signal = answer.route, answer.signal
        match signal:
            case ProxySignal.UNUSABLE:
                await self._pool.strike(route, EVERYWHERE, signal.value)
            case ProxySignal.DENIED:
                await self._pool.strike(route, page.host, signal.value)
            case _:
                if signal not in CONTENT_SIGNALS:
                    self._pool.record_doubt(route, page.host)
                suspicion = Suspicion(route, signal, monotonic(), answer.body)
                state.suspicions[route.proxy.id] = suspicion
                store_newest(self._suspicions, page.id, state.suspicions, PAGES_MAX)

    async def _accept_page(
        self,
        page: LeasedPage,
        state: RotationState,
        route: ProxyRoute,
        fetched: Fetched,
        *,
        compared: bool,
    ) -> None:
        """The page is reachable, so the proxies that failed on it are at fault. `compared`: the
        page's content is known to be whole."""
        if compared:
            product = page.kind is Kind.PRODUCT
            self._contents.record_whole(page.host, route.proxy.id, product=product)
        self._record_success(page, route, fetched)
        if fetched.status == 429:
            await self._throttle_proxy(page, route, fetched)
        if state.suspicions:
            self._suspicions.pop(page.id, None)
            for suspicion in state.suspicions.values():
                if suspicion.route.proxy.id != route.proxy.id:
                    await self._convict_proxy(page, suspicion)

    def _record_success(self, page: LeasedPage, route: ProxyRoute, fetched: Fetched) -> None:
        requests = fetched.redirects + 1
        self._pool.record_success(route, page.host, fetched.elapsed_s / requests, requests)
        self._faults.pop(page.id, None)

    async def _throttle_proxy(self, page: LeasedPage, route: ProxyRoute, fetched: Fetched) -> None:
        """Quarantines a proxy that the host asks to slow down, for at least as long as it asks."""
        least_s = retry_after_s(fetched.headers, datetime.now(UTC)) or THROTTLED_S
        await self._pool.strike(route, page.host, "throttled", min(least_s, THROTTLED_MAX_S))

    async def _convict_proxy(self, page: LeasedPage, suspicion: Suspicion) -> None:
        """Charges a proxy that failed on a page which another proxy got (`is_strike`)."""
        route, signal = suspicion.route, suspicion.signal
        if signal is not ProxySignal.BLOCKED:
            self._pool.record_failure(route, page.host)
        clearly_worse = signal is ProxySignal.LACKING and self._contents.record_bad(
            page.host, route.proxy.id
        )
        if is_strike(signal, clearly_worse=clearly_worse):
            await self._pool.strike(route, page.host, signal.value)

    async def _decide_without_proxy(
        self, page: LeasedPage, state: RotationState, shortage: NoProxyError
    ) -> Fetched:
        """Decides by what this visit has met, since no further proxy is free."""
        if state.reasons:
            if state.suspicions and state.result is not None:
                return await self._settle_agreement(page, state)
            raise self._charge_proxies(page, state) from None
        if state.can_go_up and shortage.blocked:
            raise FetchError(
                Outcome.BLOCKED, shortage.reason, url=page.url, sign=PROXIES_BANNED
            ) from None
        raise shortage

    async def _settle_agreement(self, page: LeasedPage, state: RotationState) -> Fetched:
        """Returns or raises what all proxies say, or raises FetchError(PROXY_FAILED) where they may
        be at fault. A block with a higher level to go to ends the visit either way, and counts
        against the proxies where it is not believed."""
        assert state.result is not None
        many_visits = self._faults.get(page.id, 0) >= VISITS_BLOCKED
        believed = self._is_believed(page, state, many_visits=many_visits)
        if believed or (state.blocked and state.can_go_up):
            self._suspicions.pop(page.id, None)
            self._faults.pop(page.id, None)
            if state.lacking and page.kind is Kind.PRODUCT:
                self._contents.record_lack(page.host)
            if not believed:
                for suspicion in list(state.suspicions.values()):
                    await self._pool.strike(suspicion.route, page.host, ProxySignal.BLOCKED.value)
            return _return_or_raise(state.result)
        for suspicion in list(state.suspicions.values()):
            if many_visits and suspicion.signal is ProxySignal.BLOCKED:
                await self._pool.strike(suspicion.route, page.host, suspicion.signal.value)
            elif suspicion.signal not in CONTENT_SIGNALS:
                self._pool.record_failure(suspicion.route, page.host)
        if many_visits:
            self._suspicions.pop(page.id, None)
        raise self._charge_proxies(page, state)

    def _is_believed(self, page: LeasedPage, state: RotationState, *, many_visits: bool) -> bool:
        """Returns whether what all proxies say is true of the page or its host.

        A block is, if one of them has been served since (after many visits: at all). A failure is,
        unless the host serves other proxies and none of these.
        """
        if state.blocked:
            return state.page_alone or any(
                self._pool.has_answered(
                    suspicion.route, page.host, 0.0 if many_visits else suspicion.at
                )
                for suspicion in state.suspicions.values()
            )
        if not self._is_alive(page.host):
            return True
        if state.lacking:
            return many_visits or self._is_lack_trusted(page, state)
        return self._has_any_answered(page, state)

    def _is_lack_trusted(self, page: LeasedPage, state: RotationState) -> bool:
        """Returns whether a proxy that got an incomplete page gives whole ones elsewhere, or no
        proxy does."""
        return self._contents.site_lacks(page.host) or self._has_any_answered(page, state)

    def _has_any_answered(self, page: LeasedPage, state: RotationState) -> bool:
        return any(
            self._pool.has_answered(suspicion.route, page.host, 0.0)
            for suspicion in state.suspicions.values()
        )

    def _is_alive(self, host: str) -> bool:
        return self._pool.is_host_up(host, monotonic() - ALIVE_S)

    def _charge_proxies(
        self, page: LeasedPage, state: RotationState, least_s: float = 0.0
    ) -> FetchError:
        """Returns the error that sends the page back uncharged, later each time."""
        count = self._faults.get(page.id, 0)
        store_newest(self._faults, page.id, count + 1, PAGES_MAX)
        return FetchError(
            Outcome.PROXY_FAILED,
            "; ".join(state.reasons),
            url=page.url,
            retry_after_s=max(least_s, fault_wait_s(count)),
        )


def _return_or_raise(result: Fetched | FetchError) -> Fetched:
    if isinstance(result, FetchError):
        raise result
    return result
