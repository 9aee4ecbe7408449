"""Plans and visits in PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from scraper.domain import Kind, Status
from scraper.frontier import crawls
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.pages import PageChange, route_pages
from scraper.infra.database import dumps
from scraper.plugins.freshness.keys import DAY_S
from scraper.plugins.freshness.rules.allocation import Allocation
from scraper.plugins.freshness.rules.estimates import Evidence, least_mean_rate
from scraper.plugins.freshness.rules.plan import SitePlan
from scraper.plugins.freshness.rules.profile import Profile
from scraper.plugins.freshness.rules.sensors import SensorRecord
from scraper.plugins.freshness.rules.shares import PageGroup
from scraper.plugins.freshness.rules.stored_plan import StoredPlan
from scraper.sites.definition import Site

# Groups of rates to a factor of e.
CELLS = 8
BATCH = 5000
# A crawl of the whole site requests no product page that was read within this time.
LEFT_TO_PLAN = "30 days"
# A round makes up for the pauses between rounds, at most at this many times the planned pace.
PACE_MOST = 1.25
# One process at a time plans a site.
LOCK = 4_871_303

PLANNED = sa.text("""
SELECT id, name, definition FROM sites
 WHERE enabled AND NOT paused
   AND (definition ->> 'budget' IS NOT NULL OR definition ->> 'fresh' IS NOT NULL) ORDER BY id
""")
TRY_LOCK = sa.text("SELECT pg_try_advisory_xact_lock(:lock, :site_id)")
_PLAN = """
p.site_id, allocation, mean_rate, requests, visits, promised, planned_at, wanted, hours, days,
hours_even, days_even, seen_days, kept_days, promise_days, hosts, loaded, needed, broken, cards,
dates, season, modelled, foreseen_days
"""
READ_PLAN = sa.text(f"SELECT {_PLAN} FROM site_plans p WHERE site_id = :site_id")
STORE_PLAN = sa.text("""
INSERT INTO site_plans (site_id, allocation, mean_rate, requests, visits, promised, planned_at,
                        wanted, hours, days, hours_even, days_even, seen_days, kept_days,
                        promise_days, hosts, loaded, needed, broken, cards, dates,
                        season, modelled, foreseen_days)
VALUES (:site_id, :allocation, :mean_rate, :requests, :visits, :promised, :planned_at,
        CAST(:wanted AS jsonb), :hours, :days, :hours_even, :days_even, :seen_days, :kept_days,
        :promise_days, :hosts, :loaded, :needed, :broken, :cards, :dates,
        :season, :modelled, :foreseen_days)
ON CONFLICT (site_id) DO UPDATE
   SET allocation = excluded.allocation, mean_rate = excluded.mean_rate,
       requests = excluded.requests, visits = excluded.visits, promised = excluded.promised,
       planned_at = excluded.planned_at, wanted = excluded.wanted, hours = excluded.hours,
       days = excluded.days, hours_even = excluded.hours_even,
       days_even = excluded.days_even, seen_days = excluded.seen_days,
       kept_days = excluded.kept_days, promise_days = excluded.promise_days,
       hosts = excluded.hosts, loaded = excluded.loaded,
       needed = excluded.needed, broken = excluded.broken,
       cards = excluded.cards, dates = excluded.dates, season = excluded.season,
       modelled = excluded.modelled, foreseen_days = excluded.foreseen_days
""")
READ_PLANS = sa.text(f"SELECT s.name, {_PLAN} FROM site_plans p JOIN sites s ON s.id = p.site_id")
# The last crawl that may have read pages that no round visited.
LAST_WHOLE = sa.text("""
SELECT coalesce(max(id), 0) FROM crawls
 WHERE site_id = :site_id AND trigger <> 'visit'
   AND status IN ('completed', 'stopped', 'failed')
""")
_LOOK = """
SELECT p.id, p.fetched_at, p.content_hash, v.changes, v.changed_days, v.quiet_days,
       v.quiet_looks, v.returns, v.other_looks, v.older_hash,
       v.content_hash AS old_hash, v.looked_at, v.signalled, v.dated, v.rate,
       c.quiet_until AS card_quiet, c.read_at AS card_read, d.quiet_until AS date_quiet,
       d.read_at AS date_read,
       (SELECT data FROM products pr WHERE pr.page_id = p.id AND pr.delisted_at IS NULL
         ORDER BY pr.id LIMIT 1) AS data,
       ARRAY(SELECT external_id FROM products pr WHERE pr.page_id = p.id AND pr.delisted_at IS NULL)
         AS ids,
       (SELECT max(changed_at) FROM products pr WHERE pr.page_id = p.id) AS changed_at
"""
ROUND_LOOKS = sa.text(f"""
{_LOOK} FROM page_visits v JOIN pages p ON p.id = v.page_id
  LEFT JOIN page_cards c ON c.site_id = p.site_id AND c.fingerprint = p.fingerprint
  LEFT JOIN page_dates d ON d.site_id = p.site_id AND d.fingerprint = p.fingerprint
 WHERE v.site_id = :site_id AND v.round_id IS NOT NULL AND p.fetched_at > v.looked_at
   AND p.status IN ('ok', 'unchanged') LIMIT :most
""")
OTHER_LOOKS = sa.text(f"""
{_LOOK} FROM pages p LEFT JOIN page_visits v ON v.page_id = p.id
  LEFT JOIN page_cards c ON c.site_id = p.site_id AND c.fingerprint = p.fingerprint
  LEFT JOIN page_dates d ON d.site_id = p.site_id AND d.fingerprint = p.fingerprint
 WHERE p.site_id = :site_id AND p.kind = 'product' AND p.fetched_at IS NOT NULL
   AND p.status IN ('ok', 'unchanged') AND (v.page_id IS NULL OR p.fetched_at > v.looked_at)
 LIMIT :most
""")
STORE_LOOKS = sa.text("""
INSERT INTO page_visits (page_id, site_id, changes, changed_days, quiet_days, quiet_looks, returns,
                         other_looks, same, rate, weight, content_hash, older_hash, looked_at,
                         next_visit)
SELECT page_id, :site_id, changes, changed_days, quiet_days, quiet_looks, returns, other_looks,
       same, rate, weight, content_hash, older_hash, looked_at, next_visit
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(page_id bigint, changes real, changed_days real, quiet_days real, quiet_looks real,
         returns real, other_looks real, same real, rate real, weight real, content_hash uuid,
         older_hash uuid, looked_at timestamptz, next_visit timestamptz)
ON CONFLICT (page_id) DO UPDATE
   SET changes = excluded.changes, changed_days = excluded.changed_days,
       quiet_days = excluded.quiet_days, quiet_looks = excluded.quiet_looks,
       returns = excluded.returns, other_looks = excluded.other_looks, same = excluded.same,
       rate = excluded.rate, weight = excluded.weight, content_hash = excluded.content_hash,
       older_hash = excluded.older_hash, looked_at = excluded.looked_at,
       next_visit = excluded.next_visit, round_id = NULL, signalled = false,
       dated = false
""")
# Pages that a round could not read: those that are gone are planned no more, unless a crawl of the
# whole site reads them; the others wait for a day, or not at all if the round was cut short.
UNREAD = sa.text("""
UPDATE page_visits v SET round_id = NULL,
       next_visit = CASE WHEN p.status = 'dropped' THEN v.next_visit
                         ELSE now() + interval '1 day' END
  FROM pages p WHERE p.id = v.page_id AND v.site_id = :site_id AND v.round_id IS NOT NULL
""")
GONE = sa.text("""
DELETE FROM page_visits v WHERE v.site_id = :site_id AND v.round_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM pages p WHERE p.id = v.page_id AND p.status <> 'gone')
""")
PRODUCTS = sa.text("""
SELECT v.page_id, v.weight, v.rate, v.same, v.looked_at, pr.data, pr.ids
  FROM page_visits v CROSS JOIN LATERAL (
       SELECT (array_agg(data ORDER BY id))[1] AS data, array_agg(external_id) AS ids
         FROM products WHERE page_id = v.page_id AND delisted_at IS NULL) pr
 WHERE v.site_id = :site_id AND v.page_id > :after ORDER BY v.page_id LIMIT :most
""")
STORE_WEIGHTS = sa.text("""
UPDATE page_visits v SET weight = r.weight, next_visit = least(v.next_visit, r.next_visit)
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS r(page_id bigint, weight real, next_visit timestamptz)
 WHERE v.page_id = r.page_id
""")
GROUPS = sa.text(f"""
SELECT round(ln(rate) * {CELLS}) AS cell, weight, same, count(*) AS pages
  FROM page_visits WHERE site_id = :site_id GROUP BY cell, weight, same
 ORDER BY cell, weight, same
""")
# A page that alternates says nothing of the others.
ALL_LOOKS = sa.text("""
SELECT coalesce(sum(changes), 0) AS changes, coalesce(sum(changed_days), 0) AS changed_days,
       coalesce(sum(quiet_days), 0) AS quiet_days,
       coalesce(avg((changes + quiet_looks > 0)::int), 0)::float AS looked
  FROM page_visits WHERE site_id = :site_id AND same = 0
""")
# Not more than were requested of all pages: a crawl that was stopped has dropped listings.
OTHER_REQUESTS = sa.text("""
SELECT coalesce(sum(least(discovery_done, discovery_done + product_done - dropped - fresh)), 0)
       / 7.0
  FROM crawls
 WHERE site_id = :site_id AND trigger <> 'visit' AND created_at > now() - interval '7 days'
""")
# Visits a day, in up to a week; the days before a site's first round do not count, nor do pages
# that a round left when it gave way.
VISITS_MADE = sa.text("""
SELECT sum(product_done - dropped)
       / greatest(EXTRACT(EPOCH FROM now() - min(created_at)) / 86400, 1 / 1440.0)
  FROM crawls
 WHERE site_id = :site_id AND trigger = 'visit' AND created_at > now() - interval '7 days'
""")
HOSTS = sa.text("""
SELECT count(DISTINCT host), count(DISTINCT host) FILTER (WHERE kind = 'product')
  FROM pages WHERE site_id = :site_id
""")
TAKE = sa.text("""
WITH due AS (
    SELECT v.page_id FROM page_visits v
      JOIN pages p ON p.id = v.page_id AND p.kind = 'product' AND p.status <> 'due'
     WHERE v.site_id = :site_id ORDER BY v.next_visit LIMIT :most
), taken AS (
    UPDATE pages SET crawl_id = :crawl_id, status = 'due', attempts = 0, host_attempts = 0,
           losses = 0, level = NULL, blocked = 0, probe = false, not_before = now(), error = NULL,
           excerpt = NULL, response_head = NULL
     WHERE id IN (SELECT page_id FROM due) AND site_id = :site_id
    RETURNING id, url
)
UPDATE page_visits SET round_id = :crawl_id FROM taken WHERE page_id = taken.id
RETURNING taken.id, taken.url
""")
# Of a round that no other crawl followed.
LAST_ROUND = sa.text("""
SELECT rate_per_s, product_done, EXTRACT(EPOCH FROM now() - created_at)::float8 AS took_s
  FROM (SELECT * FROM crawls WHERE site_id = :site_id ORDER BY id DESC LIMIT 1) last
 WHERE trigger = 'visit' AND status = 'completed' AND product_done > 0
""")
SLOW = sa.text("""
UPDATE crawls SET rate_per_s = :rate,
       definition = CAST(CAST(definition AS jsonb)
           || jsonb_build_object('rate', CAST(:written AS text), 'burst', 1) AS json)
 WHERE id = :id
""")
LEAVE = sa.text(f"""
UPDATE crawls SET fresh_after = now() - interval '{LEFT_TO_PLAN}', stale_before = NULL
 WHERE id = :id
""")


def planned_sites(connection: sa.Connection) -> list[sa.Row[Any]]:
    return list(connection.execute(PLANNED))


def try_lock(connection: sa.Connection, site_id: int) -> bool:
    values = {"lock": LOCK, "site_id": site_id}
    return bool(connection.execute(TRY_LOCK, values).scalar())


def read_plan(connection: sa.Connection, site_id: int) -> StoredPlan | None:
    row = connection.execute(READ_PLAN, {"site_id": site_id}).first()
    if row is None:
        return None
    return StoredPlan(
        SitePlan(Allocation(*row.allocation), row.mean_rate),
        row.requests,
        row.visits,
        row.promised,
        row.planned_at,
        row.wanted,
        Profile(row.hours, row.days, row.hours_even, row.days_even, row.season),
        row.seen_days,
        row.kept_days,
        row.promise_days,
        row.hosts,
        row.loaded,
        row.needed,
        row.broken,
        SensorRecord(*row.cards),
        SensorRecord(*row.dates),
        row.modelled,
        row.foreseen_days,
    )


def evidence_of(row: Any) -> Evidence:
    """Returns what a page's looks have shown, as its row has it."""
    return Evidence(*(getattr(row, name) for name in Evidence._fields))


def read_plans(connection: sa.Connection) -> list[sa.Row[Any]]:
    """Returns the rows of all plans, with the names of their sites."""
    return list(connection.execute(READ_PLANS))


def store_plan(connection: sa.Connection, site_id: int, stored: StoredPlan) -> None:
    values = stored._asdict()
    plan, profile = values.pop("plan"), values.pop("profile")
    values |= {
        "site_id": site_id,
        "allocation": list(plan.allocation),
        "mean_rate": plan.mean_rate,
        "cards": list(stored.cards),
        "dates": list(stored.dates),
        "wanted": dumps(stored.wanted),
        "hours": profile.hours,
        "days": profile.days,
        "hours_even": profile.hours_even,
        "days_even": profile.days_even,
        "season": profile.lately,
    }
    connection.execute(STORE_PLAN, values)


def last_whole_crawl(connection: sa.Connection, site_id: int) -> int:
    return int(connection.execute(LAST_WHOLE, {"site_id": site_id}).scalar_one())


def read_round(connection: sa.Connection, site_id: int) -> list[sa.Row[Any]]:
    """Returns pages that the last round read."""
    return list(connection.execute(ROUND_LOOKS, {"site_id": site_id, "most": BATCH}))


def read_others(connection: sa.Connection, site_id: int) -> list[sa.Row[Any]]:
    """Returns pages that were read otherwise."""
    return list(connection.execute(OTHER_LOOKS, {"site_id": site_id, "most": BATCH}))


def store_looks(connection: sa.Connection, site_id: int, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        connection.execute(STORE_LOOKS, {"site_id": site_id, "rows": dumps(rows)})


def read_products(connection: sa.Connection, site_id: int, after: int) -> list[sa.Row[Any]]:
    """Returns planned pages with their products, by their ids, which are above `after`."""
    values = {"site_id": site_id, "after": after, "most": BATCH}
    return list(connection.execute(PRODUCTS, values))


def store_weights(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        connection.execute(STORE_WEIGHTS, {"rows": dumps(rows)})


def end_round(connection: sa.Connection, site_id: int) -> None:
    """Plans again what a round could not read."""
    connection.execute(GONE, {"site_id": site_id})
    connection.execute(UNREAD, {"site_id": site_id})


def read_groups(connection: sa.Connection, site_id: int, season: float = 1.0) -> list[PageGroup]:
    """Returns a site's planned pages, with the rates of this season."""
    rows = connection.execute(GROUPS, {"site_id": site_id})
    return [
        PageGroup(season * math.exp(row.cell / CELLS), row.weight, row.pages, row.same)
        for row in rows
    ]


def read_least_mean(connection: sa.Connection, site_id: int) -> float:
    """Returns the least mean rate that the looks at a site's pages show together."""
    *together, looked = connection.execute(ALL_LOOKS, {"site_id": site_id}).one()
    return least_mean_rate(Evidence(*together), looked)


def other_requests(connection: sa.Connection, site_id: int) -> float:
    """Returns how many listings and sitemaps are requested a day."""
    return float(connection.execute(OTHER_REQUESTS, {"site_id": site_id}).scalar_one())


def count_visits(connection: sa.Connection, site_id: int) -> float | None:
    """Returns how many product pages rounds have visited a day; None without a round."""
    visits = connection.execute(VISITS_MADE, {"site_id": site_id}).scalar()
    return None if visits is None else float(visits)


def count_hosts(connection: sa.Connection, site_id: int) -> tuple[int, int]:
    """Returns how many hosts a site's pages are on, and how many its product pages, at least 1."""
    hosts, of_products = connection.execute(HOSTS, {"site_id": site_id}).one()
    return max(1, hosts), max(1, of_products)


def open_round(
    connection: sa.Connection, site_id: int, site: Site, stored: StoredPlan, pages: int
) -> int | None:
    """Opens a crawl of the pages whose visits come first, at the pace of the plan. Returns its id,
    or None if the site has a crawl, or no page."""
    # Sitemaps may be on a host of their own, which no visit goes to.
    _, hosts = count_hosts(connection, site_id)
    pace = _find_pace(connection, site_id, stored.requests, hosts)
    crawl_id = crawls.open_crawl(connection, site_id, site, slot=None, trigger=crawls.VISIT)
    if crawl_id is None:
        return None
    limit_rate(connection, crawl_id, site, pace, hosts)
    values = {"site_id": site_id, "crawl_id": crawl_id, "most": pages}
    taken = connection.execute(TAKE, values).all()
    route_pages(connection, site.routing_preferences, taken)
    counts = CountsByCrawl()
    for _ in taken:
        counts[crawl_id].count_added(PageChange(crawl_id, Kind.PRODUCT, Status.DUE))
    crawls.start_crawl(connection, crawl_id)
    add_counts(connection, counts)
    return crawl_id if taken else None


def _find_pace(connection: sa.Connection, site_id: int, planned: float, hosts: int) -> float:
    """Returns the requests a day of the next round: somewhat more than the plan's if, with the
    pause after it, the last round took longer than planned."""
    last = connection.execute(LAST_ROUND, {"site_id": site_id}).first()
    if last is None or last.rate_per_s is None:
        return planned
    reached = float(last.product_done / last.took_s)
    pace = float(last.rate_per_s) * hosts * planned / reached
    return min(max(pace, planned), planned * PACE_MOST)


def limit_rate(
    connection: sa.Connection, crawl_id: int, site: Site, requests: float, hosts: int
) -> None:
    """Sets the rate of a crawl to these requests a day, without bursts, if the site's own is not
    lower. Only the crawl's copy of the definition has it. A rate is a host's, so hosts share the
    requests."""
    rate_per_s = requests / DAY_S / hosts
    if not rate_per_s or (site.rate_per_s is not None and site.rate_per_s <= rate_per_s):
        return
    written = f"{rate_per_s * 3600:.6f}/h"
    connection.execute(SLOW, {"id": crawl_id, "rate": rate_per_s, "written": written})


def leave_visits_to_plan(connection: sa.Connection, crawl_id: int) -> None:
    """Lets a crawl request only listings and new pages."""
    connection.execute(LEAVE, {"id": crawl_id})
