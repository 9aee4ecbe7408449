"""What an operator looks at first, read in one go: crawls, queues, hosts in trouble, workers, dead
pages, latest errors.

PostgreSQL has to answer. Where Redis or the broker does not, what would be read from it is empty,
and `away` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa
from redis.exceptions import RedisError

from scraper.frontier import sites
from scraper.frontier.progress import CrawlProgress, read_progress
from scraper.infra import outages, redaction, redis_clients
from scraper.infra.redaction import redact
from scraper.rules.routing import COORDINATOR
from scraper.runtime import fleet
from scraper.settings import Settings
from scraper.views import crawl_progress as progress
from scraper.views import host_states
from scraper.views import queue_stats as state
from scraper.views import site_table as fleet_view
from scraper.views.host_states import HostState
from scraper.views.queue_stats import LeaseHolder, PageTrouble, QueueState, Unusable
from scraper.views.site_table import Totals

# The states of sites that need an operator.
BROKEN = ("failed", "suspect", "dead pages")
# More sites than any installation has.
SITES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One worker. `worker`: its node's name, or host:pid where it did not answer. `state`: busy,
    idle, coordinator, or silent: it has leases and prolongs none of them."""

    worker: str
    queues: list[str]
    state: str
    batches: int = 0
    pages: int = 0


@dataclass(slots=True)
class FleetStatus:
    """Everything at one moment. `paused`: sites. `totals`: of all sites, however many `crawls` are
    shown. `why`: by crawl, what is wrong with it. `away`: by server, the error of each that does
    not answer."""

    crawls: list[CrawlProgress]
    paused: list[str]
    queues: list[QueueState]
    dead: list[Unusable]
    errors: list[PageTrouble]
    hosts: list[HostState] = field(default_factory=list)
    workers: list[WorkerState] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    why: dict[int, str] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)


def read(
    engine: sa.Engine,
    settings: Settings,
    *,
    site: str | None = None,
    newest: int = 20,
    every_site: bool = False,
    nodes: Mapping[str, fleet.WorkerNode] | None = None,
) -> FleetStatus:
    """Reads the fleet's status: every running crawl and the newest ended ones, or with `every_site`
    each site's newest crawl. With `site`, only that site's part, and the workers that have its
    pages. Asking the workers takes a second, unless the caller passes their `nodes`."""
    with ThreadPoolExecutor(1) as pool:
        inspection = None if nodes is not None else pool.submit(fleet.list_nodes)
        with engine.connect() as connection:
            crawls, why = _read_crawls(connection, site, newest, every_site=every_site)
            status = FleetStatus(
                crawls=crawls,
                why=why,
                paused=[n for n in sites.paused_names(connection) if site in (None, n)],
                queues=state.read_queues(connection, site),
                dead=state.count_unusable(connection, site),
                errors=[],
            )
            status.totals = fleet_view.read_totals(connection, site)
            holders = state.read_holders(connection, settings.lease_s, site)
            _read_hosts(connection, settings, status, site)
        status.errors = state.read_troubles(engine, site)
        if inspection is not None:
            try:
                nodes = inspection.result()
            except Exception as error:
                if not outages.is_broker_away(error):
                    raise
                status.away["broker"] = redaction.scrub_error(error, settings.celery_broker_url)
    status.workers = workers(nodes or {}, holders)
    if site is not None:
        status.workers = [worker for worker in status.workers if worker.pages]
    if "broker" not in status.away:
        for queue in status.queues:
            queue.workers = sum(queue.queue in node.queues for node in (nodes or {}).values())
    return status


def _read_crawls(
    connection: sa.Connection, site: str | None, newest: int, *, every_site: bool
) -> tuple[list[CrawlProgress], dict[int, str]]:
    """Crawls, and by their ids what is wrong with them."""
    if every_site and site is None:
        rows = fleet_view.read_rows(connection, fleet_view.Query(limit=SITES_MAX)).rows
        return (
            [row.crawl for row in rows if row.crawl],
            {row.crawl.id: row.why for row in rows if row.crawl},
        )
    crawls = read_progress(connection, site=site, newest=newest)
    if site is None:
        # What is broken is seen, however long ago that was.
        shown = {crawl.id for crawl in crawls}
        worst = fleet_view.read_rows(connection, fleet_view.Query(limit=newest)).rows
        broken = [row.crawl for row in worst if row.crawl and row.state in BROKEN]
        crawls += [crawl for crawl in broken if crawl.id not in shown]
    return crawls, fleet_view.explain_crawls(connection, crawls)


def _read_hosts(
    connection: sa.Connection, settings: Settings, status: FleetStatus, site: str | None
) -> None:
    try:
        with redis_clients.connect(settings.valkey_url, timeout_s=5) as client:
            status.hosts = host_states.read_troubled_states(connection, client)
    except RedisError as error:
        status.away["redis"] = redaction.scrub_error(error, settings.valkey_url)
        return
    if site is not None:
        of_site = host_states.read_hosts_of_site(connection, site)
        status.hosts = [host for host in status.hosts if host.host in of_site]


def workers(nodes: Mapping[str, fleet.WorkerNode], holders: list[LeaseHolder]) -> list[WorkerState]:
    """Returns the workers that answered, and silent ones that hold leases."""
    by_process = {holder.worker: holder for holder in holders}
    states = []
    for name, node in sorted(nodes.items()):
        held = [by_process.pop(process) for process in node.processes if process in by_process]
        batches, pages = sum(h.batches for h in held), sum(h.pages for h in held)
        idle = "coordinator" if set(node.queues) <= {COORDINATOR} else "idle"
        states.append(WorkerState(name, node.queues, "busy" if held else idle, batches, pages))
    for h in by_process.values():
        activity = "silent" if h.silent_s > state.SILENT_S else "busy"
        states.append(WorkerState(h.worker, h.queues, activity, h.batches, h.pages))
    return states


def as_json(status: FleetStatus) -> dict[str, Any]:
    """Returns the JSON of `scraper status`, and of each line of `scraper watch`."""
    return {
        "totals": asdict(status.totals),
        "crawls": [
            {**progress.as_json(crawl), "why": status.why.get(crawl.id, "")}
            for crawl in status.crawls
        ],
        "paused": status.paused,
        "queues": [asdict(queue) for queue in status.queues],
        "hosts": [asdict(host) for host in status.hosts],
        "workers": [asdict(worker) for worker in status.workers],
        "dead": [asdict(unusable) for unusable in status.dead],
        "errors": [{**asdict(error), "url": redact(error.url)} for error in status.errors],
        "away": status.away,
    }
