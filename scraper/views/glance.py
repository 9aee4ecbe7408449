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

import redis
import sqlalchemy as sa
from redis.exceptions import RedisError

from scraper.frontier import hosts, sites
from scraper.frontier.hosts import HostState
from scraper.frontier.progress import Progress, read_progress
from scraper.infra import outages, redaction
from scraper.infra.redaction import redacted
from scraper.runtime import fleet
from scraper.settings import Settings
from scraper.views import progress, state
from scraper.views.state import (
    LeaseHolder,
    QueueState,
    Trouble,
    Unusable,
)


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
class Glance:
    """Everything at one moment. `paused`: sites. `away`: what does not answer, and what it said."""

    crawls: list[Progress]
    paused: list[str]
    queues: list[QueueState]
    dead: list[Unusable]
    errors: list[Trouble]
    hosts: list[HostState] = field(default_factory=list)
    workers: list[WorkerState] = field(default_factory=list)
    away: dict[str, str] = field(default_factory=dict)


def read(
    engine: sa.Engine,
    settings: Settings,
    *,
    site: str | None = None,
    newest: int = 20,
    answers: Mapping[str, fleet.Node] | None = None,
) -> Glance:
    """Reads all of it; of a site, its crawls, hosts, dead pages and errors. Workers are asked,
    which takes a second, unless somebody has their `answers` already."""
    with ThreadPoolExecutor(1) as pool:
        asked = None if answers is not None else pool.submit(fleet.nodes)
        with engine.connect() as connection:
            found = Glance(
                crawls=read_progress(connection, site=site, newest=newest),
                paused=sites.paused(connection),
                queues=state.queues(connection),
                dead=state.unusable(connection, site),
                errors=[],
            )
            holders = state.holders(connection, settings.lease_s)
            _hosts(connection, settings, found, site)
        found.errors = state.troubles(engine, site)
        if asked is not None:
            try:
                answers = asked.result()
            except Exception as error:
                if not outages.broker_away(error):
                    raise
                found.away["broker"] = redaction.scrubbed(error, settings.celery_broker_url)
    found.workers = workers(answers or {}, holders)
    if "broker" not in found.away:
        for each in found.queues:
            each.workers = sum(each.queue in node.queues for node in (answers or {}).values())
    return found


def _hosts(connection: sa.Connection, settings: Settings, found: Glance, site: str | None) -> None:
    try:
        client = redis.Redis.from_url(
            settings.valkey_url, socket_connect_timeout=3, socket_timeout=5
        )
        with client:
            found.hosts = hosts.troubled(connection, client)
    except RedisError as error:
        found.away["redis"] = redaction.scrubbed(error, settings.valkey_url)
        return
    if site is not None:
        known = set(connection.execute(hosts.OF_SITE, {"site": site}).scalars())
        found.hosts = [each for each in found.hosts if each.host in known]


def workers(answers: Mapping[str, fleet.Node], holders: list[LeaseHolder]) -> list[WorkerState]:
    """Those that answered, and those that hold leases and did not."""
    by_process = {holder.worker: holder for holder in holders}
    told = []
    for name, node in sorted(answers.items()):
        mine = [by_process.pop(process) for process in node.processes if process in by_process]
        fetches = [queue for queue in node.queues if queue != "coordinator"]
        doing = "busy" if mine else ("idle" if fetches else "coordinator")
        told.append(
            WorkerState(
                name, node.queues, doing, sum(h.batches for h in mine), sum(h.pages for h in mine)
            )
        )
    for holder in by_process.values():
        silent = holder.silent_s > state.SILENT_S
        doing = "silent" if silent else "busy"
        told.append(WorkerState(holder.worker, holder.queues, doing, holder.batches, holder.pages))
    return told


def as_json(found: Glance) -> dict[str, Any]:
    """What `scraper status --json` prints, and `scraper watch --json` line by line."""
    return {
        "crawls": [progress.as_json(each) for each in found.crawls],
        "paused": found.paused,
        "queues": [asdict(each) for each in found.queues],
        "hosts": [asdict(each) for each in found.hosts],
        "workers": [asdict(each) for each in found.workers],
        "dead": [asdict(each) for each in found.dead],
        "errors": [{**asdict(each), "url": redacted(each.url)} for each in found.errors],
        "away": found.away,
    }
