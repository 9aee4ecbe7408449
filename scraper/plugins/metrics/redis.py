"""Metrics of the fleet from Redis: resting and slowed hosts, proxies, accounts. Labels name few
hosts, and no proxy or account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from prometheus_client.core import Metric

from scraper.crawl.isolation import isolated
from scraper.errors import ConfigError
from scraper.infra import outages, redis_clients
from scraper.plugins.metrics.counters import Growing, Labels
from scraper.plugins.metrics.postgres import make_counter, make_gauge
from scraper.proxies import file
from scraper.proxies import health as proxies
from scraper.registry import plugin_hooks
from scraper.rules.proxies import ProxyStats
from scraper.views import host_states

# This many hosts are named that rest longest, and that are slowed most.
HOSTS_NAMED = 20
STATES = ("free", "quarantine", "dead")

# The stats of proxies by host and proxy id.
ByHost = Mapping[str, Mapping[str, ProxyStats]]


class RedisState:
    def __init__(self, url: str, proxy_list: Path | None) -> None:
        self._client = redis_clients.connect(url, timeout_s=5)
        self._proxy_list = proxy_list
        self._requests = Growing()

    def read(self) -> list[Metric]:
        return [*self._host_metrics(), *self._proxy_metrics(), *self._plugin_metrics()]

    def _host_metrics(self) -> list[Metric]:
        troubled = make_gauge(
            "scraper_hosts_troubled", "Hosts that rest, or are slowed below their budget", ["state"]
        )
        rests = make_gauge(
            "scraper_host_cooldown_seconds",
            f"Until a host's rest is over, of the {HOSTS_NAMED} longest",
            ["host"],
        )
        pace = make_gauge(
            "scraper_host_pace_ratio",
            f"The part of its budget in force, of the {HOSTS_NAMED} slowest",
            ["host"],
        )
        live = host_states.read_live_states(self._client).values()
        resting = sorted(
            ((host.rests_s, host.host) for host in live if host.rests_s is not None), reverse=True
        )
        slowed = sorted((host.pace, host.host) for host in live if host.pace < 1)
        troubled.add_metric(["resting"], len(resting))
        troubled.add_metric(["slowed"], len(slowed))
        for seconds, name in resting[:HOSTS_NAMED]:
            rests.add_metric([name], seconds)
        for ratio, name in slowed[:HOSTS_NAMED]:
            pace.add_metric([name], ratio)
        return [troubled, rests, pace]

    def _proxy_metrics(self) -> list[Metric]:
        by_host = proxies.read_all_stats(self._client)
        listed = {}
        if self._proxy_list is not None:
            # Workers log what is wrong with the list, and go on with its last valid content.
            with suppress(ConfigError):
                listed = {proxy.id: proxy.pool for proxy in file.read_proxies(self._proxy_list)}
        pools = listed | {
            proxy: listed.get(proxy, _pool_of_id(proxy))
            for at_host in by_host.values()
            for proxy in at_host
        }
        return [*_proxy_states(pools, by_host), self._proxy_requests(pools, by_host)]

    def _proxy_requests(self, pools: Mapping[str, str], by_host: ByHost) -> Metric:
        self._requests.start(
            (pool, result) for pool in set(pools.values()) for result in ("answered", "failed")
        )
        self._requests.update(
            {
                (host, proxy): _request_counts(pools[proxy], health)
                for host, at_host in by_host.items()
                if host != proxies.EVERYWHERE
                for proxy, health in at_host.items()
            }
        )
        return make_counter(
            "scraper_proxy_requests",
            "Requests that a proxy answered or failed",
            ["pool", "result"],
            self._requests,
        )

    def _plugin_metrics(self) -> list[Metric]:
        metrics: list[Metric] = []
        for name, hooks in plugin_hooks().items():
            with isolated(name, "fleet_metrics", outages.is_broker_away):
                metrics += hooks.fleet_metrics(self._client)
        return metrics


def _proxy_states(pools: Mapping[str, str], by_host: ByHost) -> list[Metric]:
    states = Counter((pool, _proxy_state(proxy, by_host)) for proxy, pool in pools.items())
    resting = Counter(
        pools[proxy]
        for host, at_host in by_host.items()
        for proxy, health in at_host.items()
        if host != proxies.EVERYWHERE and health.free_at > 0
    )
    by_state = make_gauge(
        "scraper_proxies",
        "Proxies: free, in quarantine at some host, or dead (resting everywhere)",
        ["pool", "state"],
    )
    pairs = make_gauge(
        "scraper_proxy_quarantines", "Pairs of a proxy and a host at which it rests", ["pool"]
    )
    for pool in sorted(set(pools.values())):
        for name in STATES:
            by_state.add_metric([pool, name], states[pool, name])
        pairs.add_metric([pool], resting[pool])
    return [by_state, pairs]


def _request_counts(pool: str, health: ProxyStats) -> dict[Labels, float]:
    return {(pool, "answered"): health.answered, (pool, "failed"): health.failed}


def _pool_of_id(proxy_id: str) -> str:
    return proxy_id.partition("-")[0]


def _proxy_state(proxy_id: str, by_host: ByHost) -> str:
    everywhere = by_host.get(proxies.EVERYWHERE, {}).get(proxy_id)
    if everywhere is not None and everywhere.free_at > 0:
        return "dead"
    resting = any(
        proxy_id in at_host and at_host[proxy_id].free_at > 0 for at_host in by_host.values()
    )
    return "quarantine" if resting else "free"
