"""Takes back what was lost: expired leases become due pages again, and crawls whose last message was lost end."""

from __future__ import annotations

import sqlalchemy as sa
import structlog

from scraper.discover import dispatch_message
from scraper.domain import Message
from scraper.finish import finish_message
from scraper.stores import crawls, frontier
from scraper.stores.crawls import CountsByCrawl
from scraper.stores.database import retried

log = structlog.get_logger()


def reap(engine: sa.Engine) -> list[Message]:
    """Ends expired leases. Returns a dispatch where pages came back, and a finish for each crawl with nothing open."""

    def work() -> tuple[int, list[int]]:
        with engine.begin() as connection:
            changes = frontier.take_back(connection)
            counts = CountsByCrawl()
            for change in changes:
                counts[change.crawl_id].settled(change)
            crawls.count(connection, counts)
            return len(changes), crawls.drained(connection)

    pages, drained = retried(work)
    if pages:
        log.warning("leases taken back", pages=pages)
    messages = [finish_message(crawl_id) for crawl_id in drained]
    return [*messages, dispatch_message()] if pages else messages
