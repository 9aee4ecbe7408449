"""Ends a crawl, exactly once, when none of its pages is open: its status, its note, and what the shop no longer lists.

A crawl that could not read every listing has not seen the whole catalogue, so its misses delist nothing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
import structlog

from scraper.domain import CrawlStatus, Message
from scraper.policy.routing import COORDINATOR
from scraper.stores import crawls
from scraper.stores.database import retried

log = structlog.get_logger()

INCOMPLETE = sa.text("""
SELECT count(*) AS pages, min(url) AS example, min(error) AS error FROM pages
 WHERE crawl_id = :id AND kind <> 'product'
   AND (status IN ('dead', 'invalid') OR (status = 'gone' AND (depth = 0 OR kind = 'sitemap')))
""")


def finish(engine: sa.Engine, crawl_id: int) -> list[Message]:
    """Ends a running crawl with no open page; does nothing otherwise."""

    def work() -> None:
        with engine.begin() as connection:
            crawl = crawls.lock_drained(connection, crawl_id)
            if crawl is None:
                return
            unread = connection.execute(INCOMPLETE, {"id": crawl_id}).one()
            whole = unread.pages == 0 and crawl.links_cut == 0
            delisted = crawls.delist(connection, crawl_id, crawl.site_id) if whole else 0
            status, note = judge_crawl(crawl, unread)
            crawls.end(connection, crawl_id, status, note, delisted)
            log.info("crawl ended", crawl=crawl_id, status=status, note=note, delisted=delisted)

    retried(work)
    return []


def judge_crawl(crawl: Any, unread: Any) -> tuple[CrawlStatus, str | None]:
    """Failed where nothing at all could be read, completed otherwise; the note says what is missing."""
    notes = []
    if unread.pages:
        reason = f" ({unread.error})" if unread.error else ""
        notes.append(f"{unread.pages} listing pages could not be read, such as {unread.example}{reason}")
    if crawl.links_cut:
        notes.append(f"{crawl.links_cut} links were left out: the definition's limits, or a page that breaks off")
    if crawl.dead + crawl.invalid:
        notes.append(f"{crawl.dead} pages dead and {crawl.invalid} invalid")
    nothing = crawl.ok + crawl.unchanged == 0
    if nothing and not notes:
        notes.append("no page could be read")
    return (CrawlStatus.FAILED if nothing else CrawlStatus.COMPLETED), "; ".join(notes) or None


def finish_message(crawl_id: int) -> Message:
    return Message("finish", COORDINATOR, {"crawl_id": crawl_id})
