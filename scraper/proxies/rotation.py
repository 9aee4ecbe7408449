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

A page that only meets faults of proxies goes back uncharged, the first time at once, then after
longer and longer waits. It never dies of them: a crawl in which nothing else happens ends after
`SCRAPER_STALLED_S`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from time import monotonic
from typing import TypeVar, assert_never

from scraper.domain import Fetched, LeasedPage, Outcome, ProxySignal
from scraper.errors import DeferredError, FetchError, NoProxyError
from scraper.http.proxy_route import ProxyRoute
from scraper.proxies.contents import Contents
from scraper.proxies.health import EVERYWHERE
from scraper.proxies.pool import ProxyPool
from scraper.rules.blocks import Block
from scraper.rules.proxies import Need, answer_signal, wait_s
from scraper.rules.verdict import retry_after_s

AGREE = 3
# Where the host has answered nobody yet, a few bad proxies may be the first that are drawn.
AGREE_BLIND = 5
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
# Why a proxy rests whose pages lack what others' have.
LACKING = "pages lack what others have"
THROTTLED_S, THROTTLED_MAX_S = 30.0, 1800.0
_IN_DOUBT = frozenset({Outcome.TIMEOUT, Outcome.UNREACHABLE, Outcome.TLS, Outcome.MALFORMED})
_NOT_SENT = frozenset(
    {Outcome.ROBOTS_DISALLOWED, Outcome.ROBOTS_UNAVAILABLE, Outcome.FORBIDDEN_ADDRESS}
)

T = TypeVar("T")
Get = Callable[[ProxyRoute], Awaitable[Fetched]]
BlockOf = Callable[[Fetched], Block | None]
Final = Callable[[Fetched | FetchError], bool]


@dataclass(frozen=True, slots=True)
class Doubt:
    via: ProxyRoute
    signal: ProxySignal
    at: float


@dataclass(slots=True)
class Visit:
    """One visit of a page so far. `doubts` are by proxy, of earlier visits too; `reasons` say what
    went wrong in this one; `result` is what an agreement would come to. `can_go_up` and
    `page_alone` as in `ProxyRotation.fetch`."""

    began: float
    can_go_up: bool = False
    page_alone: bool = False
    doubts: dict[str, Doubt] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    result: Fetched | FetchError | None = None
    # The last answer was a block.
    blocked: bool = False

    def add(self, answer: ProxyAnswer) -> None:
        """Takes an answer that is not the page's, or not for certain."""
        self.reasons.append(_describe(answer.via, answer.text))
        self.blocked = answer.signal is ProxySignal.BLOCKED
        failed = answer.result
        if not isinstance(failed, FetchError) or failed.outcome is not Outcome.PROXY_FAILED:
            self.result = failed


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """What came through one proxy, what it says of that proxy, and the same in words. `requests`
    left for it."""

    via: ProxyRoute
    result: Fetched | FetchError
    signal: ProxySignal
    text: str
    requests: int


class Next(Enum):
    """What follows an answer that may be its proxy's doing."""

    ANOTHER = "another proxy is asked"
    AGREED = "enough of them say the same"
    END = "nobody else is asked after this"
    GO_BACK = "the visit has used up its tries or its time"


def decide(visit: Visit, *, final: bool, host_alive: bool, now: float) -> Next:
    """What follows the answer that the visit has just taken. `final`: no other proxy could say
    anything else; `host_alive`: the host has answered somebody lately. Pure."""
    if final:
        return Next.END
    block_suffices = visit.blocked and (visit.can_go_up or visit.page_alone)
    enough = AGREE if host_alive or block_suffices else AGREE_BLIND
    if len(visit.doubts) >= enough and visit.result is not None:
        return Next.AGREED
    if len(visit.reasons) >= TRIES_MAX or now - visit.began > RETRY_WITHIN_S:
        return Next.GO_BACK
    return Next.ANOTHER


class ProxyRotation:
    """One a process. `_doubts` and `_faults` are by page, and bounded: what is forgotten is asked
    once more."""

    def __init__(self, pool: ProxyPool) -> None:
        self._pool = pool
        self._doubts: OrderedDict[int, dict[str, Doubt]] = OrderedDict()
        self._faults: OrderedDict[int, int] = OrderedDict()
        self._suspected: OrderedDict[int, dict[str, ProxyRoute]] = OrderedDict()
        self._contents = Contents()

    async def fetch(
        self,
        page: LeasedPage,
        need: Need,
        get: Get,
        *,
        block_of: BlockOf,
        can_go_up: bool = False,
        page_alone: bool = False,
        final: Final = lambda _: False,
    ) -> Fetched:
        """The page by `get`, through one proxy after the other. Raises what `get` raises where that
        is not a proxy's fault, FetchError(PROXY_FAILED) where it is, and `NoProxyError`.
        `can_go_up`: a page that is blocked has another way to go, so nobody waits for certainty
        whether it or its proxies are meant. `page_alone`: its host serves others by a cheaper way,
        so it is the page that is meant. `final`: what no other proxy is asked after, whoever is to
        blame."""
        doubts = self._doubts.get(page.id, {})
        tried = {*doubts, *self._suspected.get(page.id, {})}
        visit = Visit(monotonic(), can_go_up, page_alone, doubts, tried)
        while True:
            try:
                via = await self._lend(page, need, visit)
            except NoProxyError as none:
                return await self._with_nobody_left(page, visit, none)
            visit.tried.add(via.proxy.id)
            answer = await self._ask(page, visit, via, get, block_of)
            result = answer.result
            if answer.signal is ProxySignal.ANSWERED and not isinstance(result, FetchError):
                await self._good(page, via, result, doubts)
                return result
            if answer.requests:
                self._pool.asked(via, page.host, answer.requests)
            if answer.signal is ProxySignal.NEUTRAL:
                return _given(result)
            visit.add(answer)
            await self._note(page, answer, doubts)
            alive = self._alive(page.host)
            match decide(visit, final=final(result), host_alive=alive, now=monotonic()):
                case Next.END:
                    self._doubts.pop(page.id, None)
                    return _given(result)
                case Next.AGREED:
                    return await self._agreed(page, visit)
                case Next.GO_BACK:
                    raise self._faulty(page, visit)
                case Next.ANOTHER:
                    continue
                case never:
                    assert_never(never)

    async def _ask(
        self, page: LeasedPage, visit: Visit, via: ProxyRoute, get: Get, block_of: BlockOf
    ) -> ProxyAnswer:
        """What came through one proxy. Raises where the page has to wait."""
        try:
            fetched = await get(via)
        except DeferredError as deferred:
            if not visit.reasons:
                raise
            raise self._faulty(page, visit, deferred.delay_s) from None
        except FetchError as error:
            in_doubt = ProxySignal.FAILED if error.outcome in _IN_DOUBT else ProxySignal.NEUTRAL
            sent = int(error.outcome not in _NOT_SENT)
            return ProxyAnswer(via, error, error.signal or in_doubt, str(error), sent)
        block = block_of(fetched)
        signal = answer_signal(
            fetched.status, fetched.headers, fetched.url, via.proxy, blocked=block is not None
        )
        text = str(block) if block else f"the answer was {fetched.status}"
        return ProxyAnswer(via, fetched, signal, text, fetched.redirects + 1)

    async def _with_nobody_left(
        self, page: LeasedPage, visit: Visit, none: NoProxyError
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

    async def lacks(self, page: LeasedPage, via: ProxyRoute) -> bool:
        """An answer through it lacks something. False: that is believed of the page; else the next
        visit goes another way, and tells."""
        proxy_id, contents, pages = via.proxy.id, self._contents, (page.host, page.kind)
        contents.lacked(pages, proxy_id)
        if contents.to_blame(pages, proxy_id):
            contents.forget(pages, proxy_id)
            self._pool.failed(via, page.host)
            await self._pool.strike(via, page.host, LACKING)
        elif contents.believed(pages, proxy_id, page.blocked + 1):
            self._suspected.pop(page.id, None)
            return False
        _keep(self._suspected, page.id, {**self._suspected.get(page.id, {}), proxy_id: via})
        return True

    async def gave(self, page: LeasedPage, via: ProxyRoute) -> None:
        """An answer through it is all there: whoever was suspected of it is to blame."""
        self._contents.gave((page.host, page.kind), via.proxy.id)
        for other in self._suspected.pop(page.id, {}).values():
            if other.proxy.id != via.proxy.id:
                self._pool.failed(other, page.host)
                await self._pool.strike(other, page.host, LACKING)

    def repeats(self, page: LeasedPage, via: ProxyRoute, body: bytes) -> bool:
        """Whether another page had that body through the same proxy."""
        return self._contents.repeats(via.proxy.id, page.id, body)

    def _alive(self, host: str) -> bool:
        return self._pool.alive(host, monotonic() - ALIVE_S)

    async def _lend(self, page: LeasedPage, need: Need, visit: Visit) -> ProxyRoute:
        try:
            return await self._pool.lend(need, page.host, visit.tried)
        except NoProxyError:
            if visit.reasons or not visit.tried:
                raise
            # All that are free were in doubt before: this is one last look.
            return await self._pool.lend(need, page.host)

    async def _note(self, page: LeasedPage, answer: ProxyAnswer, doubts: dict[str, Doubt]) -> None:
        via, signal = answer.via, answer.signal
        match signal:
            case ProxySignal.UNUSABLE:
                await self._pool.strike(via, EVERYWHERE, signal.value)
            case ProxySignal.DENIED:
                await self._pool.strike(via, page.host, signal.value)
            case _:
                self._pool.doubted(via, page.host)
                doubts[via.proxy.id] = Doubt(via, signal, monotonic())
                _keep(self._doubts, page.id, doubts)

    async def _good(
        self, page: LeasedPage, via: ProxyRoute, fetched: Fetched, doubts: dict[str, Doubt]
    ) -> None:
        """Whoever is still in doubt about this page is to blame: the page can be had."""
        requests = fetched.redirects + 1
        self._pool.answered(via, page.host, fetched.elapsed_s / requests, requests)
        self._faults.pop(page.id, None)
        if fetched.status == 429:
            wish_s = retry_after_s(fetched.headers, datetime.now(UTC)) or THROTTLED_S
            await self._pool.strike(via, page.host, "throttled", min(wish_s, THROTTLED_MAX_S))
        if not doubts:
            return
        self._doubts.pop(page.id, None)
        for doubt in doubts.values():
            if doubt.via.proxy.id == via.proxy.id:
                continue
            if doubt.signal is ProxySignal.BLOCKED:
                await self._pool.strike(doubt.via, page.host, doubt.signal.value)
            else:
                self._pool.failed(doubt.via, page.host)

    async def _agreed(self, page: LeasedPage, visit: Visit) -> Fetched:
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
                self._pool.good(doubt.via, page.host, 0.0 if many_visits else doubt.at)
                for doubt in doubted
            )
        else:
            believed = not self._alive(page.host) or any(
                self._pool.good(doubt.via, page.host, 0.0) for doubt in doubted
            )
        if believed or (visit.blocked and visit.can_go_up):
            self._doubts.pop(page.id, None)
            self._faults.pop(page.id, None)
            if not believed:
                for doubt in doubted:
                    await self._pool.strike(doubt.via, page.host, ProxySignal.BLOCKED.value)
            return _given(visit.result)
        for doubt in doubted:
            if many_visits and doubt.signal is ProxySignal.BLOCKED:
                await self._pool.strike(doubt.via, page.host, doubt.signal.value)
            else:
                self._pool.failed(doubt.via, page.host)
        if many_visits:
            self._doubts.pop(page.id, None)
        raise self._faulty(page, visit)

    def _faulty(self, page: LeasedPage, visit: Visit, least_s: float = 0.0) -> FetchError:
        count = self._faults.get(page.id, 0)
        _keep(self._faults, page.id, count + 1)
        return FetchError(
            Outcome.PROXY_FAILED,
            "; ".join(visit.reasons),
            url=page.url,
            retry_after_s=max(least_s, wait_s(count)),
        )


def _given(result: Fetched | FetchError) -> Fetched:
    """The answer; raises the error that came instead."""
    if isinstance(result, FetchError):
        raise result
    return result


def _describe(via: ProxyRoute, text: str) -> str:
    return text if text.startswith("proxy ") else f"proxy {via.proxy.id}: {text}"


def _keep(pages: OrderedDict[int, T], page_id: int, value: T) -> None:
    pages[page_id] = value
    pages.move_to_end(page_id)
    if len(pages) > PAGES_MAX:
        pages.popitem(last=False)
