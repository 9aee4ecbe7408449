"""Adds the first pages of a crawl: its start URLs and sitemaps. Fetches nothing: workers do that,
under the same budgets and verdicts as for every other page."""

from __future__ import annotations

import sqlalchemy as sa
import structlog
from pydantic import ValidationError

from scraper.domain import CrawlStatus, Message
from scraper.frontier import crawls
from scraper.frontier import pages as frontier
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.infra.database import run_transaction
from scraper.rules.routing import COORDINATOR
from scraper.settings import Settings
from scraper.sites.definition import Site

log = structlog.get_logger()


def discover(engine: sa.Engine, settings: Settings, crawl_id: int) -> list[Message]:
    """Starts a planned crawl. A second call for the same crawl does nothing."""
    # Imported late: they import everything that fetches, which slows a coordinator's start.
    from scraper.crawl.context import make_context
    from scraper.crawl.new_pages import new_pages, start_links

    def start_planned(connection: sa.Connection) -> bool:
        planned = crawls.lock_planned(connection, crawl_id)
        if planned is None:
            return False
        try:
            site = Site.model_validate(planned.definition)
        except ValidationError as error:
            # Another version stored it; the site's next crawl must not wait for this one.
            problems = error.error_count()
            log.error(
                "stored site definition is no longer valid", crawl=crawl_id, problems=problems
            )
            note = "its site definition is no longer valid"
            crawls.end_crawl(connection, crawl_id, CrawlStatus.FAILED, note)
            return False
        context = make_context(crawl_id, planned.site_id, site, settings)
        pages = new_pages(start_links(context), context, depth=0)
        crawls.start_crawl(connection, crawl_id)
        room = frontier.Room(crawl_id, context.limits.listings, context.limits.products)
        counts = CountsByCrawl()
        added = frontier.add_pages(connection, pages, [room])
        for change in added.pages:
            counts[crawl_id].count_added(change)
        counts[crawl_id].links_cut += added.cut[crawl_id]
        add_counts(connection, counts)
        log.info("crawl started", site=site.name, crawl=crawl_id, start_pages=len(pages))
        return True

    return [dispatch_message()] if run_transaction(engine, start_planned) else []


def dispatch_message() -> Message:
    return Message("dispatch", COORDINATOR, expires_s=5.0)
