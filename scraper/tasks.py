"""The Celery tasks: unpack, call one step, send what it returns. No decision is made here."""

from __future__ import annotations

from uuid import UUID

from scraper import coordinator, settings, worker
from scraper.celery import app
from scraper.discover import discover as discover_step
from scraper.dispatch import dispatch as dispatch_step
from scraper.finish import finish as finish_step
from scraper.plan import plan as plan_step
from scraper.reap import reap as reap_step
from scraper.sending import depth, send


@app.task
def plan() -> None:
    """Tick: takes over changed site definitions and opens the crawls that are due."""
    coordinator.sync_sites(coordinator.engine(), settings.load())
    send(plan_step(coordinator.engine(), schedules=settings.load().schedules))


@app.task
def discover(crawl_id: int) -> None:
    """Adds a crawl's first pages."""
    send(discover_step(coordinator.engine(), settings.load(), crawl_id))


@app.task
def dispatch() -> None:
    """Tick, and whenever there is new work: leases due pages and sends them to the queues."""
    send(dispatch_step(coordinator.engine(), settings.load(), depth))


@app.task
def reap() -> None:
    """Tick: takes back expired leases and finds crawls with nothing left to do."""
    send(reap_step(coordinator.engine()))


@app.task
def finish(crawl_id: int) -> None:
    """Ends a crawl whose last page is settled."""
    send(finish_step(coordinator.engine(), crawl_id))


@app.task
def fetch_listings(lease_id: str) -> None:
    """Works through a lease of listing pages and sitemaps."""
    worker.current(send).work(UUID(lease_id))


@app.task
def fetch_products(lease_id: str) -> None:
    """Works through a lease of product pages."""
    worker.current(send).work(UUID(lease_id))
