"""The frontier: the pages of all crawls, and how they join a crawl.

Afterwards `due` finds the pages that are due, `leases` hands them to workers and takes them back,
and `scraper.results.transaction` settles them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import Kind, value
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.rules.routing import RoutingPreferences, choose_route

ADD = sa.text(sql("frontier/add_pages.sql"))
ROUTE = sa.text("""
UPDATE pages p SET queue = i.queue, priority = i.priority
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(id bigint, queue text, priority int)
 WHERE p.id = i.id
""")
# A listing with this barren depth, the largest smallint, joins no crawl.
CUT_OFF = 32_767


@value
class NewPage:
    """A page to add.

    `queue` is the full name of its queue, `priority` the frontier's sort key, `found_on` the page
    that links to it. `barren_depth` measures how far the chain of listings before it has brought
    nothing new; it counts unless `found_on` brings something new (`scraper.results.listing_traps`),
    and always if it is `CUT_OFF`.
    """

    site_id: int
    crawl_id: int
    fingerprint: UUID
    url: str
    kind: Kind
    host: str
    queue: str
    priority: int
    depth: int
    found_on: int = 0
    barren_depth: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """How many more pages a crawl may get, and how barren a chain of listings may be, by the
    definition's limits."""

    crawl_id: int
    listings: int
    products: int
    barren_depth_max: int = 0


@value
class PageChange:
    """The new status of a page, for the counters of its crawl."""

    crawl_id: int
    kind: Kind
    status: str


@dataclass(frozen=True, slots=True)
class AddedPages:
    """The pages that joined a crawl (or were found fresh), and by crawl how many did not: those
    without room (`cut`), and those behind too many `barren` listings."""

    pages: list[PageChange]
    cut: dict[int, int]
    barren: dict[int, int]


def add_pages(
    connection: sa.Connection,
    pages: Sequence[NewPage],
    room: Sequence[Room],
    *,
    again: bool = False,
) -> AddedPages:
    """Adds pages to their crawls while there is room. Leaves the pages alone that a crawl already
    has, except for dead and invalid ones with `again`."""
    if not pages:
        return AddedPages([], {}, {})
    values = {"rows": dumps(pages), "room": dumps(room), "again": again}
    changes, cut = [], {limit.crawl_id: 0 for limit in room}
    barren = dict(cut)
    for crawl_id, kind, status, number in connection.execute(ADD, values):
        if status == "cut":
            cut[crawl_id] += number
        elif status == "barren":
            barren[crawl_id] += number
        else:
            changes.append(PageChange(crawl_id, Kind(kind), status))
    return AddedPages(changes, cut, barren)


def route_pages(
    connection: sa.Connection, preferences: RoutingPreferences, pages: Sequence[sa.Row[Any]]
) -> None:
    """Sends product pages, rows with `id` and `url`, where a definition says: the queue of an
    earlier one may have no worker."""
    rows = []
    for page in pages:
        route = choose_route(preferences, Kind.PRODUCT, page.url)
        rows.append({"id": page.id, "queue": route.queue, "priority": route.priority})
    connection.execute(ROUTE, {"rows": dumps(rows)})
