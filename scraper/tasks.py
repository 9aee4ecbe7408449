"""The Celery tasks: unpack, call one step, send what it returns. No decision is made here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

from celery import Task

from scraper import settings
from scraper.celery import app
from scraper.coordinator import site_sync
from scraper.coordinator.discover import discover as discover_step
from scraper.coordinator.dispatch import dispatch as dispatch_step
from scraper.coordinator.finish import finish as finish_step
from scraper.coordinator.plan import plan as plan_step
from scraper.coordinator.reap import reap as reap_step
from scraper.infra import outages
from scraper.plugin import Task as PluginTask
from scraper.plugin import Tick
from scraper.process import current_worker, watchdog
from scraper.registry import plugin_tasks, plugin_ticks, resolve
from scraper.runtime.send import queue_depth, send, send_best_effort

if TYPE_CHECKING:
    from scraper.worker.process import Worker


class Step(Task):  # type: ignore[misc] # Celery has no types
    """A task that ends quietly where a server is away: the outage was noted
    (`scraper.infra.outages`), and what it would have done is done by a later tick, or once its
    lease has run out. Every other error keeps its traceback."""

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        began = time.monotonic()
        try:
            result = super().__call__(*args, **kwargs)
        except Exception as error:
            if outages.record_outage(error):
                return None
            if outages.is_schema_missing(error):
                watchdog.suspect_schema()
            raise
        outages.postgres().record_answer(began)
        return result


@app.task(base=Step)
def plan() -> None:
    """Tick: takes over changed site definitions and opens the crawls that are due."""
    site_sync.sync_sites(site_sync.process_engine(), settings.load())
    send(plan_step(site_sync.process_engine(), schedules=settings.load().schedules))


@app.task(base=Step)
def discover(crawl_id: int) -> None:
    """Adds a crawl's first pages."""
    send(discover_step(site_sync.process_engine(), settings.load(), crawl_id))


@app.task(base=Step)
def dispatch() -> None:
    """Tick, and whenever there is new work: leases due pages and sends them to the queues."""
    send(dispatch_step(site_sync.process_engine(), settings.load(), queue_depth))


@app.task(base=Step)
def reap() -> None:
    """Tick: takes back expired leases and finds crawls with nothing left to do."""
    send(reap_step(site_sync.process_engine(), settings.load()))


@app.task(base=Step)
def finish(crawl_id: int) -> None:
    """Ends a crawl whose last page is settled."""
    send(finish_step(site_sync.process_engine(), crawl_id))


@app.task(base=Step)
def fetch_listings(lease_id: str, alone: bool = False) -> None:
    """Works through a lease of listing pages and sitemaps."""
    worker: Worker = current_worker.get_worker(send_best_effort)
    worker.settle_lease(UUID(lease_id), alone=alone)


@app.task(base=Step)
def fetch_products(lease_id: str, alone: bool = False) -> None:
    """Works through a lease of product pages."""
    worker: Worker = current_worker.get_worker(send_best_effort)
    worker.settle_lease(UUID(lease_id), alone=alone)


def _add_tick(tick: Tick) -> None:
    """Makes a plug-in's tick a task: its step runs with the database, and what it returns is
    sent."""

    @app.task(base=Step, name=f"{__name__}.{tick.name}")
    def run_tick() -> None:
        send(resolve(tick.step)(site_sync.process_engine(), settings.load()))


def _add_task(task: PluginTask) -> None:
    """Makes a plug-in's task one of Celery's: it runs in this process's worker."""

    @app.task(base=Step, name=f"{__name__}.{task.name}")
    def run_task(**arguments: Any) -> None:
        current_worker.get_worker(send_best_effort).run_task(task.run, arguments)


for _tick in plugin_ticks():
    _add_tick(_tick)
for _task in plugin_tasks().values():
    _add_task(_task)
