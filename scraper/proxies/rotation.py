"""A page's way through proxies: which one, what a failure says of it, and when another one is
tried.

What a proxy does wrong for certain (no connection, its login, its refusal to go there) is its own.
All else is in doubt: a timeout or a 403 may be the proxy's doing, the host's or the page's. So
another proxy is asked. If it gets an answer, the first one was to blame; if `AGREE` different ones
(more while the host has answered nobody), or all there are, say the same, it is the page's or its
host's, and is judged and charged as if there were no proxies. Doubts outlast a visit, since one
that hung may have used up its time.

A shop that bans the whole pool looks like a page that is forbidden to everybody. So a 403 on which
all agree is believed once one of them has been served another page since; where none has, for some
visits of the page, they are banned. And a failure on which three agree is theirs where the host
serves others, but none of the three.

A page without what it should have, or with the body of another page, is in doubt like a failure
(`scraper.proxies.contents`). Two that agree suffice there, if one of them has given a whole page.

A page that only meets faults of proxies goes back uncharged, the first time at once, then after
longer and longer waits. It never dies of them: a crawl in which nothing else happens ends after
`SCRAPER_STALLED_S`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from time import monotonic
from typing import assert_never

from xxhash import xxh3_64_intdigest

from scraper.domain import Fetched, Kind, LeasedPage, Outcome, ProxySignal
from scraper.errors import DeferredError, FetchError, NoProxyError
from scraper.http.proxy_route import ProxyRoute
from scraper.proxies.contents import ProxyContents, store_newest
from scraper.proxies.health import EVERYWHERE
from scraper.proxies.pool import ProxyPool
from scraper.rules.blocks import Block
from scraper.rules.proxies import ProxyNeed, answer_signal, fault_wait_s
from scraper.rules.verdict import retry_after_s

AGREE = 3
# Where the host has answered nobody yet, a few bad proxies may be the first that are drawn.
AGREE_BLIND = 5
# Of a page that lacks something, one of them known to give whole pages.
AGREE_LACKING = 2
TRIES_MAX = 5  # proxies in one visit
# A page that has taken longer in one visit goes back first.
RETRY_WITHIN_S = 10.0
# A page goes back from so many visits while nobody can say whether it or its proxies are blocked.
VISITS_BLOCKED = 2
# A host that has answered anybody within this is up.
ALIVE_S = 60.0
PAGES_MAX = 20_000
# This is the sign of a block that nobody was asked for.
PROXIES_BANNED = "proxies-banned"
THROTTLED_S, THROTTLED_MAX_S = 30.0, 1800.0
_IN_DOUBT = frozenset({Outcome.TIMEOUT, Outcome.UNREACHABLE, Outcome.TLS, Outcome.MALFORMED})
_NOT_SENT = frozenset(
    {Outcome.ROBOTS_DISALLOWED, Outcome.ROBOTS_UNAVAILABLE, Outcome.FORBIDDEN_ADDRESS}
)
_CONTENT = frozenset({ProxySignal.LACKING, ProxySignal.REPEATED})

Get = Callable[[ProxyRoute], Awaitable[Fetched]]
BlockOf = Callable[[Fetched], Block | None]
Final = Callable[[Fetched | FetchError], bool]
# It says what an answer lacks that its page should have; "": nothing.
Lacks = Callable[[Fetched], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Suspicion:
    route: ProxyRoute
    signal: ProxySignal
    at: float
    body: int = 0


@dataclass(slots=True)
class RotationState:
    """One visit of a page so far. `doubts` are by proxy, of earlier visits too; `reasons` say what
    went wrong in this one; `result` is what an agreement would come to. `can_go_up` and
    `page_alone` as in `ProxyRotation.fetch`."""

    began: float
    can_go_up: bool = False
    page_alone: bool = False
    doubts: dict[str, Suspicion] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    result: Fetched | FetchError | None = None
    # The last answer was a block.
    blocked: bool = False
    # The last answer was a page that may be the proxy's own.
    lacking: bool = False

    def add(self, answer: ProxyAnswer) -> None:
        """Takes an answer that is not the page's, or not for certain."""
        self.reasons.append(_describe(answer.route, answer.text))
        self.blocked = answer.signal is ProxySignal.BLOCKED
        self.lacking = answer.signal in _CONTENT
        failed = answer.result
        if not isinstance(failed, FetchError) or failed.outcome is not Outcome.PROXY_FAILED:
            self.result = failed


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """What came through one proxy, what it says of that proxy, and the same in words. `requests`
    left for it."""

    route: ProxyRoute
    result: Fetched | FetchError
    signal: ProxySignal
    text: str
    requests: int
    body: int = 0


class RotationStep(Enum):
    """What follows an answer that may be its proxy's doing."""

    ANOTHER = "another proxy is asked"
    AGREED = "enough of them say the same"
    END = "nobody else is asked after this"
    GO_BACK = "the visit has used up its tries or its time"


def choose_step(
    visit: RotationState, *, final: bool, host_alive: bool, now: float, trusted: bool = False
) -> RotationStep:
    """What follows the answer that the visit has just taken. `final`: no other proxy could say
    anything else; `host_alive`: the host has answered somebody lately; `trusted`: who says that the
    page lacks something is believed. Pure."""
    if final:
        return RotationStep.END
    block_suffices = visit.blocked and (visit.can_go_up or visit.page_alone)
    enough = AGREE if host_alive or block_suffices else AGREE_BLIND
    if visit.lacking:
        enough = AGREE_LACKING if trusted else AGREE_BLIND
    if len(visit.doubts) >= enough and visit.result is not None:
        return RotationStep.AGREED
    if len(visit.reasons) >= TRIES_MAX or now - visit.began > RETRY_WITHIN_S:
        return RotationStep.GO_BACK
    return RotationStep.ANOTHER


class ProxyRotation:
    """One a process. `_doubts` and `_faults` are by page, and bounded: what is forgotten is asked
    once more."""

    def __init__(self, pool: ProxyPool) -> None:
        self._pool = pool
        self._doubts: OrderedDict[int, dict[str, Suspicion]] = OrderedDict()
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
        """The page by `get`, through one proxy after the other. Raises what `get` raises where that
        is not a proxy's fault, FetchError(PROXY_FAILED) where it is, and `NoProxyError`.
        `lacks` is asked of each answer that may be the page.
        `can_go_up`: a page that is blocked has another way to go, so nobody waits for certainty
        whether it or its proxies are meant. `page_alone`: its host serves others by a cheaper way,
        so it is the page that is meant. `final`: what no other proxy is asked after, whoever is to
        blame."""
        doubts = self._doubts.get(page.id, {})
        visit = RotationState(monotonic(), can_go_up, page_alone, doubts, {*doubts})
        while True:
            try:
                route = await self._lend(page, need, visit)
            except NoProxyError as none:
                return await self._with_nobody_left(page, visit, none)
            visit.tried.add(route.proxy.id)
            answer = await self._ask(page, visit, route, get, block_of)
            if lacks is not None and isinstance(answer.result, Fetched):
                answer = await self._compare(page, visit, answer, answer.result, lacks)
            result = answer.result
            if answer.signal is ProxySignal.ANSWERED and not isinstance(result, FetchError):
                if lacks is not None:
                    product = page.kind is Kind.PRODUCT
                    self._contents.whole(page.host, route.proxy.id, product=product)
                await self._good(page, route, result, doubts)
                return result
            if answer.requests:
                self._pool.asked(route, page.host, answer.requests)
            if answer.signal is ProxySignal.NEUTRAL:
                return _given(result)
            visit.add(answer)
            await self._note(page, answer, doubts)
            alive = self._alive(page.host)
            match choose_step(
                visit,
                final=final(result),
                host_alive=alive,
                now=monotonic(),
                trusted=visit.lacking and self._trusted(page, visit),
            ):
                case RotationStep.END:
                    self._doubts.pop(page.id, None)
                    return _given(result)
                case RotationStep.AGREED:
                    return await self._agreed(page, visit)
                case RotationStep.GO_BACK:
                    raise self._faulty(page, visit)
                case RotationStep.ANOTHER:
                    continue
                case never:
                    assert_never(never)

    async def _ask(
        self, page: LeasedPage, visit: RotationState, route: ProxyRoute, get: Get, block_of: BlockOf
    ) -> ProxyAnswer:
        """What came through one proxy. Raises where the page has to wait."""
        try:
            fetched = await get(route)
        except DeferredError as deferred:
            if not visit.reasons:
                raise
            raise self._faulty(page, visit, deferred.delay_s) from None
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

    async def _with_nobody_left(
        self, page: LeasedPage, visit: RotationState, none: NoProxyError
    ) -> Fetched:
        """No proxy is free that was not asked: what was heard so far decides."""
        if visit.reasons:
            if visit.doubts and visit.result is not None:
                return await self._agreed(page, visit)
            raise self._faulty(page, visit) from None
        if visit.can_go_up and none.blocked:
            raise FetchError(
                Outcome.BLOCKED, none.reason, url=page.url, sign=PROXIES_BANNED
            ) from None
        raise none

    async def _compare(
        self,
        page: LeasedPage,
        visit: RotationState,
        answer: ProxyAnswer,
        fetched: Fetched,
        lacks: Lacks,
    ) -> ProxyAnswer:
        """The answer, in doubt where the page lacks something, or has the body of another page.
        What two proxies get for one page alike is no proxy's doing."""
        if answer.signal is not ProxySignal.ANSWERED or fetched.status != 200 or fetched.same:
            return answer
        host, proxy_id = page.host, answer.route.proxy.id
        body, missing = xxh3_64_intdigest(fetched.body), await lacks(fetched)
        alike = [
            doubt
            for doubt in visit.doubts.values()
            if doubt.body == body and doubt.route.proxy.id != proxy_id
        ]
        if alike:
            self._contents.shop_repeats(host, body)
        for doubt in alike:
            if missing:
                visit.doubts[doubt.route.proxy.id] = replace(doubt, signal=ProxySignal.LACKING)
            else:
                del visit.doubts[doubt.route.proxy.id]
        other = self._contents.repeats(host, proxy_id, body, fetched.url)
        if other is not None:
            text = f"the same {len(fetched.body):,} bytes as for {other}"
            return replace(answer, signal=ProxySignal.REPEATED, text=text, body=body)
        if missing:
            return replace(answer, signal=ProxySignal.LACKING, text=missing, body=body)
        return answer

    def _trusted(self, page: LeasedPage, visit: RotationState) -> bool:
        """Whether somebody who says that the page lacks something gives whole pages, or nobody
        does."""
        return self._contents.site_lacks(page.host) or any(
            self._pool.good(doubt.route, page.host, 0.0) for doubt in visit.doubts.values()
        )

    def _alive(self, host: str) -> bool:
        return self._pool.alive(host, monotonic() - ALIVE_S)

    async def _lend(self, page: LeasedPage, need: ProxyNeed, visit: RotationState) -> ProxyRoute:
        try:
            return await self._pool.lend(need, page.host, visit.tried)
        except NoProxyError:
            if visit.reasons or not visit.tried:
                raise
            # All that are free were in doubt before: this is one last look.
            return await self._pool.lend(need, page.host)

    async def _note(
        self, page: LeasedPage, answer: ProxyAnswer, doubts: dict[str, Suspicion]
    ) -> None:
        route, signal = answer.route, answer.signal
        match signal:
            case ProxySignal.UNUSABLE:
                await self._pool.strike(route, EVERYWHERE, signal.value)
            case ProxySignal.DENIED:
                await self._pool.strike(route, page.host, signal.value)
            case _:
                if signal not in _CONTENT:
                    self._pool.doubted(route, page.host)
                doubts[route.proxy.id] = Suspicion(route, signal, monotonic(), answer.body)
                store_newest(self._doubts, page.id, doubts, PAGES_MAX)

    async def _good(
        self, page: LeasedPage, route: ProxyRoute, fetched: Fetched, doubts: dict[str, Suspicion]
    ) -> None:
        """Whoever is still in doubt about this page is to blame: the page can be had."""
        requests = fetched.redirects + 1
        self._pool.answered(route, page.host, fetched.elapsed_s / requests, requests)
        self._faults.pop(page.id, None)
        if fetched.status == 429:
            wish_s = retry_after_s(fetched.headers, datetime.now(UTC)) or THROTTLED_S
            await self._pool.strike(route, page.host, "throttled", min(wish_s, THROTTLED_MAX_S))
        if not doubts:
            return
        self._doubts.pop(page.id, None)
        for doubt in doubts.values():
            if doubt.route.proxy.id == route.proxy.id:
                continue
            if doubt.signal is not ProxySignal.BLOCKED:
                self._pool.failed(doubt.route, page.host)
            if doubt.signal in (ProxySignal.BLOCKED, ProxySignal.REPEATED) or (
                doubt.signal is ProxySignal.LACKING
                and self._contents.bad(page.host, doubt.route.proxy.id)
            ):
                await self._pool.strike(doubt.route, page.host, doubt.signal.value)

    async def _agreed(self, page: LeasedPage, visit: RotationState) -> Fetched:
        """All who could be asked say the same: what they say, or FetchError(PROXY_FAILED) where it
        may be they.

        A block is believed once one of them has been served since; a failure, unless others are
        served and none of them. A block with a way above it ends the visit either way, and is held
        against them where it is not believed.
        """
        assert visit.result is not None
        many_visits = self._faults.get(page.id, 0) >= VISITS_BLOCKED
        doubted = list(visit.doubts.values())
        if visit.blocked:
            believed = visit.page_alone or any(
                self._pool.good(doubt.route, page.host, 0.0 if many_visits else doubt.at)
                for doubt in doubted
            )
        elif visit.lacking:
            believed = many_visits or self._trusted(page, visit) or not self._alive(page.host)
        else:
            believed = not self._alive(page.host) or any(
                self._pool.good(doubt.route, page.host, 0.0) for doubt in doubted
            )
        if believed or (visit.blocked and visit.can_go_up):
            self._doubts.pop(page.id, None)
            self._faults.pop(page.id, None)
            if visit.lacking and page.kind is Kind.PRODUCT:
                self._contents.agreed(page.host)
            if not believed:
                for doubt in doubted:
                    await self._pool.strike(doubt.route, page.host, ProxySignal.BLOCKED.value)
            return _given(visit.result)
        for doubt in doubted:
            if many_visits and doubt.signal is ProxySignal.BLOCKED:
                await self._pool.strike(doubt.route, page.host, doubt.signal.value)
            elif doubt.signal not in _CONTENT:
                self._pool.failed(doubt.route, page.host)
        if many_visits:
            self._doubts.pop(page.id, None)
        raise self._faulty(page, visit)

    def _faulty(self, page: LeasedPage, visit: RotationState, least_s: float = 0.0) -> FetchError:
        count = self._faults.get(page.id, 0)
        store_newest(self._faults, page.id, count + 1, PAGES_MAX)
        return FetchError(
            Outcome.PROXY_FAILED,
            "; ".join(visit.reasons),
            url=page.url,
            retry_after_s=max(least_s, fault_wait_s(count)),
        )


def _given(result: Fetched | FetchError) -> Fetched:
    """The answer; raises the error that came instead."""
    if isinstance(result, FetchError):
        raise result
    return result


def _describe(route: ProxyRoute, text: str) -> str:
    return text if text.startswith("proxy ") else f"proxy {route.proxy.id}: {text}"
