"""The one transaction in which pages get their verdicts: fence, verdicts, products, versions, links
and counters.

Everything is stored or nothing. The fence is the first statement: a page that is no longer in its
lease keeps its state, and nothing that was extracted from it is stored or counted.
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
    Outcome,
    Revisit,
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
from scraper.registry import plugin_hooks
from scraper.results import fill_rates, held_values, page_items, products
from scraper.results import listing_traps as chains
from scraper.results.listing_traps import max_barren_depth
from scraper.results.products import NewProduct

FENCE = sa.text(sql("results/settle_pages.sql"))
NOW = sa.text("SELECT now()")
READ_AGAIN = sa.text("""
UPDATE pages SET extractor_hash = NULL, fetched_at = NULL WHERE id = ANY (:ids)
""")

NO_EXTRAS: Mapping[str, object] = {}


def no_extras() -> Mapping[str, object]:
    """Returns the one empty mapping, which all results without extras share."""
    return NO_EXTRAS


@value
class PageResult:
    """A page with its verdict and everything that the tables learn from it, fenced by the lease id.

    `error` is a short sentence for people, `excerpt` the bounded start of a body that could not be
    used, and `head` the headers that came with it. `move` is the next queue and level of a page
    that is due again.

    `links` and `products` are empty unless the page is ok. `named` has the ids of all products on a
    page with several, including those that could not be read; None if they are unknown. A `partial`
    page counts as one link that was cut, since the number is unknown. `lists` is a hash of the
    products that a listing links to, `disallowed` counts its links that robots.txt disallows. With
    `only_new_links`, links to known products were removed before. `last_item_count` is how many
    products a listing names, or how many fields a product page has; None keeps the stored number.

    `signal` is for the host's tier, `observations` for the crawl's fields, and `cost` is None if it
    was not measured. `extras` is what plug-ins keep of the page, by their names.
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
    revisit: Revisit | None = None
    only_new_links: bool = False
    extras: Mapping[str, object] = field(default_factory=no_extras)
    last_item_count: int | None = None


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """How many pages of each kind a crawl may have, and how deep barren listings may go. Links
    beyond these limits are only counted."""

    listings: int
    products: int
    barren_depth_max: int = max_barren_depth(20)


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """What a settling transaction did: how many pages were in their lease, how many pages it added,
    and which crawls have no open page left. `kept` has the pages with `extras` of plug-ins, with
    their status in the frontier; `at` is then the time of the transaction."""

    held: int
    added: int
    drained: list[int]
    kept: list[tuple[PageResult, Status]] = field(default_factory=list)
    at: datetime | None = None


class FencedPage(NamedTuple):
    """A page that passed the fence. (A NamedTuple, since SQLAlchemy's rows take 0.7 us to name a
    column.)"""

    page_id: int
    lease: UUID
    crawl_id: int
    kind: str
    status: str


# Pages whose lease was held.
KeptPages = Sequence[tuple[PageResult, FencedPage]]


def settle_pages(
    connection: sa.Connection,
    pages: Sequence[PageResult],
    limits: Mapping[int, CrawlLimits],
    worker: str = "",
) -> StoredGroup:
    """Stores a group of settled pages. `limits` has an entry for each of their crawls; `worker` is
    the name of the worker that settled them."""
    live = crawls.hold_crawls(connection, (page.crawl_id for page in pages))
    kept = _fence_pages(connection, pages, live)
    counts = CountsByCrawl()
    for page, row in kept:
        _count_page(counts, page, row)
    rates = _store_products(connection, kept, live, counts)
    added = _add_links(connection, kept, live, limits, counts)
    signals = [page.signal for page, _ in kept if page.signal is not None]
    host_tiers.apply_signals(connection, signals)
    throughput.add_tries(connection, worker, _tries_of(kept))
    rates.store_counts(connection)
    drained = add_counts(connection, counts)
    with_extras = [(page, Status(row.status)) for page, row in kept if page.extras]
    at = connection.execute(NOW).scalar_one() if with_extras else None
    return StoredGroup(len(kept), added, drained, with_extras, at)


def _fence_pages(
    connection: sa.Connection, pages: Sequence[PageResult], live: Mapping[int, sa.Row[Any]]
) -> KeptPages:
    """Stores the verdicts of the pages that are still in their lease and whose crawl is running,
    and returns these pages."""
    rows = connection.execute(FENCE, {"rows": dumps([_fence_row(page) for page in pages])})
    # A group may have a page twice: from a lost lease and from a live one.
    fenced = {(row.page_id, row.lease): row for row in map(FencedPage._make, rows)}
    return [
        (page, row)
        for page in pages
        if page.crawl_id in live and (row := fenced.get((page.page_id, page.lease_id))) is not None
    ]


def _store_products(
    connection: sa.Connection,
    kept: KeptPages,
    live: Mapping[int, sa.Row[Any]],
    counts: CountsByCrawl,
) -> fill_rates.FillRates:
    """Stores the pages' products, except those that wait for their crawl's judgement. Returns the
    fill rates, which the caller counts."""
    # A crawl that requests pages again does not count them twice. If it requests missed products,
    # it only checks whether their pages still give them.
    first = [(page, row) for page, row in kept if not live[page.crawl_id].asking]
    rates = fill_rates.read_fill_rates(connection, _read_pages(first))
    asking = [crawl_id for crawl_id, crawl in live.items() if crawl.asking]
    hooks = plugin_hooks().values() if asking else ()
    ids = [page.page_id for page, _ in kept]
    again = {id_ for hook in hooks for id_ in hook.confirming_pages(connection, asking, ids)}
    read = [*first, *(pair for pair in kept if pair[0].page_id in again)]
    _reread_checked(connection, kept, read)
    several = [(page.page_id, page.named) for page, _ in kept if page.named is not None]
    if several:
        page_items.mark_absent(connection, several)
        page_items.reread_shared(connection, several)
    extracted = [product for page, _ in read for product in page.products]
    observed = {page.page_id: page.observations for page, _ in read if page.observations}
    held = held_values.hold_differences(connection, extracted, observed)
    rates.add_vanished(held.vanished)
    # A page that gives what it gave before comes without its products.
    same = [
        (page.page_id, page.crawl_id) for page, _ in read if page.verdict.status is Status.UNCHANGED
    ]
    products.confirm_products(connection, same)
    holding = [crawl_id for crawl_id, crawl in live.items() if crawl.holds_new]
    for written in products.upsert_products(connection, held.products, holding):
        counts[written.crawl_id].count_written(written.inserted, written.changed, written.repriced)
        rates.add_strayed(written.crawl_id, written.strayed)
    # A product may belong to another page now, or may have been stored by a concurrent group.
    if several:
        page_items.reread_shared(connection, several)
    return rates


def _reread_checked(connection: sa.Connection, kept: KeptPages, read: KeptPages) -> None:
    """Makes the next crawl read good product pages whole whose products are not stored: their
    validators and age belong to content that was only checked."""
    good = (Status.OK, Status.UNCHANGED)
    ids = {row.page_id for _, row in kept if row.kind == Kind.PRODUCT and row.status in good}
    ids -= {page.page_id for page, _ in read}
    if ids:
        connection.execute(READ_AGAIN, {"ids": sorted(ids)})


def _add_links(
    connection: sa.Connection,
    kept: KeptPages,
    live: Mapping[int, sa.Row[Any]],
    limits: Mapping[int, CrawlLimits],
    counts: CountsByCrawl,
) -> int:
    """Adds the linked pages while there is room. Returns how many are due now."""
    added = frontier.add_pages(
        connection, chains.collect_links(connection, kept), _room_of(live, limits)
    )
    for change in added.pages:
        counts[change.crawl_id].count_added(change)
    for crawl_id, cut in added.cut.items():
        counts[crawl_id].links_cut += cut
        counts[crawl_id].links_fruitless += added.barren[crawl_id]
    return len(added.pages)


def _read_pages(kept: KeptPages) -> Iterator[fill_rates.ReadPage]:
    for page, row in kept:
        if page.observations is not None and row.status in fill_rates.COUNTED:
            yield fill_rates.ReadPage(page.crawl_id, page.page_id, page.observations)


def _fence_row(page: PageResult) -> dict[str, Any]:
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
    revisit = page.revisit
    if revisit is not None:
        if revisit.extractor_hash is not None:
            etag, modified, body_hash = revisit.validators
            row |= {"etag": etag, "modified": modified, "body_hash": body_hash}
            row["extractor_hash"] = revisit.extractor_hash
        row |= {"if_changed_s": revisit.if_changed_s, "if_unchanged_s": revisit.if_unchanged_s}
    if page.move:
        row |= {
            "queue": page.move.queue,
            "level": page.move.level,
            "blocked": page.move.blocked,
            "probe": page.move.probe,
        }
    return row


def _count_page(counts: CountsByCrawl, page: PageResult, row: FencedPage) -> None:
    mine = counts[page.crawl_id]
    mine.links_cut += page.partial
    mine.links_disallowed += page.disallowed
    mine.count_settled(PageChange(page.crawl_id, Kind(row.kind), row.status))
    if page.outcome.tried:
        mine.fetches += 1
        mine.not_modified += page.outcome is Outcome.NOT_MODIFIED
        mine.retries += row.status == Status.DUE


def _tries_of(kept: KeptPages) -> Iterator[tuple[int, Outcome, bool, FetchCost]]:
    for page, row in kept:
        cost = page.cost
        if cost is not None:
            yield page.crawl_id, page.outcome, row.status != Status.DUE, cost


def _room_of(live: Mapping[int, sa.Row[Any]], limits: Mapping[int, CrawlLimits]) -> list[Room]:
    return [
        Room(
            crawl_id,
            limits[crawl_id].listings - row.discovery_total,
            limits[crawl_id].products - row.product_total,
            limits[crawl_id].barren_depth_max,
        )
        for crawl_id, row in live.items()
    ]
