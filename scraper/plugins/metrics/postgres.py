"""Metrics of the fleet from PostgreSQL: queues, leases, dead pages, sites, crawls and their
results, consumers of the feed, the archive."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from pydantic import ValidationError

from scraper.crawl.isolation import isolated, restarted_at_error
from scraper.domain import CrawlStatus, Status
from scraper.frontier.progress import read_progress
from scraper.infra import outages
from scraper.plugins.metrics.counters import Growing, Labels
from scraper.registry import plugin_hooks
from scraper.sites.definition import Site
from scraper.views import queue_stats as state
from scraper.views.queue_stats import QueueState

# A row may be committed after another one whose id is higher by this much.
LATE_IDS = 50
CRAWLS_MAX = 10_000
READ_MS = 20_000
CONSUMERS_MAX = 500
# At most this many changes after a consumer's position are counted, in 5 ms.
BEHIND_MAX = 10_000

CONSUMER_LABELS = ["consumer", "site"]
CHANGES = ("new", "changed", "delisted")
# Keyed by what `_counter_values` calls them: name, help, labels.
COUNTERS = {
    "fetches": ("scraper_fetches", "Pages tried, retries included", ["site"]),
    "retries": ("scraper_retries", "Tries after which a page was to be tried again", ["site"]),
    "links_cut": ("scraper_links_cut", "Links beyond a definition's limits", ["site"]),
    "settled": ("scraper_settled_pages", "Pages that got a final status", ["site", "status"]),
    "products": ("scraper_products", "Products new, changed or delisted", ["site", "change"]),
    "ended": ("scraper_crawls_ended", "Crawls that ended, by how", ["site", "status"]),
}
STATUSES = [status for status in Status if status.final]
ENDINGS = [status for status in CrawlStatus if not status.active]

# Running crawls, those opened since the last reading, and those that ran then; each by an index.
CRAWLS = sa.text("""
SELECT c.id, s.name AS site, c.status, c.fetches, c.retries, c.links_cut, c.ok, c.unchanged, c.gone,
       c.dead, c.invalid, c.dropped, c.products_new, c.products_changed, c.products_delisted
  FROM crawls c JOIN sites s ON s.id = c.site_id
 WHERE c.status IN ('planned', 'running') OR c.id > :seen OR c.id = ANY (:known)
""")

DEFINITIONS = sa.text("""
SELECT definition_hash, definition FROM sites WHERE enabled AND definition_hash <> ALL (:known)
""")


CONSUMERS = sa.text("""
SELECT c.name, c.site, f.trimmed > c.position AS expired, unread.changes,
       coalesce(EXTRACT(EPOCH FROM now() - (
           SELECT at FROM changes WHERE id > c.position ORDER BY id LIMIT 1)), 0) AS age_s
  FROM consumers c CROSS JOIN feed f LEFT JOIN sites s ON s.name = c.site
 CROSS JOIN LATERAL (
       SELECT count(*) AS changes
         FROM (SELECT site_id FROM changes WHERE id > c.position ORDER BY id LIMIT :most) AS next
        WHERE c.site = '' OR next.site_id = s.id) AS unread
 ORDER BY c.name, c.site LIMIT :consumers
""")


class Postgres:
    def __init__(self, engine: sa.Engine, lease_s: float) -> None:
        self._engine = engine
        self._lease_s = lease_s
        self._seen = -1
        self._known: list[int] = []
        self._growing = {key: Growing() for key in COUNTERS}
        # Queues that definitions name or that have had pages, so that an empty one is exported as
        # 0.
        self.queues: set[str] = set()
        # The hashes of definitions whose queues were read.
        self._definitions: set[str] = set()

    def read(self) -> list[Metric]:
        with self._engine.connect() as connection:
            _limit_transaction(connection)
            return [
                *self._queue_metrics(connection),
                *_worker_metrics(connection, self._lease_s),
                *_site_metrics(connection),
                *_dead_page_metrics(connection),
                *_active_crawl_metrics(connection),
                *_consumer_metrics(connection),
                *_plugin_metrics(connection),
                *self._counter_metrics(connection),
            ]

    def _queue_metrics(self, connection: sa.Connection) -> list[Metric]:
        pages = make_gauge(
            "scraper_pages",
            "Open pages, held ones are paused with their site or host",
            ["queue", "state"],
        )
        oldest = make_gauge(
            "scraper_oldest_due_seconds", "For how long the oldest due page has been due", ["queue"]
        )
        leases = make_gauge(
            "scraper_leases", "Batches: waiting for a worker, or claimed by one", ["queue", "state"]
        )
        states = {queue.queue: queue for queue in state.read_queues(connection)}
        self.queues |= set(states) | self._read_new_queues(connection)
        for name in sorted(self.queues):
            queue = states.get(name, QueueState(name))
            for page_state in ("due", "later", "held", "leased"):
                pages.add_metric([name, page_state], getattr(queue, page_state))
            oldest.add_metric([name], queue.oldest_s or 0.0)
            leases.add_metric([name, "waiting"], queue.waiting)
            leases.add_metric([name, "claimed"], queue.claimed)
        return [pages, oldest, leases]

    def _read_new_queues(self, connection: sa.Connection) -> set[str]:
        """Returns the queues of definitions that were not read before."""
        named: set[str] = set()
        for row in connection.execute(DEFINITIONS, {"known": list(self._definitions)}):
            self._definitions.add(row.definition_hash)
            # Another version may have stored a definition that this version rejects.
            with suppress(ValidationError):
                named |= Site.model_validate(row.definition).routing_preferences.queues
        return named

    def _counter_metrics(self, connection: sa.Connection) -> list[Metric]:
        first = self._seen < 0
        if first:
            self._seen = int(
                connection.execute(sa.text("SELECT coalesce(max(id), 0) FROM crawls")).scalar_one()
            )
        rows = list(
            connection.execute(CRAWLS, {"seen": self._seen - LATE_IDS, "known": self._known})
        )
        for name, growing in self._growing.items():
            growing.start(_counter_labels(name, state.site_names(connection)))
        active = [row.id for row in rows if CrawlStatus(row.status).active]
        self._seen = max([self._seen, *(row.id for row in rows)])
        keep = [*active, *(row.id for row in rows if row.id > self._seen - LATE_IDS)]
        for name, growing in self._growing.items():
            growing.update({row.id: _counter_values(name, row) for row in rows}, keep=keep)
        self._known = active
        return [
            make_counter(name, text, labels, self._growing[key])
            for key, (name, text, labels) in COUNTERS.items()
        ]


def make_gauge(name: str, text: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def make_counter(
    name: str, text: str, labels: Sequence[str], growing: Growing
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in sorted(growing.sums.items()):
        family.add_metric(values, value)
    return family


def _worker_metrics(connection: sa.Connection, lease_s: float) -> list[Metric]:
    workers = make_gauge(
        "scraper_workers",
        "Worker processes with leases; silent ones prolong none of them",
        ["state"],
    )
    holders = state.read_holders(connection, lease_s)
    silent = sum(holder.silent_s > state.SILENT_S for holder in holders)
    workers.add_metric(["busy"], len(holders) - silent)
    workers.add_metric(["silent"], silent)
    return [workers]


def _site_metrics(connection: sa.Connection) -> list[Metric]:
    age = make_gauge(
        "scraper_complete_crawl_age_seconds", "Since the site's last complete crawl ended", ["site"]
    )
    missed = make_gauge(
        "scraper_schedule_missed_seconds",
        "For how long a slot has been due without a crawl; 0: none is",
        ["site"],
    )
    suspect = make_gauge(
        "scraper_crawl_suspect", "Whether the data of the last complete crawl is suspect", ["site"]
    )
    paused = make_gauge("scraper_sites_paused", "Sites that are paused")
    hosts = make_gauge("scraper_hosts_paused", "Hosts that are paused")
    sites = state.read_freshness(connection)
    for site in sites:
        if site.complete_s is not None:
            age.add_metric([site.site], site.complete_s)
            suspect.add_metric([site.site], site.suspect)
        if site.missed_s is not None:
            missed.add_metric([site.site], site.missed_s)
    paused.add_metric([], sum(site.paused for site in sites))
    paused_hosts = sa.text("SELECT count(*) FROM hosts WHERE paused")
    hosts.add_metric([], connection.execute(paused_hosts).scalar_one())
    return [age, missed, suspect, paused, hosts]


def _dead_page_metrics(connection: sa.Connection) -> list[Metric]:
    dead = make_gauge(
        "scraper_dead_pages",
        "Pages given up, until a crawl or a replay takes them up",
        ["site", "status"],
    )
    pages = {
        (site, status): 0
        for site in state.site_names(connection)
        for status in (Status.DEAD, Status.INVALID)
    }
    pages |= {(row.site, Status(row.status)): row.pages for row in state.count_unusable(connection)}
    for (site, status), count in pages.items():
        dead.add_metric([site, status], count)
    return [dead]


def _active_crawl_metrics(connection: sa.Connection) -> list[Metric]:
    active = make_gauge("scraper_crawls_active", "Crawls by phase", ["phase"])
    pages = make_gauge(
        "scraper_crawl_pages", "Of a site's running crawl: pages done and open", ["site", "state"]
    )
    phases = dict.fromkeys(("planned", "discovering", "fetching", "paused"), 0)
    for crawl in read_progress(connection, active=True)[:CRAWLS_MAX]:
        phases[crawl.phase] += 1
        pages.add_metric([crawl.site, "done"], crawl.done)
        pages.add_metric([crawl.site, "open"], crawl.total - crawl.done)
    for phase, count in phases.items():
        active.add_metric([phase], count)
    return [active, pages]


def _consumer_metrics(connection: sa.Connection) -> list[Metric]:
    behind = make_gauge(
        "scraper_consumer_behind_changes",
        f"Changes that a consumer has yet to read, at most {BEHIND_MAX}",
        CONSUMER_LABELS,
    )
    age = make_gauge(
        "scraper_consumer_position_age_seconds",
        "Since the first change, of any site, after a consumer's position; 0: none",
        CONSUMER_LABELS,
    )
    expired = make_gauge(
        "scraper_consumer_expired",
        "Whether changes were forgotten before a consumer read them",
        CONSUMER_LABELS,
    )
    for row in connection.execute(CONSUMERS, {"most": BEHIND_MAX, "consumers": CONSUMERS_MAX}):
        behind.add_metric([row.name, row.site], row.changes)
        age.add_metric([row.name, row.site], float(row.age_s))
        expired.add_metric([row.name, row.site], row.expired)
    return [behind, age, expired]


def _plugin_metrics(connection: sa.Connection) -> list[Metric]:
    metrics: list[Metric] = []
    for name, hooks in plugin_hooks().items():
        with (
            isolated(name, "stored_metrics", outages.is_postgres_away),
            restarted_at_error(connection),
        ):
            metrics += hooks.stored_metrics(connection)
        if not connection.in_transaction():
            _limit_transaction(connection)
    return metrics


def _limit_transaction(connection: sa.Connection) -> None:
    connection.execute(sa.text(f"SET LOCAL statement_timeout = {READ_MS}"))
    connection.execute(sa.text("SET TRANSACTION READ ONLY"))


def _counter_labels(name: str, sites: Sequence[str]) -> list[Labels]:
    match name:
        case "settled":
            return [(site, status) for site in sites for status in STATUSES]
        case "products":
            return [(site, change) for site in sites for change in CHANGES]
        case "ended":
            return [(site, status) for site in sites for status in ENDINGS]
        case _:
            return [(site,) for site in sites]


def _counter_values(name: str, row: sa.Row[Any]) -> dict[Labels, float]:
    match name:
        case "settled":
            return {(row.site, status): getattr(row, status) for status in STATUSES}
        case "products":
            return {(row.site, change): getattr(row, f"products_{change}") for change in CHANGES}
        case "ended":
            return {} if CrawlStatus(row.status).active else {(row.site, row.status): 1.0}
        case _:
            return {(row.site,): getattr(row, name)}
