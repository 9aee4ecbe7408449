"""A batch: the pages of one lease while a worker has them, and what one try of a page came to."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scraper.crawl.context import CrawlContext
from scraper.domain import (
    Extracted,
    FieldObservations,
    Lease,
    LeasedPage,
    NextVisit,
    Outcome,
    value,
)
from scraper.infra.slots import SlotCost
from scraper.politeness.host_limiter import HostLimiter
from scraper.results.transaction import no_extras
from scraper.worker.writer import Pending


@value
class Attempt:
    """One try of a page: what happened, and what came of it."""

    outcome: Outcome
    http_status: int | None = None
    final_url: str | None = None
    extracted: Extracted | None = None
    error: str | None = None
    excerpt: str | None = None
    head: Mapping[str, str] | None = None
    delay_s: float | None = None
    # This is the loop time at which the last request left.
    began: float = 0.0
    sign: str = ""  # of a block
    # It is a block that nothing names: fields are missing that used to be there.
    suspicion: bool = False
    # This is what a product page said of its fields.
    observations: FieldObservations | None = None
    # A product page that was good has one.
    next_visit: NextVisit | None = None
    # What plug-ins keep of the answer, by their names.
    extras: Mapping[str, object] = field(default_factory=no_extras)
    # It was read, and gave what is stored already.
    same: bool = False
    # So many products a listing is to be known for, or a product page so many fields; None: as
    # before.
    last_item_count: int | None = None


@dataclass(slots=True)
class Batch:
    """A lease being worked on. Times are the loop's: after `deadline_at` no page is begun; until
    `lease_expires_at` the lease is certainly ours, by our own clock from before it was claimed or
    prolonged. A process that was frozen or cut off for longer begins nothing in its name until it
    has been prolonged, even where nobody has told it yet that it is lost.
    """

    lease: Lease
    deadline_at: float
    lease_expires_at: float
    pending: Pending
    place: SlotCost | None = None
    # This is when a page was last settled.
    moved_at: float = 0.0
    unsettled: int = 0
    lost: bool = False
    handed_back: bool = False
    cut_short: bool = False
    # These have ended, or are of a paused site.
    inactive_crawls: set[int] = field(default_factory=set)
    contexts: dict[int, CrawlContext | Attempt] = field(
        default_factory=dict
    )  # of a crawl without one: what its pages get
    # These are the pages that are not begun.
    queued: dict[HostLimiter, deque[LeasedPage]] = field(default_factory=dict)
    # These are of the pages that are settled.
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    # So many pages wait for the turn of a host with a rate.
    at_gates: int = 0
    # Answers to be archived are put there.
    extras: dict[str, Any] = field(default_factory=dict)
    # These lanes are on the way to a page or back.
    visits: set[asyncio.Task[None]] = field(default_factory=set)

    def over(self, page: LeasedPage) -> bool:
        """True where a page is not to be begun any more. Going back untried changes nothing if its
        lease is lost or its crawl has ended: the fence sees to that."""
        return self.handed_back or page.crawl_id in self.inactive_crawls or not self.ours

    def may_begin(self, page: LeasedPage) -> bool:
        return not self.over(page) and asyncio.get_running_loop().time() < self.deadline_at

    @property
    def paced(self) -> int:
        """How many pages wait for their host, begun or not: its rate keeps them here, or how slowly
        it answers."""
        return self.at_gates + sum(
            limiter.count_queued(len(pages)) for limiter, pages in self.queued.items()
        )

    @property
    def ours(self) -> bool:
        """Whether the lease is certainly ours: what is under way may go on, with the next hop of a
        redirect, say."""
        return not self.lost and asyncio.get_running_loop().time() < self.lease_expires_at

    def cut(self) -> None:
        """Gives up the pages under way: they go back untried, as if they had not been begun."""
        self.handed_back = self.cut_short = True
        for lane in list(self.visits):
            lane.cancel()
