"""Reclaims what was lost: expired leases become due pages again; crawls whose last message was lost
end, and so do crawls without progress for hours. Old sums of throughput become coarser, and old
sums and changes are deleted."""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa
import structlog

from scraper.coordinator.discover import dispatch_message
from scraper.coordinator.finish import finish_message
from scraper.domain import CrawlStatus, Message
from scraper.feed import store as changes
from scraper.frontier import crawls, leases, throughput
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.infra import outages
from scraper.infra.database import run_transaction
from scraper.results import held_products
from scraper.results.judgement import crawl_quality, earlier_crawls
from scraper.settings import Settings

log = structlog.get_logger()


def reap(engine: sa.Engine, settings: Settings) -> list[Message]:
    """Ends expired leases, and crawls that have stalled. Returns a dispatch if pages came back, and
    a finish for each crawl without open pages."""
    pages, drained = run_transaction(engine, _reclaim_leases)
    run_transaction(engine, lambda connection: _end_stalled(connection, settings))
    run_transaction(
        engine, lambda connection: throughput.tidy_buckets(connection, settings.throughput_days)
    )
    run_transaction(engine, lambda connection: changes.trim_feed(connection, settings.changes_days))
    judge_leftovers(engine)
    if pages:
        log.warning("expired leases reclaimed", pages=pages)
    messages = [finish_message(crawl_id) for crawl_id in drained]
    return [*messages, dispatch_message()] if pages else messages


def _reclaim_leases(connection: sa.Connection) -> tuple[int, list[int]]:
    """Takes expired leases back. Returns how many pages, and the crawls without open pages."""
    settled = leases.reclaim_expired(connection, is_back=outages.postgres().is_recent())
    counts = CountsByCrawl()
    for change in settled:
        counts[change.crawl_id].count_settled(change)
    add_counts(connection, counts)
    return len(settled), crawls.drained_crawls(connection)


def _end_stalled(connection: sa.Connection, settings: Settings) -> None:
    """Ends crawls without progress, such as those whose queue has no worker, with a note on what
    they waited for."""
    minutes = settings.stalled_s / 60
    for crawl_id in crawls.stalled_crawls(connection, minutes):
        wait = crawls.describe_wait(connection, crawl_id)
        note = f"nothing happened for {minutes:.0f} minutes: {wait}"
        if crawls.stop_crawl(connection, crawl_id, note, CrawlStatus.FAILED):
            log.error("crawl stalled", crawl=crawl_id, note=note)


def judge_leftovers(engine: sa.Engine) -> None:
    """Judges crawls that `finish` did not end. A crawl that cannot be judged does not keep others
    from it. Raises an error which says that PostgreSQL is away."""
    with engine.connect() as connection:
        crawl_ids = crawl_quality.unjudged_crawls(connection)
    for crawl_id in crawl_ids:
        try:
            run_transaction(engine, partial(_judge_leftover, crawl_id=crawl_id))
        except Exception as error:
            if outages.is_postgres_away(error):
                raise
            log.exception("crawl could not be judged", crawl=crawl_id)


def _judge_leftover(connection: sa.Connection, crawl_id: int) -> None:
    crawl = crawl_quality.lock_unjudged(connection, crawl_id)
    if crawl is None:
        return
    before = earlier_crawls.suspect_crawl(connection, crawl)
    status = CrawlStatus(crawl.status)
    suspect = crawl_quality.judge_data(connection, crawl, status, before)
    held_products.release_products(
        connection, crawl_id, crawl.site_id, suspect=suspect, whole=False
    )
