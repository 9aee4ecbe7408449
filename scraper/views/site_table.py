"""The whole fleet: a row for each site or crawl, what is broken first, why it does not move, and
totals that are true at any number. Reads PostgreSQL alone, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scraper.errors import quote_command, without_backticks
from scraper.frontier.progress import (
    COLUMNS,
    MOVES,
    RATE,
    RECENT,
    STATE,
    STATES,
    CrawlProgress,
    progress_of,
    read_coverage,
)
from scraper.infra.redaction import redact
from scraper.infra.statements import sql
from scraper.rules.schedule import next_slot

# Up to this many open pages of a crawl that does not move are examined.
SAMPLE = 50
# A batch that no worker has claimed is only worth mentioning after this time.
UNCLAIMED_S = 10
# A coordinator checks each running crawl once a minute.
UNWATCHED_S = 180
REASON_MAX = 300

QUEUES = """
(SELECT array_agg(DISTINCT kind.queue || coalesce('.' || (s.definition ->> 'region'), ''))
   FROM (VALUES (coalesce(s.definition -> 'listing' ->> 'queue', s.definition ->> 'queue')),
                (coalesce(s.definition -> 'product' ->> 'queue', s.definition ->> 'queue'))
        ) AS kind(queue))"""

# A site has the state of its running crawl, else of its newest one that was not skipped.
SITES = """
  FROM sites s
  LEFT JOIN LATERAL (
       SELECT * FROM (
           (SELECT * FROM crawls a WHERE a.site_id = s.id AND a.status IN ('planned', 'running'))
           UNION ALL
           (SELECT * FROM crawls e WHERE e.site_id = s.id AND e.status <> 'skipped'
             ORDER BY e.slot DESC LIMIT 1)) newest
        ORDER BY status IN ('planned', 'running') DESC LIMIT 1) c ON true {rate}
 WHERE (s.enabled OR c.status IN ('planned', 'running'))"""

# A paused site that is not being crawled is shown as paused, unless its newest crawl needs a look.
SITE_STATE = f"""
CASE WHEN s.paused AND coalesce(c.status NOT IN ('planned', 'running', 'failed') AND NOT c.suspect,
                                true) THEN 'paused' ELSE {STATE} END"""

CRAWLS = "FROM crawls c JOIN sites s ON s.id = c.site_id {rate} WHERE true"

# Each with a parameter of its name; `{state}` is a site's or a crawl's.
FILTERS = {
    "site": "s.name = :site",
    "search": "strpos(lower(s.name), lower(:search)) > 0",
    "state": "{state} = :state",
    "queue": f":queue = ANY (CAST({QUEUES} AS text[]))",
    "tag": "CAST(s.definition -> 'tags' AS jsonb) @> to_jsonb(CAST(:tag AS text))",
}

ORDERS = {
    "worst": "array_position(CAST(:states AS text[]), {state}), c.dead + c.invalid DESC NULLS LAST,"
    " s.name, c.id DESC",
    "site": "s.name, c.id DESC",
    "rate": "coalesce(recent.per_s, 0) DESC, s.name, c.id DESC",
    "pages": "c.discovery_done + c.product_done DESC NULLS LAST, s.name, c.id DESC",
    "failed": "c.dead + c.invalid DESC NULLS LAST, s.name, c.id DESC",
    "newest": "coalesce(c.started_at, c.created_at) DESC NULLS LAST, c.id DESC",
}
# Of all crawls the newest are read by an index, however many there have been.
NEWEST_CRAWLS = "c.id DESC"

ROWS = f"""
WITH picked AS (
     SELECT s.id AS site_id, c.id {{origin}} ORDER BY {{order}} LIMIT :limit OFFSET :offset)
SELECT {COLUMNS}, {MOVES}, (SELECT count(*) {{origin}}) AS matching, {{state}} AS stands,
       CAST({QUEUES} AS text[]) AS queues, s.definition -> 'tags' AS tags,
       s.definition ->> 'schedule' AS schedule, s.definition ->> 'timezone' AS timezone,
       now() AS now
  FROM picked JOIN sites s ON s.id = picked.site_id LEFT JOIN crawls c ON c.id = picked.id {RECENT}
 ORDER BY {{order}}
"""

TOTALS = f"""
SELECT {SITE_STATE} AS state, count(*) AS sites,
       count(*) FILTER (WHERE c.status IN ('planned', 'running')) AS crawls,
       coalesce(sum(recent.per_s), 0) AS per_s,
       coalesce(sum(c.discovery_done + c.product_done) FILTER (WHERE c.status = 'running'), 0)
           AS done,
       coalesce(sum(c.discovery_total + c.product_total) FILTER (WHERE c.status = 'running'), 0)
           AS total,
       coalesce(sum(c.dead + c.invalid) FILTER (WHERE c.status = 'running'), 0) AS failed,
       coalesce(sum(c.fresh) FILTER (WHERE c.status = 'running'), 0) AS not_due
  {SITES.format(rate=RATE)} AND (CAST(:site AS text) IS NULL OR s.name = :site) GROUP BY 1
"""

ALL_QUEUES = sa.text(
    f"SELECT DISTINCT unnest({QUEUES}) AS queue FROM sites s WHERE s.enabled ORDER BY 1"
)
ALL_TAGS = sa.text(
    "SELECT DISTINCT json_array_elements_text(s.definition -> 'tags') FROM sites s"
    " WHERE s.enabled ORDER BY 1"
)

HOLDUPS = sa.text(sql("views/holdups.sql"))


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A site with the state of its newest crawl, or a crawl. `why` says what is wrong, or is
    empty."""

    site: str
    state: str
    why: str
    queues: list[str]
    tags: list[str]
    schedule: str | None
    timezone: str
    next_slot: datetime | None
    crawl: CrawlProgress | None


@dataclass(frozen=True, slots=True)
class FleetRows:
    """Some rows of those that match."""

    rows: list[FleetRow]
    matching: int


@dataclass(slots=True)
class Totals:
    """Sums over all sites, and over all running crawls: pages `done` of a `total` so far, `failed`
    (dead and invalid), `not_due` (of the done, not asked again). `states`: how many sites stand
    how."""

    sites: int = 0
    crawls: int = 0
    pages_per_s: float = 0.0
    done: int = 0
    total: int = 0
    failed: int = 0
    not_due: int = 0
    states: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows are wanted. `history`: each crawl there is, instead of each site."""

    history: bool = False
    site: str | None = None
    search: str | None = None
    state: str | None = None
    queue: str | None = None
    tag: str | None = None
    sort: str = "worst"
    limit: int = 50
    offset: int = 0


def read_rows(connection: sa.Connection, query: Query) -> FleetRows:
    wanted = {name: getattr(query, name) for name in FILTERS if getattr(query, name)}
    by_rate = "state" in wanted or query.sort in ("worst", "rate")
    origin = (CRAWLS if query.history else SITES).format(rate=RATE if by_rate else "")
    newest = query.history and query.sort == "newest"
    state = STATE if query.history else SITE_STATE
    statement = ROWS.format(
        origin=" AND ".join([origin, *(FILTERS[name].format(state=state) for name in wanted)]),
        order=NEWEST_CRAWLS if newest else ORDERS[query.sort].format(state=state),
        state=state,
    )
    values = {"limit": query.limit, "offset": query.offset, "states": list(STATES), **wanted}
    matching = connection.execute(sa.text(statement), values).mappings().all()
    coverage = read_coverage(connection, [row["id"] for row in matching if row["id"] is not None])
    crawls = {
        row["id"]: progress_of(row, coverage.get(row["id"]))
        for row in matching
        if row["id"] is not None
    }
    why = explain_crawls(connection, crawls.values())
    return FleetRows(
        [_fleet_row(row, crawls.get(row["id"]), why.get(row["id"], "")) for row in matching],
        matching[0]["matching"] if matching else 0,
    )


def _fleet_row(row: sa.RowMapping, crawl: CrawlProgress | None, why: str) -> FleetRow:
    schedule, timezone = row["schedule"], row["timezone"] or "UTC"
    if row["paused"]:
        why = "; ".join(filter(None, ["its site is paused", why]))
    return FleetRow(
        site=row["site"],
        state=row["stands"],
        why=why,
        queues=row["queues"],
        tags=row["tags"] or [],
        schedule=schedule,
        timezone=timezone,
        next_slot=next_slot(schedule, timezone, row["now"]) if schedule else None,
        crawl=crawl,
    )


def read_totals(connection: sa.Connection, site: str | None = None) -> Totals:
    totals = Totals()
    for row in connection.execute(sa.text(TOTALS), {"site": site}):
        totals.states[row.state] = row.sites
        totals.sites += row.sites
        totals.crawls += row.crawls
        totals.pages_per_s = round(totals.pages_per_s + float(row.per_s), 2)
        totals.done += int(row.done)
        totals.total += int(row.total)
        totals.failed += int(row.failed)
        totals.not_due += int(row.not_due)
    totals.states = {state: totals.states[state] for state in STATES if state in totals.states}
    return totals


def queue_names(connection: sa.Connection) -> list[str]:
    """The queues that definitions name, but for those of their routes."""
    return list(connection.execute(ALL_QUEUES).scalars())


def tag_names(connection: sa.Connection) -> list[str]:
    """The tags that definitions have."""
    return list(connection.execute(ALL_TAGS).scalars())


def explain_crawls(connection: sa.Connection, crawls: Iterable[CrawlProgress]) -> dict[int, str]:
    """Returns the reasons for the crawls' states by id, without crawls that need none."""
    wanted = {crawl.id: crawl for crawl in crawls if crawl.state not in ("completed", "planned")}
    values = {
        "ids": list(wanted),
        "sample": SAMPLE,
        "unclaimed_s": UNCLAIMED_S,
        "unwatched_s": UNWATCHED_S,
    }
    texts = {row.id: reason(wanted[row.id], row) for row in connection.execute(HOLDUPS, values)}
    return {id_: redact(text)[:REASON_MAX] for id_, text in texts.items() if text}


def reason(crawl: CrawlProgress, row: sa.Row[Any]) -> str:
    """Returns the reason for a crawl's state, from its row of `HOLDUPS`; "" if it needs none."""
    failure = _failure_text(row) if row.error else ""
    match crawl.state:
        case "suspect":
            more = f"; {row.suspicions - 1} more" if row.suspicions and row.suspicions > 1 else ""
            return without_backticks(row.suspicion or "its data is not to be trusted") + more
        case "waiting":
            return _holdup_text(row, failure)
        case "failing" | "dead pages":
            pages = "page" if crawl.failed == 1 else "pages"
            return f"{failure} (the last of {crawl.failed:,} dead or invalid {pages})"
        case _:
            return crawl.note or ""


def _failure_text(row: sa.Row[Any]) -> str:
    """Returns a page's failure, naming its host and its outcome only once."""
    cause = without_backticks(str(row.error)).removeprefix(f"no connection to {row.failed_host}: ")
    repeats = cause.startswith(("robots.txt", f"{row.outcome} ", f"{row.outcome}:"))
    return cause if repeats else f"{row.outcome}: {cause}"


def _holdup_text(row: sa.Row[Any], failure: str) -> str:
    """Returns why a crawl does not move. A host's budget is written as in definitions: 4/s."""
    if not row.pages:
        return "no page is open: it is about to end"
    if row.host_paused:
        return f"{row.host} is paused (`{quote_command('scraper host resume', row.host)}`)"
    if row.later == row.pages:
        soon = f"asked again in {max(0.0, row.next_s):.0f} s"
        if failure:
            return f"{failure}; {row.host} is {soon}"
        return f"waits for {row.host}, {_rate_text(row)}: {soon}"
    if row.unwatched:
        return "no worker takes the queue coordinator"
    if row.unserved:
        return f"no worker takes the queue {row.queue}"
    if row.crowded:
        return f"waits for a free worker of the queue {row.queue}"
    waits = f"waits for {row.host}, {_rate_text(row)}"
    return f"{failure}; {waits}" if failure else waits


def _rate_text(row: sa.Row[Any]) -> str:
    """A host's budget for people: 2/m, and not 0.0333333/s."""
    if row.host_rate:
        return str(row.host_rate)
    if row.rate_per_s is None:
        return "unlimited"
    return f"{row.rate_per_s:g}/s" if row.rate_per_s >= 1 else f"{row.rate_per_s * 60:.3g}/m"
