"""Intervals of pages of sites with `revisit: {min, max}`, learned as pages are settled.

What a page's looks show is kept in `page_visits` up to its last good answer, whose time and content
are in `pages`: so a result that is not stored, or stored twice, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.plugins.freshness import store
from scraper.plugins.freshness.keys import DAY_S
from scraper.plugins.freshness.rules.estimates import Evidence, estimate_rate
from scraper.plugins.freshness.rules.intervals import first_rate, next_interval_s
from scraper.rules.revisit import Bounds

LOOKS = sa.text("""
SELECT p.id, p.site_id, p.fetched_at, p.content_hash, v.changes, v.changed_days, v.quiet_days,
       v.quiet_looks, v.returns, v.other_looks, v.looked_at, v.content_hash AS old_hash,
       CAST(extract(epoch FROM now() - p.fetched_at) AS float8) AS since_s
  FROM pages p LEFT JOIN page_visits v ON v.page_id = p.id
 WHERE p.id = ANY (:ids) ORDER BY p.id
""")
MEAN_RATE = sa.text("SELECT avg(rate) FROM page_visits WHERE site_id = :site_id AND same = 0")


class Intervals(NamedTuple):
    """How long a page rests, in seconds, if its content has changed, or is as before."""

    if_changed_s: int
    if_unchanged_s: int


def read_mean_rate(connection: sa.Connection, site_id: int) -> float | None:
    """Returns the mean rate of changes of a site's pages; None before the first look."""
    rate = connection.execute(MEAN_RATE, {"site_id": site_id}).scalar()
    return None if rate is None else float(rate)


def plan_intervals(
    connection: sa.Connection,
    bounds: Mapping[int, Bounds],
    mean_rate: Callable[[int], float | None],
) -> dict[int, Intervals]:
    """Returns the intervals of pages, by their ids, and stores what their looks have shown so far.
    `mean_rate` is that of a site's pages."""
    intervals = {}
    looks: dict[int, list[dict[str, Any]]] = {}
    for row in connection.execute(LOOKS, {"ids": list(bounds)}):
        limits = bounds[row.id]
        if row.since_s is None:
            intervals[row.id] = Intervals(round(limits.min_s), round(limits.min_s))
            continue
        mean = mean_rate(row.site_id) or first_rate(limits)
        evidence = _sum_looks(row)
        changed_s, unchanged_s = (
            next_interval_s(limits, evidence, row.since_s / DAY_S, mean, changed=changed)
            for changed in (True, False)
        )
        intervals[row.id] = Intervals(round(changed_s), round(unchanged_s))
        look = {"page_id": row.id, "rate": estimate_rate(evidence, mean), "weight": 1.0}
        look |= {"content_hash": row.content_hash, "looked_at": row.fetched_at}
        # Pages that alternate rest as others do.
        look |= {"same": 0.0, "older_hash": None}
        looks.setdefault(row.site_id, []).append(
            evidence._asdict() | look | {"next_visit": row.fetched_at}
        )
    for site_id, rows in looks.items():
        store.store_looks(connection, site_id, rows)
    return intervals


def _sum_looks(row: sa.Row[Any]) -> Evidence:
    """Returns what a page's looks have shown up to its last good answer."""
    if row.looked_at is None:
        return Evidence()
    evidence = store.evidence_of(row)._replace(returns=0.0)
    days = (row.fetched_at - row.looked_at).total_seconds() / DAY_S
    if days <= 0:
        return evidence
    return evidence.after_look(days, changed=row.content_hash != row.old_hash)
