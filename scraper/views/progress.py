"""How a crawl is doing, for people: one line, a bar, or JSON. Reads PostgreSQL, changes nothing.

The time that is left is only named once every listing is read: before that the total is not known,
and the phase says "discovering".
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from scraper.errors import NotFoundError
from scraper.frontier.progress import Progress, read_progress

POLL_S = 0.5
PLAIN_LINE_S = 5.0
AWAY_S = 60.0


def average_per_s(progress: Progress) -> float:
    """Pages a second since it began."""
    return progress.done / progress.elapsed_s if progress.elapsed_s > 0 else 0.0


def per_s(progress: Progress) -> float:
    """Pages a second: of the last half minute while it goes on, over all once it has ended."""
    return progress.recent_per_s if progress.active else average_per_s(progress)


def left_s(progress: Progress, per_s: float) -> float | None:
    """Seconds until its last page, at this rate; None where nobody can say: the total grows, or
    nothing moves or is to."""
    if progress.phase != "fetching" or progress.paused or per_s <= 0:
        return None
    return (progress.total - progress.done) / per_s


def as_json(progress: Progress) -> dict[str, Any]:
    """What `scraper status --json` prints for one crawl: times in ISO 8601, counts flat."""
    values: dict[str, Any] = asdict(progress)
    counts = values.pop("counts")
    for name in ("slot", "created_at", "started_at", "finished_at"):
        values[name] = values[name].isoformat() if values[name] else None
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
        "left": eta(progress, progress.recent_per_s) if progress.active else None,
    }
    return {**values, **counts, **derived}


def eta(progress: Progress, per_s: float) -> str:
    """The time left as h:mm:ss, "discovering" while the total grows, "–" while nothing moves or is
    to move."""
    if progress.phase == "discovering":
        return "discovering"
    left = left_s(progress, per_s)
    return "–" if left is None else str(timedelta(seconds=round(left)))


def line(progress: Progress, per_s: float) -> str:
    """One line for a log or a pipe."""
    return (
        f"{progress.site}: {progress.phase}, {progress.done:,}/{progress.total:,} pages, {per_s:.0f} pages/s, "
        f"{progress.failed:,} failed, {progress.counts.retries:,} retries, left: {eta(progress, per_s)}"
    )


def summary(progress: Progress) -> str:
    """What a finished crawl came to, in a few lines."""
    c = progress.counts
    rate = average_per_s(progress)
    lines = [
        f"{progress.site}: crawl {progress.id} {progress.ending or progress.status} in {progress.elapsed_s:.1f} s, "
        f"{progress.done:,} pages, {rate:.0f} pages/s",
        f"  pages: {c.ok:,} ok, {c.unchanged:,} unchanged, {c.gone:,} gone, {c.dead:,} dead, {c.invalid:,} invalid"
        + (f", {c.dropped:,} dropped" if c.dropped else "")
        + f"; {c.fetches:,} fetches, {c.retries:,} of them to be retried",
        f"  products: {c.products_new:,} new, {c.products_changed:,} changed, {progress.products_delisted:,} delisted",
    ]
    if c.not_modified:
        lines.append(
            f"  {c.not_modified:,} product pages answered 304: unchanged, and not read again (`--refetch` reads all)"
        )
    if c.fresh:
        lines.append(
            f"  {c.fresh:,} product pages were fetched less than the site's `revisit` age ago and were not asked again"
            " (`--refetch` asks all)"
        )
    if progress.note:
        lines.append(f"  note: {progress.note}")
    if progress.suspect:
        lines.append(
            f"  its data is SUSPECT: nothing was delisted; `scraper report {progress.id}` says why"
        )
    return "\n".join(lines)


def read_one(engine: sa.Engine, crawl_id: int) -> Progress:
    with engine.connect() as connection:
        found = read_progress(connection, crawl_id=crawl_id)
    if not found:
        raise NotFoundError(f"there is no crawl {crawl_id}; `scraper status` shows those there are")
    return found[0]


def _look(engine: sa.Engine, crawl_id: int) -> Progress:
    """The crawl now. A database that is away for a moment (a restart, a failover) is waited for."""
    deadline = time.monotonic() + AWAY_S
    said = False
    while True:
        try:
            return read_one(engine, crawl_id)
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            if not said:
                print("PostgreSQL does not answer; waiting for it", file=sys.stderr, flush=True)
                said = True
            time.sleep(1)


def follow(
    engine: sa.Engine, crawl_id: int, *, alarm: Callable[[Progress], None] | None = None
) -> Progress:
    """Shows a crawl until it ends. `alarm` is called at each look, to say what people should know
    while they wait."""
    return _bar(engine, crawl_id, alarm) if sys.stderr.isatty() else _lines(engine, crawl_id, alarm)


def _lines(engine: sa.Engine, crawl_id: int, alarm: Callable[[Progress], None] | None) -> Progress:
    said_at, said = 0.0, ""
    while True:
        progress = _look(engine, crawl_id)
        now = time.monotonic()
        if progress.active and (now - said_at >= PLAIN_LINE_S or progress.phase != said):
            print(line(progress, progress.recent_per_s), file=sys.stderr, flush=True)
            said_at, said = now, progress.phase
        if alarm:
            alarm(progress)
        if not progress.active:
            return progress
        time.sleep(POLL_S)


def _bar(engine: sa.Engine, crawl_id: int, alarm: Callable[[Progress], None] | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.fields[site]}  [cyan]{task.fields[phase]}"),
        BarColumn(bar_width=None),
        TextColumn(
            "{task.completed:,.0f}/{task.total:,.0f}  {task.fields[speed]}  {task.fields[left]}"
        ),
    )
    with Bar(*columns, console=Console(stderr=True), expand=True, transient=True) as bar:
        task = bar.add_task("crawl", total=0, site="", phase="", speed="", left="")
        while True:
            progress = _look(engine, crawl_id)
            failures = f", [red]{progress.failed:,} failed[/]" if progress.failed else ""
            bar.update(
                task,
                total=progress.total,
                completed=progress.done,
                site=progress.site,
                phase=progress.phase,
                speed=f"{progress.recent_per_s:.0f}/s{failures}",
                left=""
                if progress.phase == "discovering"
                else f"left {eta(progress, progress.recent_per_s)}",
            )
            if alarm:
                alarm(progress)
            if not progress.active:
                return progress
            time.sleep(POLL_S)
