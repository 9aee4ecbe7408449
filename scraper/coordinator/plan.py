"""Opens the crawls that are due: one for each cron slot, and one when a person asks for it. Any
number of coordinators may plan at once, since a slot has one row.

Slots that were missed while all coordinators were down are made up by one crawl, for the latest due
slot. A slot that comes due while the site's last crawl still runs is recorded as skipped, since
crawls of a site never overlap. (If that crawl is a replay of dead pages, the slot waits for it.) A
paused site has no slots, and none are made up afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import sqlalchemy as sa
import structlog
from pydantic import ValidationError

from scraper.domain import Message
from scraper.errors import BusyError, NotFoundError, PausedError, quote_command
from scraper.frontier import crawls, sites
from scraper.infra.database import run_transaction
from scraper.rules.routing import COORDINATOR
from scraper.rules.schedule import latest_slot
from scraper.sites.definition import Site

log = structlog.get_logger()

# A site with the slot that is due.
DueSite = tuple[sites.ScheduledSite, datetime]

# How many crawls a transaction opens: another coordinator that plans waits for it.
OPENED_AT_ONCE = 50
# The discoveries of many crawls that are due at once take some seconds.
LOST_S = 10.0


@dataclass(frozen=True, slots=True)
class OpenedCrawl:
    """A crawl that a person asked for, which may have been running already."""

    crawl_id: int
    already_running: bool
    messages: list[Message]


def plan(engine: sa.Engine, *, schedules: bool = True) -> list[Message]:
    """Opens the crawls that are due (none without `schedules`). Returns a discovery message for
    each, and for those that have not begun for a while: their message may be lost."""
    due = _choose_due(run_transaction(engine, sites.scheduled_sites)) if schedules else []
    opened: list[int] = []
    for start in range(0, len(due), OPENED_AT_ONCE):
        part = due[start : start + OPENED_AT_ONCE]
        opened += run_transaction(engine, partial(_open_due, due=part))
    waiting = run_transaction(engine, lambda connection: crawls.planned_crawls(connection, LOST_S))
    return [discover_message(crawl_id) for crawl_id in dict.fromkeys([*opened, *waiting])]


def open_now(engine: sa.Engine, name: str, *, refetch: bool = False) -> OpenedCrawl:
    """Opens a crawl of a site now, or returns the running one. Raises `NotFoundError` for an
    unknown site, `PausedError` for a paused one, `BusyError` while its dead pages are replayed.
    """
    return run_transaction(engine, partial(_open_now, name=name, refetch=refetch))


def discover_message(crawl_id: int) -> Message:
    return Message("discover", COORDINATOR, {"crawl_id": crawl_id})


def _open_now(connection: sa.Connection, name: str, *, refetch: bool) -> OpenedCrawl:
    row = sites.find_site(connection, name)
    if row is None:
        raise NotFoundError(f"no site named {name!r}; `scraper sites list` shows the sites")
    site_id, site = row
    if sites.is_paused(connection, site_id):
        raise PausedError(
            f"{name} is paused, so nothing is fetched (fix: "
            f"`{quote_command('scraper sites resume', name)}`)"
        )
    crawls.end_round(connection, site_id)
    crawl_id = crawls.open_crawl(
        connection, site_id, site, slot=None, trigger="manual", refetch=refetch
    )
    if crawl_id is None:
        running = crawls.active_crawl(connection, site_id)
        if running is None:
            raise NotFoundError(f"the crawl of {name!r} ended just now; try again")
        if crawls.has_trigger(connection, running, crawls.REPLAY):
            raise BusyError(
                f"crawl {running} of {name} replays dead pages, and crawls of a site never "
                f"overlap: wait for its end, or end it with `scraper stop {running}`"
            )
        return OpenedCrawl(running, already_running=True, messages=[discover_message(running)])
    return OpenedCrawl(crawl_id, already_running=False, messages=[discover_message(crawl_id)])


def _choose_due(scheduled: Iterable[sites.ScheduledSite]) -> list[DueSite]:
    """Returns the sites whose latest slot has no crawl, with the slot. Definitions are validated
    only then: there are many, and a tick comes every few seconds."""
    due = []
    for row in scheduled:
        schedule, zone = row.definition["schedule"], row.definition.get("timezone") or "UTC"
        slot = latest_slot(schedule, zone, row.now)
        if slot and slot > max(row.scheduled_since, row.last_slot or row.scheduled_since):
            due.append((row, slot))
    return due


def _open_due(connection: sa.Connection, due: Sequence[DueSite]) -> list[int]:
    opened = [_open_slot(connection, row, slot) for row, slot in due]
    return [crawl_id for crawl_id in opened if crawl_id is not None]


def _open_slot(connection: sa.Connection, row: sites.ScheduledSite, slot: datetime) -> int | None:
    """Opens the crawl of a slot. Returns its id, or None if none waits for its discovery."""
    try:
        site = Site.model_validate(row.definition)
    except ValidationError as error:
        # Another version stored it; the other sites are planned all the same.
        problems = error.error_count()
        log.error("stored site definition is no longer valid", site=row.name, problems=problems)
        return None
    crawls.end_round(connection, row.id)
    running = crawls.active_crawl(connection, row.id)
    if running and crawls.has_trigger(connection, running, crawls.REPLAY):
        # A replay ends soon, so the slot waits for it.
        return None
    reason = f"crawl {running} was still running" if running else None
    crawl_id = crawls.open_crawl(
        connection, row.id, site, slot=slot, trigger="schedule", skipped=reason
    )
    if crawl_id is not None:
        log.info(
            "crawl planned", site=row.name, crawl=crawl_id, slot=slot.isoformat(), skipped=reason
        )
    return None if running else crawl_id
