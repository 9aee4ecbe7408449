"""The one transaction in which pages get their verdicts: fence, verdicts, products, versions,
links, counters.

Either all of it is there or none. The fence is the first statement: a page that is no longer in the
lease named keeps its state, and nothing of what was extracted from it is stored or counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import (
    Blame,
    FieldObservations,
    Kind,
    Move,
    NextVisit,
    Outcome,
    Status,
    Verdict,
    value,
)
from scraper.frontier import crawls, host_tiers, throughput
from scraper.frontier import pages as frontier
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.host_tiers import TierSignal
from scraper.frontier.pages import NewPage, PageChange, Room
from scraper.frontier.throughput import FetchCost
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.results import fill_rates, held_values, page_items, products
from scraper.results import listing_traps as chains
from scraper.results.listing_traps import max_barren_depth
from scraper.results.products import NewProduct

FENCE = sa.text(sql("results/settle_pages.sql"))
NOW = sa.text("SELECT now()")

NO_EXTRAS: Mapping[str, object] = {}


def no_extras() -> Mapping[str, object]:
    """The one empty mapping: a result is made for each page."""
    return NO_EXTRAS


@value
class PageResult:
    """A page with its verdict and everything that the tables learn from it. The lease id fences it.

    `error` is a short sentence for people; `excerpt` is the bounded start of a body that could not
    be used, and `head` the headers that came with it. `move` says where a page goes on that is due
    again.

    `links` and `products` are empty unless the page is ok. `named`: the ids of all products
    that are on it, of a page with several, also of those that could not be read; None: nobody
    knows. A `partial` page counts as a link that was cut: nobody knows how many there were.
    `lists` is one value for the products that a listing links to, `disallowed` how many of its
    links robots.txt disallows. `signal` is for its host's tier, `observations` for its crawl's
    fields. `cost` is None where it was not measured. With
    `only_new_links`, links to known products were taken out before. `extras` is what plug-ins keep
    of the page, by their names. `last_item_count` is how many products a listing names, or fields a
    product page gives, from now on; None: as before.
    """

    page_id: int
    crawl_id: int
    lease_id: UUID
    outcome: Outcome
    verdict: Verdict
    http_status: int | None = None
    error: str | None = None
    excerpt: str | None = None
    head: Mapping[str, str] | None = None
    move: Move | None = None
    links: Sequence[NewPage] = ()
    products: Sequence[NewProduct] = ()
    named: Sequence[str] | None = None
    content_hash: UUID | None = None
    partial: bool = False
    lists: UUID | None = None
    disallowed: int = 0
    signal: TierSignal | None = None
    observations: FieldObservations | None = None
    cost: FetchCost | None = None
    next_visit: NextVisit | None = None
    only_new_links: bool = False
    extras: Mapping[str, object] = field(default_factory=no_extras)
    last_item_count: int | None = None


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """How many pages of each sort a crawl may have; what is found beyond is counted in `links_cut`
    and left."""

    listings: int
    products: int
    barren_depth_max: int = max_barren_depth(20)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a settling transaction did: how many pages held their lease, how many were due again or
    new, which crawls have no page left open. `kept` holds the pages of which plug-ins keep
    something, each with its status in the frontier; `at` is then the time of the transaction."""

    held: int
    added: int
    drained: list[int]
    kept: list[tuple[PageResult, Status]] = field(default_factory=list)
    at: datetime | None = None


class Fenced(NamedTuple):
    """What the fence says of a page whose lease was held. (A row of SQLAlchemy's takes 0.7 us to
    name a column.)"""

    page_id: int
    lease: UUID
    crawl_id: int
    kind: str
    status: str


Kept = Sequence[tuple[PageResult, Fenced]]  # whose lease was held


def settle(
    connection: sa.Connection,
    pages: Sequence[PageResult],
    limits: Mapping[int, CrawlLimits],
    worker: str = "",
) -> Stored:
    """Stores a group of settled pages. `limits` has an entry for each of their crawls; `worker` is
    who settled them."""
    live = crawls.hold(connection, (page.crawl_id for page in pages))
    kept = _fence(connection, pages, live)
    counts = CountsByCrawl()
    for page, row in kept:
        _count_page(counts, page, row)
    rates = _store_products(connection, kept, live, counts)
    added = _add_links(connection, kept, live, limits, counts)
    signals = [page.signal for page, _ in kept if page.signal is not None]
    host_tiers.apply_signals(connection, signals)
    throughput.add_tries(connection, worker, _settlings(kept))
    rates.store_counts(connection)
    drained = add_counts(connection, counts)
    with_extras = [(page, Status(row.status)) for page, row in kept if page.extras]
    at = connection.execute(NOW).scalar_one() if with_extras else None
    return Stored(len(kept), added, drained, with_extras, at)


def _fence(
    connection: sa.Connection, pages: Sequence[PageResult], live: Mapping[int, sa.Row[Any]]
) -> Kept:
    """The pages that were still in their lease, and of a crawl that goes on: their rows have their
    verdicts now."""
    rows = connection.execute(FENCE, {"rows": dumps([_row(page) for page in pages])})
    # A group may have a page twice: of a lost lease and of a living one.
    fenced = {(row.page_id, row.lease): row for row in map(Fenced._make, rows)}
    return [
        (page, row)
        for page in pages
        if page.crawl_id in live and (row := fenced.get((page.page_id, page.lease_id))) is not None
    ]


def _store_products(
    connection: sa.Connection, kept: Kept, live: Mapping[int, sa.Row[Any]], counts: CountsByCrawl
) -> fill_rates.FillRates:
    """Stores what pages gave, but for what waits until its crawl is judged. Returns what they say
    of their fields, to be counted."""
    # A crawl that is asking only wants to know which products are there still.
    read = [(page, row) for page, row in kept if not live[page.crawl_id].asking]
    rates = fill_rates.read_fill_rates(connection, _read(read))
    several = [(page.page_id, page.named) for page, _ in kept if page.named is not None]
    if several:
        page_items.mark_absent(connection, several)
        page_items.reread_shared(connection, several)
    extracted = [product for page, _ in read for product in page.products]
    held = held_values.hold_differences(connection, extracted, rates.observed)
    rates.add_vanished(held.vanished)
    # One that was read and gives what it gave before comes without its products.
    same = [
        (page.page_id, page.crawl_id) for page, _ in kept if page.verdict.status is Status.UNCHANGED
    ]
    products.confirm_products(connection, same)
    holding = [crawl_id for crawl_id, crawl in live.items() if crawl.holds_new]
    for written in products.upsert_products(connection, held.products, holding):
        counts[written.crawl_id].count_written(written.inserted, written.changed, written.repriced)
        rates.add_strayed(written.crawl_id, written.strayed)
    # A product may be another page's by now, or one that a group beside this one has just stored.
    if several:
        page_items.reread_shared(connection, several)
    return rates


def _add_links(
    connection: sa.Connection,
    kept: Kept,
    live: Mapping[int, sa.Row[Any]],
    limits: Mapping[int, CrawlLimits],
    counts: CountsByCrawl,
) -> int:
    """Adds the pages that were found, while there is room. Returns how many are due now."""
    added = frontier.add_pages(
        connection, chains.collect_links(connection, kept), _room(live, limits)
    )
    for change in added.pages:
        counts[change.crawl_id].count_added(change)
    for crawl_id, cut in added.cut.items():
        counts[crawl_id].links_cut += cut
        counts[crawl_id].links_fruitless += added.barren[crawl_id]
    return len(added.pages)


def _read(kept: Kept) -> Iterator[fill_rates.ReadPage]:
    for page, row in kept:
        if page.observations is not None and row.status in fill_rates.COUNTED:
            yield fill_rates.ReadPage(page.crawl_id, page.page_id, page.observations)


def _row(page: PageResult) -> dict[str, Any]:
    hosts = page.outcome.blame is Blame.HOST
    row = {
        "id": page.page_id,
        "lease": page.lease_id,
        "crawl": page.crawl_id,
        "status": page.verdict.status,
        "delay": page.verdict.delay_s,
        "charged": int(page.verdict.charged and not hosts),
        "host_charged": int(page.verdict.charged and hosts),
        "outcome": page.outcome,
        "tried": page.outcome.tried,
        "code": page.http_status,
        "error": page.error,
        "excerpt": page.excerpt,
        "hash": page.content_hash,
    }
    if page.last_item_count is not None:
        row["last_item_count"] = page.last_item_count
    if page.head:
        row["head"] = page.head
    visit = page.next_visit
    if visit is not None:
        if visit.extractor_hash is not None:
            etag, modified, body_hash = visit.validators
            row |= {"etag": etag, "modified": modified, "body_hash": body_hash}
            row["extractor_hash"] = visit.extractor_hash
        row |= {"if_changed_s": visit.if_changed_s, "if_unchanged_s": visit.if_unchanged_s}
    if page.move:
        row |= {
            "queue": page.move.queue,
            "level": page.move.level,
            "blocked": page.move.blocked,
            "probe": page.move.probe,
        }
    return row


def _count_page(counts: CountsByCrawl, page: PageResult, row: Fenced) -> None:
    mine = counts[page.crawl_id]
    mine.links_cut += page.partial
    mine.links_disallowed += page.disallowed
    mine.count_settled(PageChange(page.crawl_id, Kind(row.kind), row.status))
    if page.outcome.tried:
        mine.fetches += 1
        mine.not_modified += page.outcome is Outcome.NOT_MODIFIED
        mine.retries += row.status == Status.DUE


def _settlings(kept: Kept) -> Iterator[tuple[int, Outcome, bool, FetchCost]]:
    for page, row in kept:
        cost = page.cost
        if cost is not None:
            yield page.crawl_id, page.outcome, row.status != Status.DUE, cost


def _room(live: Mapping[int, sa.Row[Any]], limits: Mapping[int, CrawlLimits]) -> list[Room]:
    return [
        Room(
            crawl_id,
            limits[crawl_id].listings - row.discovery_total,
            limits[crawl_id].products - row.product_total,
            limits[crawl_id].barren_depth_max,
        )
        for crawl_id, row in live.items()
    ]
