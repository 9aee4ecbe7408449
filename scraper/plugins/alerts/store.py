"""Who is still to be told of which crawl. A crawl has one alert, made in the transaction that
judges it.

It is claimed before it is sent: two coordinators do not both send it, and one that dies in between
leaves it to a later tick. A recipient is then told twice at the worst, and never forgotten.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

# The attempts are a minute, two, four … an hour apart, about five hours in all.
ATTEMPTS_MAX = 10
# Older crawls are left out, so that new recipients get none of last month's.
OLDEST = "1 day"

CLAIM = sa.text("""
UPDATE alerts
   SET attempts = attempts + 1,
       not_before = now() + least(60 * power(2, attempts), 3600) * interval '1 second'
 WHERE crawl_id = (SELECT crawl_id FROM alerts WHERE done_at IS NULL AND not_before <= now()
                    ORDER BY not_before, crawl_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING crawl_id, attempts, delivered
""")

GIVE_UP_OLD = sa.text(f"""
UPDATE alerts SET done_at = now(), error = coalesce(error, 'nobody was to be told within a day')
 WHERE done_at IS NULL AND created_at < now() - interval '{OLDEST}'
""")

SENT = sa.text("""
UPDATE alerts SET delivered = :delivered, error = :error,
       done_at = CASE WHEN CAST(:error AS text) IS NULL OR attempts >= :attempts_max THEN now() END
 WHERE crawl_id = :id AND done_at IS NULL
""")


@dataclass(frozen=True, slots=True)
class Alert:
    """One that is to be sent now. `delivered` holds the keys of those who have it already."""

    crawl_id: int
    attempts: int
    delivered: frozenset[str]


def due(connection: sa.Connection) -> bool:
    """Whether there is one to be sent. One that nobody could be sent within a day is done with."""
    connection.execute(GIVE_UP_OLD)
    query = sa.text(
        "SELECT EXISTS (SELECT FROM alerts WHERE done_at IS NULL AND not_before <= now())"
    )
    return bool(connection.execute(query).scalar())


def claim(connection: sa.Connection) -> Alert | None:
    """The next alert that is due, which nobody else gets for the next minute."""
    row = connection.execute(CLAIM).first()
    return Alert(row.crawl_id, row.attempts, frozenset(row.delivered)) if row else None


def sent(
    connection: sa.Connection, alert: Alert, delivered: Collection[str], missing: Collection[str]
) -> None:
    """Notes who has it. It is done with when nobody is missing, or after the last try."""
    error = f"not reached: {', '.join(sorted(missing))}" if missing else None
    values = {
        "id": alert.crawl_id,
        "delivered": sorted(alert.delivered | set(delivered)),
        "error": error,
    }
    connection.execute(SENT, {**values, "attempts_max": ATTEMPTS_MAX})
