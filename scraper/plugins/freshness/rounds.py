"""Visits planned pages, in rounds: each is a crawl of the pages whose visits come first.

A round lasts about an hour at the site's budget, and is judged as every crawl is, so what it found
is published then. It neither adds nor delists products: the crawls of the schedule do that, and
rounds give way to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa
import structlog
from pydantic import ValidationError

from scraper.coordinator.discover import dispatch_message
from scraper.domain import Message
from scraper.feed.watched import WatchedProducts, WatchRule
from scraper.frontier import crawls
from scraper.infra.database import run_transaction
from scraper.plugins.freshness import store, traffic
from scraper.plugins.freshness.keys import FreshnessKeys
from scraper.plugins.freshness.learning import update_plan
from scraper.plugins.freshness.rules.stored_plan import StoredPlan
from scraper.registry import find_service
from scraper.settings import Settings
from scraper.sites.definition import Site

log = structlog.get_logger()

ROUND_DAYS = 1 / 24
# With many visits a day, a round is shorter than that: this part of the pages, or a minute.
ROUND_PART = 1 / 5
SHORTEST_DAYS = 1 / 1440


def visit_pages(engine: sa.Engine, settings: Settings) -> list[Message]:
    """Opens the next round of each planned site without a crawl. One tick of the coordinator."""
    with engine.connect() as connection:
        planned = store.planned_sites(connection)
    opened = 0
    for row in planned:
        try:
            site = Site.model_validate(row.definition)
        except ValidationError:
            # Planning crawls reports it.
            continue
        if FreshnessKeys.is_read_whole(site):
            continue
        open_next = partial(_open_next, settings=settings, site_id=row.id, site=site)
        opened += run_transaction(engine, open_next)
    return [dispatch_message()] if opened else []


def _open_next(connection: sa.Connection, settings: Settings, site_id: int, site: Site) -> bool:
    if not store.try_lock(connection, site_id):
        return False
    if crawls.active_crawl(connection, site_id) is not None:
        return False
    now = connection.execute(sa.text("SELECT now()")).scalar_one()
    watched = find_watched(connection, settings, site.name)
    plan = update_plan(connection, site_id, site, now, watched)
    planned = sum(group.number for group in store.read_groups(connection, site_id))
    pages = min(count_taken(plan.visits, planned), _count_left(connection, site_id, site, plan))
    if pages <= 0 or not planned:
        return False
    crawl_id = store.open_round(connection, site_id, site, plan, pages)
    if crawl_id is None:
        connection.rollback()
        return False
    log.info("planned pages are visited", site=site.name, crawl=crawl_id, pages=pages)
    return True


def count_taken(visits: float, pages: float) -> int:
    """Returns how many pages a round visits, of those of a site, at this many visits a day. A round
    of all pages would visit each as often as the others.

    >>> count_taken(24_000, 1e6), count_taken(24_000, 800), count_taken(1e6, 800)
    (1000, 160, 695)
    """
    return math.ceil(min(visits * ROUND_DAYS, max(pages * ROUND_PART, visits * SHORTEST_DAYS)))


def _count_left(connection: sa.Connection, site_id: int, site: Site, plan: StoredPlan) -> int:
    """Returns how many visits what the last day has used leaves."""
    keys = site.of(FreshnessKeys)
    if not keys.is_measured:
        return math.ceil(plan.visits)
    limits = traffic.read_limits(connection, site_id, keys, plan.requests - plan.visits)
    return int(min(traffic.read_left(connection, site_id, keys, limits), math.ceil(plan.visits)))


def find_watched(connection: sa.Connection, settings: Settings, site: str) -> Sequence[WatchRule]:
    """Returns the rules of plug-ins that name products of a site."""
    service = find_service(WatchedProducts)  # type: ignore[type-abstract]
    return service(connection, settings, site) if service is not None else ()
