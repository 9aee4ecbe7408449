"""`scraper metrics`: the state of the whole fleet for Prometheus, read from PostgreSQL, Redis and
the broker when asked for.

It is exported once, here, and not by each process: what is in PostgreSQL is nobody's own. A server
that does not answer takes its metrics with it and sets `scraper_up` to 0; the target itself lives
on, and nothing stale is ever shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from scraper.infra.database import make_engine
from scraper.plugins.metrics.postgres import Postgres, gauge
from scraper.plugins.metrics.redis import RedisState
from scraper.plugins.metrics.sources import Source
from scraper.rules.routing import COORDINATOR
from scraper.runtime import send
from scraper.settings import Settings

# Prometheus gives up after 10 s by default.
ANSWER_S = 5.0


class Exporter(Collector):
    """Reads when it is collected. Register it in one registry."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        """Nothing: a registry that asked when it is registered would have it read."""
        return []

    def collect(self) -> Iterable[Metric]:
        for source in self._sources:
            source.refresh()
        until = time.monotonic() + ANSWER_S
        up = gauge("scraper_server_up", "Whether a server could be read", ["server"])
        took = gauge("scraper_read_duration_seconds", "How long reading a server took", ["server"])
        age = gauge(
            "scraper_read_age_seconds",
            "How long ago that was: answers are kept for a while",
            ["server"],
        )
        all_up = True
        for source in self._sources:
            answer = source.answer(until)
            up.add_metric([source.name], answer is not None)
            all_up = all_up and answer is not None
            if answer is not None:
                took.add_metric([source.name], answer.took_s)
                age.add_metric([source.name], time.monotonic() - answer.read_at)
                yield from answer.metrics
        whole = gauge("scraper_up", "1 where PostgreSQL, Redis and the broker could all be read")
        whole.add_metric([], all_up)
        about = gauge("scraper_build_info", "The version that exports", ["version"])
        about.add_metric([version("celery-scraper")], 1)
        yield from (whole, up, took, age, about)


def make_exporter(settings: Settings) -> Exporter:
    """Connects to nothing yet."""
    postgres = Postgres(make_engine(settings.postgres_url, pool_size=1), settings.lease_s)
    redis = RedisState(settings.valkey_url, settings.proxy_list)

    def broker() -> list[Metric]:
        messages = gauge(
            "scraper_broker_messages",
            "Messages in the broker; the pages wait in PostgreSQL",
            ["queue"],
        )
        for queue in sorted({COORDINATOR, *postgres.queues}):
            messages.add_metric([queue], send.queue_depth(queue))
        return [messages]

    sources = (
        Source("postgresql", postgres.read),
        Source("redis", redis.read),
        Source("broker", broker),
    )
    return Exporter(sources)


def make_registry(settings: Settings) -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(make_exporter(settings))
    return registry
