"""Sites that are crawled every minute while coordinators die: every slot has exactly one crawl, and
none is missing. Only of the slots of a long hole in a network is the latest alone crawled."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import sqlalchemy as sa

from scraper.plugins.demo import definition
from tests.acceptance.chaos.servers import Disorder

NAMES = tuple(f"tick-{n}" for n in range(1, 6))
MINUTE = timedelta(minutes=1)
# Within this time a slot has its crawl, whichever process died.
GRACE = timedelta(seconds=30)
FIRST = "name: demo "
SITES = sa.text("SELECT name, scheduled_since FROM sites WHERE name LIKE 'tick-%' ORDER BY name")
CRAWLS = sa.text("""
SELECT s.name, c.id, c.slot, c.status, c.note, c.created_at, coalesce(c.finished_at, now()) AS finished_at
  FROM crawls c JOIN sites s ON s.id = c.site_id WHERE s.name LIKE 'tick-%' ORDER BY s.name, c.id
""")
ACTIVE = sa.text("SELECT count(*) FROM crawls WHERE status IN ('planned', 'running')")
ENABLED = sa.text("SELECT count(*) FROM sites WHERE enabled AND name LIKE 'tick-%'")


def write(folder: Path, base_url: str) -> None:
    """Their definitions: the tiny shop, every minute."""
    text = definition(base_url)
    assert FIRST in text
    for name in NAMES:
        changed = text.replace(FIRST, f'schedule: "* * * * *"\nname: {name} ', 1)
        (folder / f"{name}.yaml").write_text(changed)


def remove(folder: Path) -> None:
    for name in NAMES:
        (folder / f"{name}.yaml").unlink(missing_ok=True)


def known(engine: sa.Engine) -> bool:
    """A coordinator has taken them over: from now on their slots count."""
    with engine.connect() as connection:
        return connection.execute(ENABLED).scalar() == len(NAMES)


def at_rest(engine: sa.Engine) -> bool:
    """No schedule opens them any longer, and no crawl runs."""
    with engine.connect() as connection:
        return not connection.execute(ENABLED).scalar() and not connection.execute(ACTIVE).scalar()


def problems(
    engine: sa.Engine, until: datetime, holes: Disorder | None = None
) -> tuple[int, list[str]]:
    """The number of slots that were due before `until`, and what is wrong with their crawls. A slot
    in whose minute one of the `holes` left no time may be passed over for the next one."""
    with engine.connect() as connection:
        sites = list(connection.execute(SITES))
        crawls = list(connection.execute(CRAWLS))
    found = (
        [] if len(sites) == len(NAMES) else [f"only {len(sites)} of {len(NAMES)} sites are known"]
    )
    due = 0
    for site in sites:
        mine = [crawl for crawl in crawls if crawl.name == site.name]
        slot = site.scheduled_since.replace(second=0, microsecond=0) + MINUTE
        while slot <= until - GRACE:
            due += 1
            theirs = [crawl for crawl in mine if crawl.slot == slot]
            if len(theirs) != 1 and (theirs or not _is_passed_over(slot, holes)):
                found.append(f"{site.name} {slot:%H:%M}: {len(theirs)} crawls")
            slot += MINUTE
        for crawl in mine:
            if crawl.status != "completed" and not (crawl.status == "skipped" and crawl.note):
                found.append(f"{site.name} {crawl.slot:%H:%M}: {crawl.status}, {crawl.note}")
        ran = [crawl for crawl in mine if crawl.status != "skipped"]
        for before, after in pairwise(ran):
            if after.created_at < before.finished_at:
                found.append(f"{site.name}: crawls {before.id} and {after.id} ran at the same time")
    return due, found


def _is_passed_over(slot: datetime, holes: Disorder | None) -> bool:
    if holes is None:
        return False
    at = slot.timestamp()
    orderly_s = holes.orderly_s(at, at + MINUTE.total_seconds(), "redis", "postgres")
    return orderly_s is None or orderly_s < GRACE.total_seconds()
