"""When a site's crawls are due: cron slots in the site's own time zone. Pure: the time is an argument.

Daylight saving follows Debian's cron, which `cronsim` implements: a daily slot that falls into the hour that is skipped
comes at the first moment after it, one in the hour that is repeated comes once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError


def latest_slot(expression: str, zone: str, now: datetime) -> datetime | None:
    """The newest slot at or before `now` (aware), in UTC; None for an expression that has none.

    >>> latest_slot("0 6 * * *", "Europe/Berlin", datetime(2026, 7, 1, 12, tzinfo=UTC)).isoformat()
    '2026-07-01T04:00:00+00:00'
    """
    local = now.astimezone(ZoneInfo(zone))
    try:
        slot = next(CronSim(expression, local, reverse=True), None)
        if slot is None:
            return None
        following = next(CronSim(expression, slot), None)  # reverse excludes `now` itself
    except CronSimError:
        return None
    if following is not None and following <= local:
        slot = following
    return slot.astimezone(UTC)
