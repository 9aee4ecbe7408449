"""Explains why no proxy can be lent, and says when to ask again. Pure: the time is an argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from scraper.domain import ProxySignal
from scraper.errors import NoProxyError
from scraper.rules import proxies as policy
from scraper.rules.proxies import NO_STATS, Proxy, ProxyNeed, ProxyStats

WAIT_MIN_S, WAIT_MAX_S = 5.0, 120.0


def describe_pool(need: ProxyNeed) -> str:
    """Returns the start of each reason, such as "no residential proxy in eu"."""
    return f"no {need.pool} proxy" + (f" in {need.region}" if need.region else "")


def explain_quarantines(
    need: ProxyNeed,
    host: str,
    fitting: Sequence[Proxy],
    at_host: Mapping[str, ProxyStats],
    everywhere: Mapping[str, ProxyStats],
    now: float,
) -> NoProxyError:
    """Returns the error for a host at which all `fitting` proxies are in quarantine. It counts the
    reasons, and lasts until the first quarantine ends."""
    free_at = min(policy.free_at(proxy, at_host, everywhere) for proxy in fitting)
    counts = Counter(_longest_quarantine(proxy, at_host, everywhere).why for proxy in fitting)
    reasons = ", ".join(f"{count} {why}" for why, count in sorted(counts.items()))
    return NoProxyError(
        f"{describe_pool(need)} is free for {host}: "
        f"all {len(fitting)} are in quarantine ({reasons})",
        min(max(free_at - now, WAIT_MIN_S), WAIT_MAX_S),
        blocked=_are_blocked(fitting, at_host, everywhere, now),
    )


def _longest_quarantine(
    proxy: Proxy, at_host: Mapping[str, ProxyStats], everywhere: Mapping[str, ProxyStats]
) -> ProxyStats:
    here, whole = at_host.get(proxy.id, NO_STATS), everywhere.get(proxy.id, NO_STATS)
    return here if here.free_at > whole.free_at else whole


def _are_blocked(
    fitting: Sequence[Proxy],
    at_host: Mapping[str, ProxyStats],
    everywhere: Mapping[str, ProxyStats],
    now: float,
) -> bool:
    """Returns whether the host has blocked every proxy that works elsewhere."""
    working = [proxy for proxy in fitting if everywhere.get(proxy.id, NO_STATS).free_at <= now]
    return bool(working) and all(
        at_host.get(proxy.id, NO_STATS).why == ProxySignal.BLOCKED.value for proxy in working
    )
