"""Ends a crawl, exactly once, when none of its pages is open: its status, its note, and what the
shop no longer lists.

A crawl that could not read every listing has not seen the whole catalogue, and one whose data is
suspect may not have: their misses delist nothing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
import structlog

from scraper.domain import CrawlStatus, Message
from scraper.frontier import crawls
from scraper.frontier.crawls import REPLAY
from scraper.infra.database import retried
from scraper.rules.quality import Reason
from scraper.rules.routing import COORDINATOR
from scraper.settle import crawl_quality
from scraper.settle.plausibility import ShownTwice

log = structlog.get_logger()

# It reads pages of the site alone, which has an index: no more than the site has. Product pages may
# have left already, so the good ones are what the crawl has counted beside its good listings, which
# stay until it has ended; or what its listings named and is remembered (counted within a few
# percent), for that was good.
LISTINGS = sa.text("""
SELECT count(*) FILTER (WHERE unread) AS unread, min(url) FILTER (WHERE unread) AS example,
       min(error) FILTER (WHERE unread) AS error,
       count(*) FILTER (WHERE unread AND status = 'invalid' AND known_for > 1) AS emptied,
       (array_agg(url ORDER BY fruitless DESC, id) FILTER (WHERE fruitless > 0))[1] AS fruitless,
       count(*) FILTER (WHERE doubted) AS doubtful,
       mode() WITHIN GROUP (ORDER BY error) FILTER (WHERE doubted) AS doubt,
       (SELECT CASE WHEN products_listed > 1.05 * product_total THEN ok + unchanged + 1
                    ELSE ok + unchanged END
          FROM crawls WHERE id = :id)
         > count(*) FILTER (WHERE kind <> 'product' AND status IN ('ok', 'unchanged'))
       AS any_product
  FROM (SELECT *, kind <> 'product'
                  AND (status IN ('dead', 'invalid')
                       OR (status = 'gone' AND (depth = 0 OR kind = 'sitemap'))) AS unread,
               kind = 'product' AND status = 'invalid' AND last_outcome = 'doubtful' AS doubted
          FROM pages WHERE site_id = :site_id AND crawl_id = :id) AS of_crawl
""")

# Listings alone have an index.
SHOWN_TWICE = sa.text("""
SELECT coalesce(sum(pages), 0) AS listings, coalesce(sum(pages - 1), 0) AS repeated,
       (array_agg(url ORDER BY pages DESC))[1] AS example
  FROM (SELECT count(*) AS pages, max(url) AS url FROM pages
         WHERE crawl_id = :id AND lists IS NOT NULL AND known_for > 1 GROUP BY lists) AS shown
""")


def finish(engine: sa.Engine, crawl_id: int) -> list[Message]:
    """Ends a running crawl with no open page; does nothing otherwise."""

    def work() -> None:
        with engine.begin() as connection:
            crawl = crawls.lock_drained(connection, crawl_id)
            if crawl is None:
                return
            read = connection.execute(LISTINGS, {"id": crawl_id, "site_id": crawl.site_id}).one()
            status, note = judge_crawl(crawl, read)
            suspect = crawl_quality.judge(connection, crawl, status)
            # A replay has asked for a few pages only.
            whole = status is CrawlStatus.COMPLETED and crawl.trigger != REPLAY
            delisted = 0
            if whole and read.unread == 0 and crawl.links_cut == 0:
                shown = connection.execute(SHOWN_TWICE, {"id": crawl_id}).one()
                listings = ShownTwice(int(shown.listings), int(shown.repeated), shown.example)
                before = crawl_quality.doubted_before(connection, crawl)
                with connection.begin_nested() as savepoint:
                    misses = crawls.delist(connection, crawl_id, crawl.site_id, before)
                    odd = crawl_quality.judge_misses(connection, crawl, misses.missed, listings)
                    if suspect or odd is not None:
                        savepoint.rollback()
                    else:
                        delisted = misses.delisted
                crawl_quality.store_misses(connection, crawl.id, misses.missed, listings)
                if odd is not None and not suspect:
                    suspect = crawl_quality.suspect_also(connection, crawl.id, odd)
            elif read.emptied and crawl.trigger != REPLAY:
                odd = Reason(None, "listings", note or "")
                suspect = crawl_quality.suspect_also(connection, crawl.id, odd)
            crawls.end(connection, crawl_id, status, note, delisted)
            facts = {"status": status, "suspect": suspect, "note": note, "delisted": delisted}
            log.info("crawl ended", crawl=crawl_id, **facts)

    retried(work)
    return []


def judge_crawl(crawl: Any, read: Any) -> tuple[CrawlStatus, str | None]:
    """Failed where nothing could be read, or not one product page was good; else completed. The
    note says what is missing."""
    notes = []
    if read.unread:
        reason = f" ({read.error})" if read.error else ""
        notes.append(
            f"{read.unread} listing pages could not be read, such as {read.example}{reason}"
        )
    if crawl.links_cut:
        why = "the definition's limits, or a page that breaks off"
        notes.append(f"{crawl.links_cut} links were left out: {why}")
    if crawl.links_fruitless:
        notes.append(
            f"{crawl.links_fruitless} links to listings were left out behind pages that brought "
            f"nothing new (`limits.fruitless`), such as {read.fruitless}"
        )
    if crawl.links_disallowed:
        notes.append(
            f"{crawl.links_disallowed} links to listings were left out, since robots.txt disallows "
            f"them"
        )
    if crawl.dead + crawl.invalid:
        doubtful = f", {read.doubtful} of them doubtful: {read.doubt}" if read.doubtful else ""
        notes.append(f"{crawl.dead} pages dead and {crawl.invalid} invalid{doubtful}")
    nothing = crawl.ok + crawl.unchanged == 0
    no_product = crawl.product_total > 0 and not read.any_product
    if no_product:
        notes.append(f"not one of {crawl.product_total} product pages was good")
    elif nothing and not notes:
        notes.append("no page could be read")
    status = CrawlStatus.FAILED if nothing or no_product else CrawlStatus.COMPLETED
    return status, "; ".join(notes) or None


def finish_message(crawl_id: int) -> Message:
    return Message("finish", COORDINATOR, {"crawl_id": crawl_id})
