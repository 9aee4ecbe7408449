"""The crawler's own steps, one after the other in this process, each with a clock: dispatch, send,
receive, claim, settle, reap, finish. PostgreSQL, the broker and every statement are real; only the
shop is made up, since nothing is fetched.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import redis
import sqlalchemy as sa

from benchmarks.frontiers import QUEUE, fingerprint_of
from scraper.coordinator import dispatch as dispatching
from scraper.coordinator import finish, reap
from scraper.domain import (
    Kind,
    LeasedPage,
    Outcome,
    Revisit,
    Status,
    Validators,
    Verdict,
)
from scraper.frontier import leases
from scraper.frontier.pages import NewPage
from scraper.frontier.throughput import FetchCost
from scraper.infra.database import make_engine, retry_transaction
from scraper.results import products
from scraper.results.products import NewProduct
from scraper.results.transaction import (
    CrawlLimits,
    PageResult,
    StoredGroup,
    settle_pages,
)
from scraper.rules.routing import page_priority
from scraper.settings import Settings
from scraper.worker.writer import GROUP_PAGES

# products: one whose content is another than before
CHANGED_EVERY = 10
LIMITS = CrawlLimits(listings=100_000_000, products=100_000_000)
OK = Verdict(Status.OK, 0.0, True)
SAME = Verdict(Status.UNCHANGED, 0.0, True)
# batches a simulated worker takes between two dispatches: as many as make room for the next
AT_ONCE = 2

# A daily crawl finds every product older than the hour within which an unchanged one is not
# rewritten. Here crawls follow each other at once; so that hour is taken out, or the upsert would
# have less to do than it has.
DAILY_UPSERT = sa.text(str(products.UPSERT).replace(f"interval '{products.GUARD}'", "interval '0'"))
DAILY_SEEN = sa.text(str(products.CONFIRM).replace(f"interval '{products.GUARD}'", "interval '0'"))

Answer = Callable[[LeasedPage], tuple[Sequence[NewPage], NewProduct | None]]


@dataclass
class Meter:
    """What steps took: wall seconds of each call by step, and CPU seconds of the client and of its
    PostgreSQL process."""

    walls: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    client_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    postgres_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pages: int = 0
    broker_bytes: list[int] = field(default_factory=list)


def cpu_of(pid: int) -> float:
    """CPU seconds of one process, to the microsecond where the kernel says so, else to its tick (a
    hundredth)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError):
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system


class Crawler:
    """Coordinator and worker in one, on one database. One connection, so one PostgreSQL process
    does all of its work."""

    def __init__(self, config: Settings, url: str, *, conditional: bool = False) -> None:
        """`conditional`: pages have validators, and one that has not changed since answers 304."""
        self.config = config
        self.conditional = conditional
        self.engine = make_engine(url, pool_size=1)
        with self.engine.connect() as connection:
            self.backend = int(connection.execute(sa.text("SELECT pg_backend_pid()")).scalar() or 0)
        self.broker = redis.Redis.from_url(config.valkey_url)
        self.meter = Meter()

    def close(self) -> None:
        self.engine.dispose()
        self.broker.close()

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        client, postgres, began = time.process_time(), cpu_of(self.backend), time.perf_counter()
        yield
        self.meter.walls[step].append(time.perf_counter() - began)
        self.meter.client_s[step] += time.process_time() - client
        self.meter.postgres_s[step] += cpu_of(self.backend) - postgres

    def crawl(self, answer: Answer, pages: int | None = None) -> set[int]:
        """Dispatches and settles until this many pages are settled (None: until nothing is due), and
        the queue is empty. Returns the crawls that were found to have no page open."""
        drained: set[int] = set()
        settled = waiting = 0
        while True:
            sent = 0
            if pages is None or settled + waiting < pages:
                sent = self.dispatch()
            waiting += sent
            self.meter.broker_bytes.append(int(self.broker.info("memory")["used_memory"]))
            taken = [lease_id for _ in range(AT_ONCE) if (lease_id := self.receive())]
            if not taken and not sent:
                return drained
            for lease_id in taken:
                with self.timed("claim"), self.engine.begin() as connection:
                    lease = leases.claim_lease(
                        connection, lease_id, "benchmark", self.config.lease_s
                    )
                if lease is None:
                    continue
                waiting -= len(lease.pages)
                settled += len(lease.pages)
                for start in range(0, len(lease.pages), GROUP_PAGES):
                    drained |= set(
                        self.settle(
                            lease_id, lease.pages[start : start + GROUP_PAGES], answer
                        ).drained
                    )
            with self.timed("reap"):
                reap.reap(self.engine, self.config)

    def dispatch(self) -> int:
        """Leases and sends. How many pages."""
        from scraper.runtime.send import queue_depth, send

        with self.timed("dispatch"):
            messages = dispatching.dispatch(self.engine, self.config, queue_depth)
        with self.timed("send"):
            send(messages)
        with self.engine.connect() as connection:
            ids = [str(message.kwargs["lease_id"]) for message in messages]
            query = sa.text(
                "SELECT coalesce(sum(pages), 0) FROM leases WHERE CAST(id AS text) = ANY (:ids)"
            )
            return int(connection.execute(query, {"ids": ids}).scalar() or 0)

    def receive(self) -> UUID | None:
        """The lease of the queue's first message."""
        from scraper.celery import app

        with app.pool.acquire(block=True) as connection, connection.channel() as channel:
            message = channel.basic_get(QUEUE, no_ack=True)
        return UUID(json.loads(message.body)[1]["lease_id"]) if message else None

    def settle(self, lease_id: UUID, pages: Sequence[LeasedPage], answer: Answer) -> StoredGroup:
        group = []
        for page in pages:
            if self.conditional and page.known is not None and page.id % CHANGED_EVERY:
                same = PageResult(page.id, page.crawl_id, lease_id, Outcome.NOT_MODIFIED, SAME, 304)
                group.append(replace(same, cost=FetchCost(QUEUE, page.host, "", 0.2)))
                continue
            links, product = answer(page)
            one = PageResult(page.id, page.crawl_id, lease_id, Outcome.FETCHED, OK, 200)
            hashed = product.content_hash if product else None
            cost = FetchCost(QUEUE, page.host, "", 0.2, 7000)
            visit = (
                Revisit(Validators(f'"{fingerprint_of(page.url).hex}"'), 7)
                if product and self.conditional
                else None
            )
            group.append(
                replace(
                    one,
                    links=list(links),
                    products=[product] if product else [],
                    content_hash=hashed,
                    cost=cost,
                    revisit=visit,
                )
            )
        limits = {page.crawl_id: LIMITS for page in pages}

        def work() -> StoredGroup:
            with self.engine.begin() as connection:
                return settle_pages(connection, group, limits)

        with self.timed("settle"):
            stored = retry_transaction(work)
        self.meter.pages += stored.held
        return stored

    def finish(self, crawl_id: int) -> None:
        with self.timed("finish"):
            finish.finish(self.engine, crawl_id)


def new_page(
    site_id: int, crawl_id: int, kind: Kind, host: str, url: str, priority: int
) -> NewPage:
    depth = 2 if kind is Kind.PRODUCT else 1
    return NewPage(
        site_id,
        crawl_id,
        fingerprint_of(url),
        url,
        kind,
        host,
        QUEUE,
        page_priority(priority, kind),
        depth,
    )


def new_product(site_id: int, page: LeasedPage) -> NewProduct:
    """The product that was inserted for a page of this id; of each ten one has changed."""
    changed = page.id % CHANGED_EVERY == 0
    data: dict[str, Any] = {
        "name": f"Pan no. {page.id}",
        "price": page.id % 9999 / 100,
        "brand": f"Brand {page.id % 40}",
        "sku": f"sku-{page.id}",
        "stock": page.id % 50,
        "available": not changed,
        "category": "Kitchen",
        "description": f"{fingerprint_of(page.url).hex} " * 12,
    }
    content = uuid4() if changed else fingerprint_of(page.url)
    return NewProduct(site_id, f"sku-{page.id}", page.id, page.crawl_id, page.url, data, content)


@contextmanager
def daily() -> Iterator[None]:
    """Products are written as by a crawl a day after the last one."""
    usual, products.UPSERT = products.UPSERT, DAILY_UPSERT
    seen, products.CONFIRM = products.CONFIRM, DAILY_SEEN
    try:
        yield
    finally:
        products.UPSERT, products.CONFIRM = usual, seen
