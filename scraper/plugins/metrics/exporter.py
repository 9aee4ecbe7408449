"""Exports the state of the whole fleet for Prometheus, read from PostgreSQL, Redis and the broker
at each scrape.

One process exports it, since the state belongs to no worker. If a server does not answer, its
metrics are missing and `scraper_up` is 0; the target itself still answers, and never shows stale
values.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from scraper.infra.database import make_engine
from scraper.plugins.metrics.postgres import Postgres, make_gauge
from scraper.plugins.metrics.redis import RedisState
from scraper.plugins.metrics.sources import MetricSource
from scraper.rules.routing import COORDINATOR
from scraper.runtime import send
from scraper.settings import Settings

# Prometheus gives up after 10 s by default.
ANSWER_S = 5.0


class Exporter(Collector):
    """Reads its sources at each scrape. Register it in one registry."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        """Returns nothing, so that registering it reads no source."""
        return []

    def collect(self) -> Iterable[Metric]:
        for source in self._sources:
            source.refresh()
        until = time.monotonic() + ANSWER_S
        up = make_gauge("scraper_server_up", "Whether a server could be read", ["server"])
        took = make_gauge(
            "scraper_read_duration_seconds", "How long reading a server took", ["server"]
        )
        age = make_gauge(
            "scraper_read_age_seconds",
            "How long ago that was: answers are kept for a while",
            ["server"],
        )
        all_up = True
        for source in self._sources:
            reading = source.wait_for_reading(until)
            up.add_metric([source.name], reading is not None)
            all_up = all_up and reading is not None
            if reading is not None:
                took.add_metric([source.name], reading.took_s)
                age.add_metric([source.name], time.monotonic() - reading.read_at)
                yield from reading.metrics
        whole = make_gauge(
            "scraper_up", "1 where PostgreSQL, Redis and the broker could all be read"
        )
        whole.add_metric([], all_up)
        about = make_gauge("scraper_build_info", "The version that exports", ["version"])
        about.add_metric([version("celery-scraper")], 1)
        yield from (whole, up, took, age, about)


def make_exporter(settings: Settings) -> Exporter:
    """Makes the exporter, which connects at its first scrape."""
    postgres = Postgres(make_engine(settings.postgres_url, pool_size=1), settings.lease_s)
    redis = RedisState(settings.valkey_url, settings.proxy_list)

    def broker() -> list[Metric]:
        messages = make_gauge(
            "scraper_broker_messages",
            "Messages in the broker; the pages wait in PostgreSQL",
            ["queue"],
        )
        for queue in sorted({COORDINATOR, *postgres.queues}):
            messages.add_metric([queue], send.queue_depth(queue))
        return [messages]

    sources = (
        MetricSource("postgresql", postgres.read),
        MetricSource("redis", redis.read),
        MetricSource("broker", broker),
    )
    return Exporter(sources)


def make_registry(settings: Settings) -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(make_exporter(settings))
    return registry
