"""Counts foreign messages, which are not from this application, and logs at most a line a minute,
since their sender would otherwise fill the disk."""

from __future__ import annotations

import time

import structlog

log = structlog.get_logger()

LINE_EVERY_S = 60.0
SHOWN_BYTES = 200

# Since this process started.
total = 0
_logged_total = 0
_quiet_until = 0.0


def record(queue: str, reason: str, start: bytes) -> None:
    """Counts a dropped message; `start` is its first bytes."""
    global total, _logged_total, _quiet_until
    total += 1
    now = time.monotonic()
    if now < _quiet_until:
        return
    _quiet_until = now + LINE_EVERY_S
    log.warning(
        "dropped foreign messages",
        messages=total - _logged_total,
        queue=queue[:SHOWN_BYTES],
        reason=reason,
        # The repr escapes everything but printable ASCII.
        starts_with=repr(start[:SHOWN_BYTES])[2:-1],
    )
    _logged_total = total
