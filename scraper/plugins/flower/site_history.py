"""A site's page: its state, schedule and definition, and its results by day and by week. Reads
PostgreSQL, and the site's file for its problems."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from cronsim import CronSim, CronSimError

from scraper.errors import DefinitionError
from scraper.infra.redaction import redact
from scraper.plugins.flower.latest.changes import read_changes
from scraper.rules.schedule import next_slot
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.views import site_table as fleet

CRAWLS_MAX = 30
CHANGES_MAX = 15
DAYS = 30

DOTS = "•••"
SECRET = re.compile("auth|cookie|token|secret|passw|key|session|sign|csrf|xsrf", re.I).search
SITE = sa.text("""
SELECT id, definition, paused, enabled, now() AS now FROM sites WHERE name = :name
""")

# Sums of bytes are kept for as long as the course of crawls over time.
_CRAWLS = """
SELECT c.id, c.status, c.suspect, c.trigger, c.started_at, c.finished_at, c.fetches,
       c.products_new, c.products_changed, c.products_repriced, c.products_delisted, q.products,
       t.bytes, t.proxy_bytes
  FROM crawls c
  LEFT JOIN crawl_quality q ON q.crawl_id = c.id
  LEFT JOIN LATERAL (
       SELECT CAST(sum(bytes) AS bigint) AS bytes,
              CAST(coalesce(sum(bytes) FILTER (WHERE proxy <> ''), 0) AS bigint) AS proxy_bytes
         FROM throughput WHERE crawl_id = c.id) t ON true
 WHERE c.site_id = :id AND c.status <> 'skipped'"""
CRAWLS = sa.text(f"{_CRAWLS} ORDER BY c.slot DESC, c.id DESC LIMIT {CRAWLS_MAX}")

# A crawl counts on the day on which it ended, one that runs today.
BY_DAY = sa.text(f"""
WITH crawl AS (
     {_CRAWLS} AND coalesce(c.finished_at, now()) > now() - interval '{DAYS + 1} days'
), days AS (
     SELECT CAST(generate_series(day - {DAYS - 1}, day, interval '1 day') AS date) AS day
       FROM CAST(now() AT TIME ZONE :zone AS date) AS today(day))
SELECT CAST(d.day AS text) AS day, count(c.id) AS crawls,
       (array_agg(c.products ORDER BY c.finished_at DESC)
          FILTER (WHERE c.products IS NOT NULL AND c.status = 'completed'))[1] AS listed,
       coalesce(sum(c.products_new), 0) AS new, coalesce(sum(c.products_changed), 0) AS changed,
       coalesce(sum(c.products_repriced), 0) AS repriced,
       coalesce(sum(c.products_delisted), 0) AS delisted, coalesce(sum(c.fetches), 0) AS requests,
       CAST(coalesce(sum(c.bytes), 0) AS bigint) AS bytes,
       CAST(coalesce(sum(c.proxy_bytes), 0) AS bigint) AS proxy_bytes
  FROM days d
  LEFT JOIN crawl c ON CAST(coalesce(c.finished_at, now()) AT TIME ZONE :zone AS date) = d.day
 GROUP BY d.day ORDER BY d.day
""")

FILL = sa.text("""
SELECT f.field, date_trunc('week', c.finished_at) AS week,
       CAST(sum(f.found) AS float8) / nullif(sum(f.records), 0) AS fill
  FROM crawls c JOIN crawl_fields f ON f.crawl_id = c.id
 WHERE c.site_id = :id AND c.finished_at > now() - interval '12 weeks'
 GROUP BY f.field, week ORDER BY f.field, week
""")


def read(connection: sa.Connection, settings: Settings, name: str) -> dict[str, Any]:
    """All about a site that is there. `repriced` of a day: products whose price moved."""
    site = connection.execute(SITE, {"name": name}).one()
    schedule = site.definition.get("schedule")
    zone = site.definition.get("timezone") or "UTC"
    values = {"id": site.id, "zone": zone}
    fill: dict[str, list[dict[str, Any]]] = {}
    for row in connection.execute(FILL, values):
        fill.setdefault(row.field, []).append({"week": row.week, "fill": row.fill})
    standing = fleet.read_rows(connection, fleet.Query(site=name, limit=1)).rows
    return {
        "state": standing[0].state if standing else "retired",
        "why": standing[0].why if standing else "its definition is gone",
        "crawl": standing[0].crawl.id if standing and standing[0].crawl else None,
        "running": bool(standing and standing[0].crawl and standing[0].crawl.active),
        "tags": site.definition.get("tags") or [],
        "schedule": schedule,
        "schedule_text": schedule and explain_schedule(schedule, site.now),
        "timezone": zone,
        "next": next_slot(schedule, zone, site.now) if schedule and site.enabled else None,
        "paused": site.paused,
        "definition": redact(
            json.dumps(hide_header_values(site.definition), indent=2, ensure_ascii=False)
        ).replace('"***"', f'"{DOTS}"'),
        "problems": [redact(line) for line in find_problems(settings, name, site.definition)],
        "changes": read_changes(connection, name, most=CHANGES_MAX),
        "crawls": [row._asdict() for row in connection.execute(CRAWLS, values)],
        "days": [row._asdict() for row in connection.execute(BY_DAY, values)],
        "fill": fill,
    }


def explain_schedule(expression: str, now: datetime) -> str:
    """Returns a schedule in words, or as it is written.

    >>> explain_schedule("0 6 * * *", datetime(2026, 7, 1))
    'at 06:00 every day'
    """
    try:
        words = str(CronSim(expression, now).explain())
    except CronSimError:
        return expression
    return words[:1].lower() + words[1:]


def hide_header_values(definition: Any) -> Any:
    """Returns the definition with dots for the values of headers that are named like secrets."""
    if not isinstance(definition, dict):
        return definition
    return {
        name: {header: DOTS if SECRET(header) else text for header, text in value.items()}
        if name == "headers" and isinstance(value, dict)
        else hide_header_values(value)
        for name, value in definition.items()
    }


def find_problems(settings: Settings, name: str, stored: dict[str, Any]) -> list[str]:
    """Returns the problems of a site's definition and what is probably a mistake in it. Reads the
    site's file, or the stored definition if the folder is empty."""
    files = loader.list_definition_files(settings.sites_dir)
    mine = [path for path in files if name in loader.guess_names(path)]
    if files and not mine:
        folder = Path(settings.sites_dir)
        return [f"{folder}/ no longer defines the site, so it is crawled only by hand"]
    try:
        for path in mine:
            loader.load_file(path, settings.site_function_modules)
    except DefinitionError as error:
        return [*error.problems, "its last valid version stays"]
    site = Site.model_validate(stored)
    return [*(text for _, text in loader.find_skipped_crawls(site)), *loader.find_warnings(site)]
