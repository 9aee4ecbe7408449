"""A site's page: when it is crawled, by which definition, and what came of it over weeks. Reads
PostgreSQL alone."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from scraper.infra.redaction import redacted
from scraper.rules.schedule import next_slot

CRAWLS_MAX = 30

SITE = sa.text("""
SELECT id, definition, paused, enabled, now() AS now FROM sites WHERE name = :name
""")

# Sums of bytes are kept for as long as the course of crawls over time.
CRAWLS = sa.text(f"""
SELECT c.id, c.status, c.suspect, c.trigger, c.started_at, c.finished_at, c.fetches,
       c.products_new, c.products_changed, c.products_delisted, q.products, t.bytes, t.proxy_bytes
  FROM crawls c
  LEFT JOIN crawl_quality q ON q.crawl_id = c.id
  LEFT JOIN LATERAL (
       SELECT CAST(sum(bytes) AS bigint) AS bytes,
              CAST(coalesce(sum(bytes) FILTER (WHERE proxy <> ''), 0) AS bigint) AS proxy_bytes
         FROM throughput WHERE crawl_id = c.id) t ON true
 WHERE c.site_id = :id AND c.status <> 'skipped' ORDER BY c.slot DESC, c.id DESC LIMIT {CRAWLS_MAX}
""")

FILL = sa.text("""
SELECT f.field, date_trunc('week', c.finished_at) AS week,
       CAST(sum(f.found) AS float8) / nullif(sum(f.records), 0) AS fill
  FROM crawls c JOIN crawl_fields f ON f.crawl_id = c.id
 WHERE c.site_id = :id AND c.finished_at > now() - interval '12 weeks'
 GROUP BY f.field, week ORDER BY f.field, week
""")


def read(connection: sa.Connection, name: str) -> dict[str, Any]:
    """All about a site that is there."""
    site = connection.execute(SITE, {"name": name}).one()
    schedule = site.definition.get("schedule")
    zone = site.definition.get("timezone") or "UTC"
    crawls = [row._asdict() for row in connection.execute(CRAWLS, {"id": site.id})]
    fill: dict[str, list[dict[str, Any]]] = {}
    for row in connection.execute(FILL, {"id": site.id}):
        fill.setdefault(row.field, []).append({"week": row.week, "fill": row.fill})
    return {
        "schedule": schedule,
        "timezone": zone,
        "next": next_slot(schedule, zone, site.now) if schedule and site.enabled else None,
        "paused": site.paused,
        "definition": redacted(json.dumps(site.definition, indent=2, ensure_ascii=False)),
        "crawls": crawls,
        "fill": fill,
    }
