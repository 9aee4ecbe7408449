"""Cron slots against a scan of every minute, where clocks change above all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper.rules.schedule import latest_slot
from tests.support.machine import examples

MINUTE = timedelta(minutes=1)
CHANGES = [
    ("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
    ("Asia/Kolkata", datetime(2026, 6, 15, 0, tzinfo=UTC)),  # never
    ("UTC", datetime(2026, 3, 29, 1, tzinfo=UTC)),
]
MINUTES = ["0", "30", "15,45", "*", "*/10", "59", "5-7"]
HOURS = ["2", "1", "0,3", "*", "*/2", "1-3", "23", "*/5", "6"]


def numbers(field: str, size: int) -> set[int]:
    """The values of a cron field: lists, ranges, stars and steps."""
    if "," in field:
        return {n for part in field.split(",") for n in numbers(part, size)}
    span, _, step = field.partition("/")
    if span == "*":
        return set(range(0, size, int(step or 1)))
    low, _, high = span.partition("-")
    return set(range(int(low), int(high or low) + 1))


@cache
def slots(minute: str, hour: str, zone: str, change: datetime) -> list[datetime]:
    """Every slot within two days of `change`, by looking at each minute.

    Debian's cron: where the minute or the hour is a star, the job follows real time. Otherwise it
    follows the clock on the wall: a time that is skipped counts at the first moment after it, one
    that is repeated the first time only.
    """
    there, minutes, hours = ZoneInfo(zone), numbers(minute, 60), numbers(hour, 24)
    if minute.startswith("*") or hour.startswith("*"):
        walls = [
            (moment, moment.astimezone(there))
            for moment in (change + n * MINUTE for n in range(-2400, 1700))
        ]
        return [moment for moment, wall in walls if wall.minute in minutes and wall.hour in hours]
    midnight = change.astimezone(there).replace(hour=0, minute=0, tzinfo=None)
    days = [midnight + timedelta(days=n) for n in range(-3, 4)]
    walls_of_days = [
        day + timedelta(hours=h, minutes=m) for day in days for h in hours for m in minutes
    ]
    return sorted(_moment(wall, there) for wall in walls_of_days)


def _moment(wall: datetime, there: ZoneInfo) -> datetime:
    while wall.replace(tzinfo=there).astimezone(UTC).astimezone(there).replace(tzinfo=None) != wall:
        wall += MINUTE
    return wall.replace(tzinfo=there).astimezone(UTC)


@settings(max_examples=examples(150))
@given(
    st.sampled_from(CHANGES),
    st.sampled_from(MINUTES),
    st.sampled_from(HOURS),
    st.integers(-8 * 60, 26 * 60),
    st.integers(0, 59),
    st.sampled_from([0, 1, 999_999]),
)
def test_the_slot_is_the_one_a_scan_finds(
    change: tuple[str, datetime],
    minute: str,
    hour: str,
    minutes_later: int,
    second: int,
    microsecond: int,
) -> None:
    zone, moment = change
    now = moment + timedelta(minutes=minutes_later, seconds=second, microseconds=microsecond)
    expected = max(slot for slot in slots(minute, hour, zone, moment) if slot <= now)
    assert latest_slot(f"{minute} {hour} * * *", zone, now) == expected


@pytest.mark.parametrize(("zone", "change"), CHANGES)
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 * * * *", "*/15 * * * *", "15 1-3 * * *"])
def test_slots_never_lie_ahead_nor_go_back(zone: str, change: datetime, cron: str) -> None:
    last = None
    for minute in range(-180, 240, 5):
        now = change + minute * MINUTE
        slot = latest_slot(cron, zone, now)
        assert slot is not None and slot <= now
        assert last is None or slot >= last
        last = slot


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
def test_a_slot_at_this_very_moment_counts(zone: str) -> None:
    six = datetime(2026, 7, 1, 6, tzinfo=ZoneInfo(zone))
    assert latest_slot("0 6 * * *", zone, six) == six
    assert latest_slot("0 6 * * *", zone, six - timedelta(microseconds=1)) == six - timedelta(
        days=1
    )


@pytest.mark.parametrize(
    ("now", "slot"),
    [
        ("2026-03-29T00:59:59", "2026-03-28T01:30:00"),
        # 2:30 does not exist: at 3:00, the first moment after
        ("2026-03-29T01:00:00", "2026-03-29T01:00:00"),
        ("2026-10-25T00:29:00", "2026-10-24T00:30:00"),
        ("2026-10-25T00:30:00", "2026-10-25T00:30:00"),  # 2:30 summer time
        # 2:30 winter time is not a second slot
        ("2026-10-25T01:30:00", "2026-10-25T00:30:00"),
        ("2026-10-26T01:30:00", "2026-10-26T01:30:00"),
    ],
)
def test_half_past_two_in_berlin(now: str, slot: str) -> None:
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert latest_slot("30 2 * * *", "Europe/Berlin", at) == datetime.fromisoformat(slot).replace(
        tzinfo=UTC
    )


def test_rare_and_impossible_days() -> None:
    now = datetime(2026, 7, 1, tzinfo=UTC)
    assert latest_slot("0 0 29 2 *", "UTC", now) == datetime(2024, 2, 29, tzinfo=UTC)
    assert latest_slot("0 0 30 2 *", "UTC", now) is None
    assert latest_slot("0 6 * * SUN#1", "UTC", now) == datetime(2026, 6, 7, 6, tzinfo=UTC)
    assert latest_slot("nonsense", "UTC", now) is None


def test_the_answer_is_in_utc_and_of_now_only_the_moment_counts() -> None:
    now = datetime(2026, 7, 1, 12, tzinfo=UTC)
    slot = latest_slot("0 6 * * *", "Europe/Berlin", now)
    assert slot is not None and slot.tzinfo is UTC
    assert latest_slot("0 6 * * *", "Europe/Berlin", now.astimezone(ZoneInfo("Asia/Tokyo"))) == slot
