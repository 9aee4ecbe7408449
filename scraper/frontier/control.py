"""What a worker asks with each claim, and every two seconds: which crawls go on, how its queue
stands, what operators and blocks say of hosts.

One question, since it is asked that often: each costs a worker 0.15 ms. Few hosts have a row of
their own, so the two tables that have them are read only where there is something in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa

from scraper.frontier import host_tiers, hosts
from scraper.frontier.host_tiers import TierKey
from scraper.rules.budget import Override
from scraper.rules.escalation import HostRoute

# The crawls whose pages are to be fetched now are running, and of a site that is not paused.
POLL = sa.text("""
SELECT ARRAY(SELECT c.id FROM crawls c JOIN sites s ON s.id = c.site_id
              WHERE c.id = ANY (:crawls) AND c.status = 'running' AND NOT s.paused) AS running,
       queue.batches, queue.workers, EXISTS (SELECT FROM hosts) AS overrides,
       EXISTS (SELECT FROM host_routes) AS routes
  FROM (SELECT count(*) FILTER (WHERE started_at IS NULL) AS batches,
               count(DISTINCT worker) AS workers
          FROM leases WHERE queue = :queue) queue
""")


class HostControl(NamedTuple):
    """What operators said of hosts, what the fleet remembers of their blocks, and PostgreSQL's time
    (0 without blocks)."""

    overrides: dict[str, Override]
    routes: dict[TierKey, HostRoute]
    now: float


class PollAnswer(NamedTuple):
    """`running`: those of the crawls asked for whose pages are to be fetched now. `batches` of the
    queue that no worker has claimed yet, and how many `workers` have claimed others."""

    running: set[int]
    batches: int
    workers: int
    control: HostControl


def poll_frontier(
    connection: sa.Connection, crawl_ids: Iterable[int], queue: str = ""
) -> PollAnswer:
    row = connection.execute(POLL, {"crawls": list(crawl_ids), "queue": queue}).one()
    running, batches, workers, overrides, routes = row
    control = HostControl(
        hosts.read_overrides(connection) if overrides else {},
        *(host_tiers.read_routes(connection) if routes else ({}, 0.0)),
    )
    return PollAnswer(set(running), batches, workers, control)
