"""A batch, which is the pages of one lease while a worker has them, and the attempt, which is what
one try of a page gave."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from scraper.crawl.context import CrawlContext
from scraper.domain import Extracted, FieldObservations, Lease, LeasedPage, Outcome, Revisit, value
from scraper.infra.slots import SlotCost
from scraper.politeness.host_limiter import HostLimiter
from scraper.results.transaction import no_extras
from scraper.worker.writer import Pending


@value
class Attempt:
    """One try of a page: its outcome, and what the page gave."""

    outcome: Outcome
    http_status: int | None = None
    final_url: str | None = None
    extracted: Extracted | None = None
    error: str | None = None
    excerpt: str | None = None
    head: Mapping[str, str] | None = None
    delay_s: float | None = None
    # The loop time at which the last request left.
    began: float = 0.0
    # The sign by which a block was recognised.
    sign: str = ""
    # The block is only suspected: fields are missing that the page used to have.
    suspicion: bool = False
    # Which fields a product page had.
    observations: FieldObservations | None = None
    # When a good product page is due again.
    revisit: Revisit | None = None
    # What plug-ins keep of the response, by their names.
    extras: Mapping[str, object] = field(default_factory=no_extras)
    # The page was read, and gave what is stored already.
    same: bool = False
    # How many products to remember for a listing, or fields for a product page; None keeps the
    # number of before.
    last_item_count: int | None = None
    # The hash of what the page gave, if that is doubted.
    doubted: UUID | None = None


@dataclass(slots=True)
class Batch:
    """A lease that the worker is settling. Times are the loop's.

    After `deadline_at` no page is begun. Until `lease_expires_at` this worker certainly holds the
    lease, by its own clock from before the lease was claimed or prolonged. So a process that was
    frozen or cut off for longer begins nothing until the lease is prolonged, even if it does not
    know yet that it has lost the lease.
    """

    lease: Lease
    deadline_at: float
    lease_expires_at: float
    pending: Pending
    # The worker's slot that the batch takes up; None if slots are not counted.
    slot: SlotCost | None = None
    # When a page was last settled.
    moved_at: float = 0.0
    unsettled: int = 0
    lost: bool = False
    handed_back: bool = False
    cut_short: bool = False
    # Crawls that have ended or whose site is paused.
    inactive_crawls: set[int] = field(default_factory=set)
    # By crawl; an attempt is what the pages of a crawl without a context get.
    contexts: dict[int, CrawlContext | Attempt] = field(default_factory=dict)
    # The pages that are not begun.
    queued: dict[HostLimiter, deque[LeasedPage]] = field(default_factory=dict)
    # How the settled pages ended.
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    # How many pages wait for the permit of a host with a rate.
    waiting_for_permit: int = 0
    # What plug-ins keep for the batch, such as the responses to archive.
    extras: dict[str, Any] = field(default_factory=dict)
    # The tasks that are fetching a page.
    fetching: set[asyncio.Task[None]] = field(default_factory=set)

    def is_dropped(self, page: LeasedPage) -> bool:
        """Returns True if the page must no longer be begun. It goes back untried; if its lease is
        lost or its crawl has ended, the fence ignores that."""
        return self.handed_back or page.crawl_id in self.inactive_crawls or not self.holds_lease

    def may_begin(self, page: LeasedPage) -> bool:
        return not self.is_dropped(page) and asyncio.get_running_loop().time() < self.deadline_at

    @property
    def paced(self) -> int:
        """The number of pages, started or not, that wait for their host: for its rate, or because
        it is slow."""
        return self.waiting_for_permit + sum(
            limiter.count_queued(len(pages)) for limiter, pages in self.queued.items()
        )

    @property
    def holds_lease(self) -> bool:
        """Returns whether this worker certainly holds the lease, so that its pages may send their
        next requests."""
        return not self.lost and asyncio.get_running_loop().time() < self.lease_expires_at

    def cancel_pages(self) -> None:
        """Gives up the pages under way: they go back untried, as if they had not been begun."""
        self.handed_back = self.cut_short = True
        for task in list(self.fetching):
            task.cancel()
