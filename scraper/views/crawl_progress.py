"""How a crawl is doing, for people: one line, a summary, JSON. Reads PostgreSQL, changes nothing.

The time that is left is only named once every listing is read: before that the total is not known,
and the phase says "discovering".
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from scraper.errors import NotFoundError
from scraper.frontier.progress import CrawlProgress, read_progress

# Seconds between two lines for a log or a pipe.
PLAIN_LINE_S = 5.0


def average_per_s(progress: CrawlProgress) -> float:
    """Returns the crawl's pages per second since it began, without pages that were not due."""
    fetched = progress.done - progress.counts.fresh
    return fetched / progress.elapsed_s if progress.elapsed_s > 0 else 0.0


def per_s(progress: CrawlProgress) -> float:
    """Returns the pages per second of the last half minute, or of an ended crawl as a whole."""
    return progress.recent_per_s if progress.active else average_per_s(progress)


def left_s(progress: CrawlProgress, per_s: float) -> float | None:
    """Returns the seconds until the last page at this rate. None while the total grows, or if the
    crawl is paused or does not move."""
    if progress.phase != "fetching" or progress.paused or per_s <= 0:
        return None
    return (progress.total - progress.done) / per_s


def as_json(progress: CrawlProgress) -> dict[str, Any]:
    """Returns the JSON of `scraper status` for one crawl, with flat counts."""
    values: dict[str, Any] = asdict(progress)
    counts = values.pop("counts")
    left = left_s(progress, progress.recent_per_s)
    derived = {
        "phase": progress.phase,
        "ending": progress.ending,
        "total": progress.total,
        "done": progress.done,
        "failed": progress.failed,
        "pages_per_s": round(average_per_s(progress), 2),
        "recent_per_s": round(progress.recent_per_s, 2),
        "left_s": None if left is None else round(left),
        "left": format_eta(progress, progress.recent_per_s) if progress.active else None,
    }
    return {**values, **counts, **derived}


def format_eta(progress: CrawlProgress, per_s: float) -> str:
    """The time left as h:mm:ss, "discovering" while the total grows, "–" while nothing moves or is
    to move."""
    if progress.phase == "discovering":
        return "discovering"
    left = left_s(progress, per_s)
    return "–" if left is None else str(timedelta(seconds=round(left)))


def describe_progress(progress: CrawlProgress, per_s: float) -> str:
    """Describes a crawl on one line, for a log or a pipe."""
    return (
        f"{progress.site}: {progress.phase}, {progress.done:,}/{progress.total:,} pages, "
        f"{per_s:.0f} pages/s, {progress.failed:,} failed, {progress.counts.retries:,} retries, "
        f"left: {format_eta(progress, per_s)}"
    )


def reads_nothing(progress: CrawlProgress) -> bool:
    """Returns whether a crawl has skipped every product that it came to, since none is due."""
    return 0 < progress.counts.product_done == progress.counts.fresh


def describe_pages(progress: CrawlProgress) -> str:
    """Says how many pages were fetched, and how many were skipped.

    `describe_pages(done) == 'fetched 50, not due 1,000'`
    """
    fresh = progress.counts.fresh
    if not fresh:
        return f"{progress.done:,} pages"
    if reads_nothing(progress):
        return f"0 prices read, {fresh:,} not due"
    return f"fetched {progress.done - fresh:,}, not due {fresh:,}"


def summarize_crawl(progress: CrawlProgress) -> str:
    """Summarizes a finished crawl in a few lines."""
    c = progress.counts
    rate = average_per_s(progress)
    lines = [
        f"{progress.site}: crawl {progress.id} {progress.ending or progress.status} "
        f"in {progress.elapsed_s:.1f} s, {describe_pages(progress)}, {rate:.0f} pages/s",
        f"  pages: {c.ok:,} ok, {c.unchanged:,} unchanged, {c.gone:,} gone, {c.dead:,} dead, "
        f"{c.invalid:,} invalid{f', {c.dropped:,} dropped' if c.dropped else ''}; "
        f"{c.fetches:,} fetches, {c.retries:,} of them to be retried",
        f"  products: {c.products_new:,} new, {c.products_changed:,} changed, "
        f"{progress.products_delisted:,} delisted",
    ]
    if progress.coverage is not None:
        lines.append(f"  found: {progress.coverage}")
    if c.not_modified:
        lines.append(
            f"  {c.not_modified:,} product pages answered 304 or the same bytes: not read again "
            "(`--refetch` reads all)"
        )
    if c.fresh:
        lines.append(
            f"  {c.fresh:,} product pages were fetched less than the site's `revisit` age ago and "
            "were not asked again (`--refetch` asks all)"
        )
    if progress.note:
        lines.append(f"  note: {progress.note}")
    if progress.suspect:
        lines.append(
            f"  its data is SUSPECT: nothing was delisted; `scraper report {progress.id}` says why"
        )
    return "\n".join(lines)


def read(connection: sa.Connection, crawl_id: int) -> CrawlProgress:
    """Returns a crawl's progress. Raises `NotFoundError`."""
    rows = read_progress(connection, crawl_id=crawl_id)
    if not rows:
        raise NotFoundError(f"no crawl has the id {crawl_id}; `scraper status` shows ids")
    return rows[0]


def read_one(engine: sa.Engine, crawl_id: int) -> CrawlProgress:
    with engine.connect() as connection:
        return read(connection, crawl_id)
