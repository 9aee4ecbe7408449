"""Stores the alerts about crawls. A crawl has one alert, made in the transaction that judges it.

An alert is claimed before it is sent, so that two coordinators do not both send it. If the
coordinator dies in between, a later tick sends the alert: a recipient may receive it twice, but
always receives it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

# The attempts are 1, 2, 4 … 60 minutes apart, about five hours in all.
ATTEMPTS_MAX = 10
# Older alerts are dropped, so that a new list of recipients does not receive last month's.
OLDEST = "1 day"
DROPPED = "there was no recipient within a day"

# The transaction that judges a crawl runs it.
QUEUE = sa.text("INSERT INTO alerts (crawl_id) VALUES (:id) ON CONFLICT DO NOTHING")

CLAIM = sa.text("""
UPDATE alerts
   SET attempts = attempts + 1,
       not_before = now() + least(60 * power(2, attempts), 3600) * interval '1 second'
 WHERE crawl_id = (SELECT crawl_id FROM alerts WHERE done_at IS NULL AND not_before <= now()
                    ORDER BY not_before, crawl_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING crawl_id, attempts, delivered
""")

DROP_OLD = sa.text("""
UPDATE alerts SET done_at = now(), error = coalesce(error, :dropped)
 WHERE done_at IS NULL AND created_at < now() - CAST(:oldest AS interval)
""")

DELIVERED = sa.text("""
UPDATE alerts SET delivered = :delivered, error = :error,
       done_at = CASE WHEN CAST(:error AS text) IS NULL OR attempts >= :attempts_max THEN now() END
 WHERE crawl_id = :id AND done_at IS NULL
""")


@dataclass(frozen=True, slots=True)
class ClaimedAlert:
    """An alert to send now. `delivered` holds the keys of the recipients that already have it."""

    crawl_id: int
    attempts: int
    delivered: frozenset[str]


def queue_alert(connection: sa.Connection, crawl_id: int) -> None:
    """Inserts the alert about a crawl, unless it has one."""
    connection.execute(QUEUE, {"id": crawl_id})


def drop_old(connection: sa.Connection) -> None:
    """Drops alerts older than a day. The caller has no recipient for them."""
    connection.execute(DROP_OLD, {"dropped": DROPPED, "oldest": OLDEST})


def has_due(connection: sa.Connection) -> bool:
    query = sa.text(
        "SELECT EXISTS (SELECT FROM alerts WHERE done_at IS NULL AND not_before <= now())"
    )
    return bool(connection.execute(query).scalar())


def claim_next(connection: sa.Connection) -> ClaimedAlert | None:
    """Returns the next due alert, and keeps it from other coordinators for at least a minute."""
    row = connection.execute(CLAIM).first()
    return ClaimedAlert(row.crawl_id, row.attempts, frozenset(row.delivered)) if row else None


def record_delivery(
    connection: sa.Connection,
    alert: ClaimedAlert,
    delivered: Collection[str],
    missing: Collection[str],
) -> None:
    """Records which recipients have the alert. It is done if none is missing, or after the last
    attempt."""
    error = f"not reached: {', '.join(sorted(missing))}" if missing else None
    values = {
        "id": alert.crawl_id,
        "delivered": sorted(alert.delivered | set(delivered)),
        "error": error,
    }
    connection.execute(DELIVERED, {**values, "attempts_max": ATTEMPTS_MAX})
