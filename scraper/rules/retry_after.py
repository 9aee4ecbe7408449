"""What a Retry-After header asks for (RFC 9110 10.2.3). Pure: the clock is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRY_AFTER_MAX_S = 86_400.0


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds from `now` (aware), within 0..86400; None where the header is missing or means
    nothing.

    Takes both forms: "120", and "Wed, 21 Oct 2026 07:28:00 GMT". Of repeated headers the first
    counts.
    """
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    seconds = value.partition(",")[0].strip()
    if seconds.isascii() and seconds.isdigit():
        return min(float(seconds[:12]), RETRY_AFTER_MAX_S)
    try:
        at = parsedate_to_datetime(value)
        wait_s = (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return min(max(wait_s, 0.0), RETRY_AFTER_MAX_S)
