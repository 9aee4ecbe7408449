"""Claims: a worker takes a lease whose message has come, and prolongs those that it holds.

With each answer it hears what it has to know besides (`stores.heard`): which crawls go on, how its
queue stands, what is said of hosts. In task threads; what is done with a lease is
`scraper.worker.pipeline`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from scraper.domain import Lease
from scraper.frontier import leases
from scraper.frontier.control import Control, poll
from scraper.infra import outages
from scraper.settings import Settings

# unclaimed batches for each busy worker: from there on it asks for more. It holds some more claimed
LOW_WATER = 2
# between such questions, unless there are next to none
ASK_PAUSE_S = 0.25


class Claimed(NamedTuple):
    """A lease that is ours until a time of our own clock; which of its crawls are not to be fetched
    now; whether its queue runs low; and what is said of hosts, as it was after a time of our own
    clock."""

    lease: Lease
    ours_until: float
    inactive: set[int]
    low: bool
    asked: float
    said: Control


class Claims:
    """Those of one process, in the name of its worker. From any thread."""

    def __init__(self, engine: sa.Engine, worker: str, settings: Settings) -> None:
        self._engine = engine
        self._worker = worker
        self._settings = settings
        self._asked_at = 0.0

    def take(self, lease_id: UUID, *, alone: bool, stopping: Callable[[], bool]) -> Claimed | None:
        """None where the lease is not to be had any more. Where PostgreSQL does not answer, asks
        again for as long as a batch may last, unless the process is `stopping`: else the lease
        would have to wait for somebody to take it back."""
        claim_id, latest, pause_s = uuid4(), time.monotonic() + self._settings.horizon_s, 0.1
        while True:
            try:
                return self._take(lease_id, claim_id, alone)
            except SQLAlchemyError as error:
                if (
                    not outages.postgres_away(error)
                    or stopping()
                    or time.monotonic() + pause_s > latest
                ):
                    raise
                outages.postgres().failed(error)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def _take(self, lease_id: UUID, claim_id: UUID, alone: bool) -> Claimed | None:
        asked = time.monotonic()
        ours_until = asked + self._settings.lease_s
        with self._engine.begin() as connection:
            lease = leases.claim(
                connection,
                lease_id,
                self._worker,
                self._settings.lease_s,
                claim_id=claim_id,
                alone=alone,
            )
            if lease is None:
                return None
            crawl_ids = {page.crawl_id for page in lease.pages}
            heard = poll(connection, crawl_ids, lease.queue)
        low = self._low(heard.batches, heard.workers)
        return Claimed(lease, ours_until, crawl_ids - heard.running, low, asked, heard.control)

    def _low(self, waiting: int, workers: int) -> bool:
        """Whether more is to be asked for. As long as there are some, now and then is enough: it
        costs the same for one."""
        now = time.monotonic()
        if waiting > LOW_WATER * workers or (
            waiting > workers and now < self._asked_at + ASK_PAUSE_S
        ):
            return False
        self._asked_at = now
        return True

    def prolong(
        self, lease_ids: Sequence[UUID], crawl_ids: Sequence[int]
    ) -> tuple[set[UUID], set[int], Control]:
        """Those of the leases that are still ours, and those of the crawls that go on."""
        with self._engine.begin() as connection:
            mine = leases.extend(connection, lease_ids, self._settings.lease_s)
            heard = poll(connection, crawl_ids)
        return mine, heard.running, heard.control
