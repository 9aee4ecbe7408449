"""What a page's visit through proxies has met so far, and which step follows. Pure: the time is an
argument.

`scraper.proxies.rotation` takes the steps, and says why another proxy is asked at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from scraper.domain import Fetched, Outcome, ProxySignal
from scraper.errors import FetchError
from scraper.http.proxy_route import ProxyRoute

# This many proxies that say the same of a page are believed.
AGREE = 3
# The number is larger while the host has answered no proxy: the first ones drawn may all be bad.
AGREE_BLIND = 5
# It is smaller for a page that lacks something, if one of the proxies gives whole pages elsewhere.
AGREE_LACKING = 2
# Proxies in one visit.
TRIES_MAX = 5
# A page that has taken longer in one visit goes back first.
RETRY_WITHIN_S = 10.0
# Signals of pages whose content may be the proxy's doing.
CONTENT_SIGNALS = frozenset({ProxySignal.LACKING, ProxySignal.REPEATED})


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A proxy that may be at fault for a page's failure. `body` is the hash of what it got."""

    route: ProxyRoute
    signal: ProxySignal
    at: float
    body: int = 0


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """What came through one proxy, what it says about that proxy, and the same in words. `requests`
    left for it."""

    route: ProxyRoute
    result: Fetched | FetchError
    signal: ProxySignal
    text: str
    requests: int
    body: int = 0

    @property
    def reason(self) -> str:
        if self.text.startswith("proxy "):
            return self.text
        return f"proxy {self.route.proxy.id}: {self.text}"


@dataclass(slots=True)
class RotationState:
    """One visit of a page so far.

    `suspicions` are by proxy id, of earlier visits too; `reasons` say what went wrong in this one;
    `result` is what the page gets if the proxies agree. `can_go_up` and `page_alone` as in
    `ProxyRotation.fetch`.
    """

    began: float
    can_go_up: bool = False
    page_alone: bool = False
    suspicions: dict[str, Suspicion] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    result: Fetched | FetchError | None = None
    # The last answer was a block.
    blocked: bool = False
    # The last answer was a page that may be the proxy's own.
    lacking: bool = False

    def add(self, answer: ProxyAnswer) -> None:
        """Adds an answer that is not the page's, or not for certain."""
        self.reasons.append(answer.reason)
        self.blocked = answer.signal is ProxySignal.BLOCKED
        self.lacking = answer.signal in CONTENT_SIGNALS
        failed = answer.result
        if not isinstance(failed, FetchError) or failed.outcome is not Outcome.PROXY_FAILED:
            self.result = failed


class RotationStep(Enum):
    """What follows an answer that may be its proxy's doing."""

    ANOTHER = "another proxy is asked"
    AGREED = "enough of them say the same"
    END = "no other proxy is asked after this"
    GO_BACK = "the visit has used up its tries or its time"


def choose_step(
    state: RotationState, *, final: bool, host_alive: bool, now: float, trusted: bool = False
) -> RotationStep:
    """Returns what follows the answer that was just added.

    `final`: no other proxy could get a different answer; `host_alive`: the host has answered some
    proxy lately; `trusted`: a proxy that says that the page lacks something is believed.
    """
    if final:
        return RotationStep.END
    block_suffices = state.blocked and (state.can_go_up or state.page_alone)
    enough = AGREE if host_alive or block_suffices else AGREE_BLIND
    if state.lacking:
        enough = AGREE_LACKING if trusted else AGREE_BLIND
    if len(state.suspicions) >= enough and state.result is not None:
        return RotationStep.AGREED
    if len(state.reasons) >= TRIES_MAX or now - state.began > RETRY_WITHIN_S:
        return RotationStep.GO_BACK
    return RotationStep.ANOTHER


def is_strike(signal: ProxySignal, *, clearly_worse: bool) -> bool:
    """Returns whether a suspected proxy is quarantined at once, now that another proxy got the
    page.

    A block and one body for several pages are the proxy's doing for certain. Any proxy meets a
    timeout or an incomplete page now and then: a timeout only counts towards a streak of failures,
    and an incomplete page only if the proxy has clearly more of them than the others.

    For example, proxies a, b and c fail on a page with BLOCKED, FAILED and LACKING, and d gets it:
    a is quarantined; b is charged one failure; so is c, and is quarantined if it is clearly worse.

    >>> [is_strike(signal, clearly_worse=False) for signal in (
    ...     ProxySignal.BLOCKED, ProxySignal.FAILED, ProxySignal.LACKING)]
    [True, False, False]
    >>> is_strike(ProxySignal.LACKING, clearly_worse=True)
    True
    """
    if signal is ProxySignal.LACKING:
        return clearly_worse
    return signal in (ProxySignal.BLOCKED, ProxySignal.REPEATED)
