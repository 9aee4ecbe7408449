"""What happened to every page and lease, written down by triggers in the harness's own database,
and read after a round.

The triggers see only what commits; pages are released as their transaction ends, when they have
their verdicts. Times are `clock_timestamp()` of the machine that everything here runs on, so that
they compare with the sample shop's log and with the harness's own clock.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import sqlalchemy as sa

INSTALL = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.pages (at timestamptz DEFAULT clock_timestamp(), page_id bigint, crawl_id bigint, lease_id uuid,
                          leased bool, status text, outcome text);
CREATE TABLE chaos.leases (at timestamptz DEFAULT clock_timestamp(), lease_id uuid, queue text, kind text, worker text);
CREATE FUNCTION chaos.take() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.pages (page_id, crawl_id, lease_id, leased)
    SELECT p.id, p.crawl_id, NEW.id, true FROM pages p WHERE p.id = ANY (NEW.page_ids);
    RETURN NULL;
END $$;
CREATE FUNCTION chaos.release() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    kept bigint[] := '{}';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        kept := NEW.page_ids;
    END IF;
    INSERT INTO chaos.pages (page_id, crawl_id, lease_id, leased, status, outcome)
    SELECT p.id, p.crawl_id, OLD.id, false, p.status, p.last_outcome
      FROM pages p WHERE p.id = ANY (OLD.page_ids) AND p.id <> ALL (kept);
    RETURN NULL;
END $$;
CREATE FUNCTION chaos.lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.leases (lease_id, queue, kind, worker) VALUES (NEW.id, NEW.queue, NEW.kind, NEW.worker);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_taken AFTER INSERT ON leases FOR EACH ROW EXECUTE FUNCTION chaos.take();
CREATE CONSTRAINT TRIGGER chaos_released AFTER UPDATE OF page_ids OR DELETE ON leases DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION chaos.release();
CREATE TRIGGER chaos_made AFTER INSERT ON leases FOR EACH ROW EXECUTE FUNCTION chaos.lease();
CREATE TRIGGER chaos_claimed AFTER UPDATE OF started_at ON leases FOR EACH ROW EXECUTE FUNCTION chaos.lease();
"""

PAGES = sa.text("""
SELECT extract(epoch FROM e.at)::float8 AS at, e.page_id, e.lease_id::text AS lease_id, e.leased, e.status, e.outcome
  FROM chaos.pages e WHERE e.crawl_id = :crawl_id ORDER BY e.at
""")
LEASES = sa.text("""
SELECT extract(epoch FROM at)::float8 AS at, lease_id::text AS lease_id, queue, kind, worker
  FROM chaos.leases WHERE at >= to_timestamp(:since) - interval '1 minute' ORDER BY at
""")
CRAWL = sa.text("""
SELECT extract(epoch FROM started_at)::float8 AS began, extract(epoch FROM coalesce(finished_at, now()))::float8 AS ended
  FROM crawls WHERE id = :crawl_id
""")
WORKER_LOST = "worker_lost"
NOT_TRIED = (WORKER_LOST, "deferred")


@dataclass(slots=True)
class Held:
    """A page in a lease, from `began` until `ended` (None: still), and what it was released with."""

    page_id: int
    lease_id: str
    began: float
    ended: float | None = None
    status: str = ""
    outcome: str = ""


@dataclass
class Story:
    """One crawl as the triggers saw it. Times are Unix times, lists are in their order."""

    crawl_id: int
    began: float
    ended: float
    held: dict[int, list[Held]] = field(default_factory=lambda: defaultdict(list))  # by page
    # a worker stored what came of a page
    tried: list[float] = field(default_factory=list)
    good: list[float] = field(default_factory=list)  # the page was there
    # a lease was made, for any crawl
    made: list[float] = field(default_factory=list)
    # when, which lease, by whom
    claims: list[tuple[float, str, str]] = field(default_factory=list)
    # lease -> its queue and kind
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)


def install(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(INSTALL))


def read(engine: sa.Engine, crawl_id: int) -> Story:
    with engine.connect() as connection:
        row = connection.execute(CRAWL, {"crawl_id": crawl_id}).one()
        story = Story(crawl_id, row.began, row.ended)
        for event in connection.execute(PAGES, {"crawl_id": crawl_id}):
            if event.leased:
                story.held[event.page_id].append(Held(event.page_id, event.lease_id, event.at))
                continue
            last = story.held[event.page_id][-1]
            last.ended, last.status, last.outcome = event.at, event.status, event.outcome or ""
            if last.outcome not in NOT_TRIED:
                story.tried.append(event.at)
            if event.status in ("ok", "unchanged", "gone"):
                story.good.append(event.at)
        for event in connection.execute(LEASES, {"since": row.began}):
            if event.worker is None:
                story.made.append(event.at)
                story.kinds[event.lease_id] = (event.queue, event.kind)
            else:
                story.claims.append((event.at, event.lease_id, event.worker))
    return story
