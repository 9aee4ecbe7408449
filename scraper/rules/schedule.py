"""Decides when a site's crawls are due: cron slots in the site's own time zone. Pure: the time is
an argument.

Daylight saving follows Debian's cron, which `cronsim` implements: a daily slot in the skipped hour
comes at the first moment after it, and a slot in the repeated hour comes once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

# Two local times of one zone compare by the clock on the wall, and iterating backwards loses slots
# of a repeated hour. So the way back only finds where to start, well before any clock change, and
# UTC times are compared.
MARGIN = timedelta(hours=3)


def latest_slot(expression: str, zone: str, now: datetime) -> datetime | None:
    """Returns the newest slot at or before `now` (aware), in UTC; None for an expression without
    one, or an unknown time zone.

    >>> latest_slot("0 6 * * *", "Europe/Berlin", datetime(2026, 7, 1, 12, tzinfo=UTC)).isoformat()
    '2026-07-01T04:00:00+00:00'
    """
    now = now.astimezone(UTC)
    try:
        local_zone = ZoneInfo(zone)
        earlier = next(
            CronSim(expression, (now - MARGIN).astimezone(local_zone), reverse=True), None
        )
        start = (earlier.astimezone(UTC) if earlier else now) - MARGIN
        latest = None
        for slot in CronSim(expression, start.astimezone(local_zone)):
            if (slot_utc := slot.astimezone(UTC)) > now:
                break
            latest = slot_utc
    except (CronSimError, ZoneInfoNotFoundError):
        return None
    return latest


def next_slot(expression: str, zone: str, now: datetime) -> datetime | None:
    """Returns the first slot after `now` (aware), in UTC; None for an expression without one.

    >>> next_slot("0 6 * * *", "Europe/Berlin", datetime(2026, 7, 1, 12, tzinfo=UTC)).isoformat()
    '2026-07-02T04:00:00+00:00'
    """
    now = now.astimezone(UTC)
    try:
        for slot in CronSim(expression, (now - MARGIN).astimezone(ZoneInfo(zone))):
            if (slot_utc := slot.astimezone(UTC)) > now:
                return slot_utc
    except CronSimError:
        pass
    return None
