"""Ends a crawl, exactly once, when none of its pages is open: sets its status and note, and delists
what the shop no longer lists. Before that, the crawl requests the pages of products that it would
delist, and again some of those whose changes are in doubt.

A crawl that could not read every listing has not seen the whole catalogue, and a suspect crawl may
not have: products that they miss are not delisted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
import structlog

from scraper.coordinator.discover import dispatch_message
from scraper.domain import CrawlStatus, Message
from scraper.frontier import crawls
from scraper.frontier.crawls import PARTIAL
from scraper.infra.database import roll_back, run_transaction
from scraper.infra.statements import sql
from scraper.quality.report import read_block
from scraper.registry import plugin_hooks
from scraper.results import held_products, missed_products
from scraper.results.judgement import crawl_quality, earlier_crawls
from scraper.results.judgement.earlier_crawls import SuspectCrawl
from scraper.results.judgement.plausibility import ShownTwice
from scraper.rules.quality import NOT_FULL, Reason
from scraper.rules.routing import COORDINATOR

log = structlog.get_logger()

LISTINGS = sa.text(sql("coordinator/read_listings.sql"))

# Only listings are in the index on `lists`.
SHOWN_TWICE = sa.text("""
SELECT coalesce(sum(pages), 0) AS listings, coalesce(sum(pages - 1), 0) AS repeated,
       (array_agg(url ORDER BY pages DESC))[1] AS example
  FROM (SELECT count(*) AS pages, max(url) AS url FROM pages
         WHERE crawl_id = :id AND lists IS NOT NULL AND last_item_count > 1 GROUP BY lists) AS shown
""")


def finish(engine: sa.Engine, crawl_id: int) -> list[Message]:
    """Ends a running crawl without open pages; does nothing otherwise."""
    goes_on = run_transaction(engine, lambda connection: _end_crawl(connection, crawl_id))
    return [dispatch_message()] if goes_on else []


def _end_crawl(connection: sa.Connection, crawl_id: int) -> bool:
    """Ends the crawl, or returns True if it goes on with pages that it requests again, or of
    products that no listing named."""
    crawl = crawls.lock_drained(connection, crawl_id)
    if crawl is None:
        return False
    wanted = {"id": crawl_id, "site_id": crawl.site_id, "not_full": NOT_FULL}
    wanted["follows"] = (crawl.definition.get("sitemap") or {}).get("follow", True)
    read = connection.execute(LISTINGS, wanted).one()
    status, note = judge_ending(crawl, read, read_block(connection, crawl_id))
    # Replays and planned visits request only a few pages.
    whole = status is CrawlStatus.COMPLETED and crawl.trigger not in PARTIAL
    complete = whole and read.unread == 0 and crawl.links_cut == 0
    before = earlier_crawls.suspect_crawl(connection, crawl)
    if _request_pages(connection, crawl, before, complete=complete):
        crawls.begin_asking(connection, crawl_id)
        return True
    alive, remark = missed_products.count_alive(connection, crawl)
    suspect = crawl_quality.judge_data(connection, crawl, status, before, alive)
    delisted = 0
    if complete:
        note = "; ".join(filter(None, (note, remark))) or None
        delisted, odd = _delist_missed(connection, crawl, before, suspect=suspect)
        if odd is not None and not suspect:
            suspect = crawl_quality.add_reason(connection, crawl.id, odd)
    elif (read.emptied or read.not_full) and crawl.trigger not in PARTIAL:
        odd = Reason(None, "listings", note or "")
        suspect = crawl_quality.add_reason(connection, crawl.id, odd)
    held_products.release_products(
        connection, crawl_id, crawl.site_id, suspect=suspect, whole=whole
    )
    crawls.end_crawl(connection, crawl_id, status, note, delisted)
    facts = {"status": status, "suspect": suspect, "note": note, "delisted": delisted}
    log.info("crawl ended", crawl=crawl_id, **facts)
    return False


def _request_pages(
    connection: sa.Connection, crawl: Any, before: SuspectCrawl | None, *, complete: bool
) -> int:
    """Takes pages that decide on a doubt into the crawl. Returns how many."""
    hooks = plugin_hooks().values()
    again = sum(hook.request_again(connection, crawl, before, complete=complete) for hook in hooks)
    if complete:
        held_products.move_known(connection, crawl.id)
        doubted = before.missed_id if before else None
        again += missed_products.request_missed(connection, crawl, doubted)
    return again


def _delist_missed(
    connection: sa.Connection, crawl: Any, before: SuspectCrawl | None, *, suspect: bool
) -> tuple[int, Reason | None]:
    """Counts the products that a complete crawl missed. Returns how many it delisted, and why its
    misses make it suspect. The misses of a suspect crawl do not count. `before` is the previous
    crawl, if that was suspect."""
    shown = connection.execute(SHOWN_TWICE, {"id": crawl.id}).one()
    listings = ShownTwice(int(shown.listings), int(shown.repeated), shown.example)
    doubted = earlier_crawls.doubted_crawl(connection, crawl.id, before)
    delisted = 0
    with connection.begin_nested() as savepoint:
        confirmed = before is None or before.missed_id is None or doubted is not None
        misses = missed_products.delist_missed(connection, crawl, doubted, confirmed=confirmed)
        odd = missed_products.judge_misses(connection, crawl, misses, listings, before)
        if suspect or odd is not None:
            roll_back(connection, savepoint)
        else:
            delisted = misses.delisted
    missed_products.store_misses(connection, crawl.id, misses, listings)
    return delisted, odd


def judge_ending(crawl: Any, read: Any, block: str) -> tuple[CrawlStatus, str | None]:
    """Returns a crawl's status and a note on what it lacks. A crawl fails if nothing could be read,
    or if no product page was good. Causes come first in the note, since screens cut long texts;
    `block` is why its pages look like a block."""
    nothing = crawl.ok + crawl.unchanged == 0
    no_product = crawl.product_total > 0 and not read.any_product
    notes = []
    if no_product:
        of = (
            f"of {crawl.product_total} product pages" if crawl.product_total > 1 else "product page"
        )
        notes.append(_with_cause(block or read.product_error, f"not one {of} was good"))
    notes += [*_listing_notes(read), *_link_notes(crawl, read)]
    if crawl.dead + crawl.invalid > read.unusable:
        doubtful = f", {read.doubtful} of them doubtful: {read.doubt}" if read.doubtful else ""
        given_up = [
            _count_pages(number, word)
            for word, number in (("dead", crawl.dead), ("invalid", crawl.invalid))
            if number
        ]
        text = " and ".join(given_up) + doubtful
        notes.append(text if no_product else _with_cause(block, text))
    if nothing and not notes:
        notes.append("no page could be read")
    status = CrawlStatus.FAILED if nothing or no_product else CrawlStatus.COMPLETED
    return status, "; ".join(notes) or None


def _listing_notes(read: Any) -> Iterator[str]:
    """Yields what could not be read of the listings."""
    if read.unread:
        lists = _such_as(read.unread, "listing page", "could not be read", read.example)
        yield _with_cause(read.error, lists)
    if read.broken:
        verb = "lacks links" if read.broken == 1 else "lack links"
        lists = _such_as(read.broken, "listing page", verb, read.broken_example)
        yield _with_cause(read.broken_error, lists)


def _link_notes(crawl: Any, read: Any) -> Iterator[str]:
    """Yields which links the crawl left out."""
    if crawl.links_cut > read.broken:
        yield f"{crawl.links_cut - read.broken} links were left out: the definition's limits"
    if crawl.links_fruitless:
        yield (
            f"{crawl.links_fruitless} links to listings were left out behind pages that brought "
            f"nothing new (`limits.fruitless`), such as {read.barren_example}"
        )
    if crawl.links_disallowed:
        yield (
            f"{crawl.links_disallowed} links to listings were left out, since robots.txt disallows "
            f"them"
        )


def _with_cause(cause: str | None, effect: str) -> str:
    return f"{cause} ({effect})" if cause else effect


def _such_as(number: int, what: str, verb: str, example: str) -> str:
    return (
        f"1 {what} {verb}: {example}"
        if number == 1
        else (f"{number:,} {what}s {verb}, such as {example}")
    )


def _count_pages(number: int, word: str) -> str:
    return f"1 page {word}" if number == 1 else f"{number:,} pages {word}"


def finish_message(crawl_id: int) -> Message:
    return Message("finish", COORDINATOR, {"crawl_id": crawl_id})
