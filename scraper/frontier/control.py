"""What a worker reads with each claim, and every two seconds: which crawls go on, how full its
queue is, what operators have set for hosts, and which hosts block.

It is one query, since each costs a worker 0.15 ms. Few hosts have rows of their own, so the two
tables of hosts are read only if they are not empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa

from scraper.frontier import host_tiers, hosts
from scraper.frontier.host_tiers import TierKey
from scraper.rules.budget import Override
from scraper.rules.escalation import HostRoute

# Pages are fetched for running crawls of sites that are not paused.
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
    """What operators have set for hosts, the routes of hosts that block, and PostgreSQL's time (0
    without routes)."""

    overrides: dict[str, Override]
    routes: dict[TierKey, HostRoute]
    now: float


class PollAnswer(NamedTuple):
    """The requested crawls that are `running`; how many `batches` of the queue are unclaimed, and
    how many `workers` have claimed others."""

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
