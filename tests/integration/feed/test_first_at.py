"""The first change at a time or later, found by halving the positions."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from scraper.feed.store import FIRST_AT

# Every third position was never committed; a time is that of its transaction's begin, up to ten
# minutes before the position was given out. Most of two days are busy, and some hours are quiet.
FILL = sa.text("""
INSERT INTO changes (id, product_id, crawl_id, at, site_id, version, event)
OVERRIDING SYSTEM VALUE
SELECT n, n, 1,
       timestamptz '2026-03-01 00:00Z' + n * interval '20 seconds'
         + CASE WHEN n > 4000 THEN interval '7 hours' ELSE interval '0' END
         - n * 7919 % 600 * interval '1 second', 1, 1, 'new'
  FROM generate_series(1, 8000) n WHERE n % 3 <> 0
""")
READ_ALL = sa.text("SELECT min(id) FROM changes WHERE at >= :at")


def test_halving_finds_what_reading_all_finds(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(FIRST_AT, {"at": datetime(2026, 3, 1)}).scalar() is None
        connection.execute(FILL)
        first: datetime = connection.execute(sa.text("SELECT min(at) FROM changes")).scalar_one()
        for hours in (
            -100,
            -1,
            0,
            0.3,
            1,
            5.5,
            12,
            22,
            23,
            25,
            29.5,
            30,
            45,
            51,
            51.5,
            52,
            60,
            900,
        ):
            at = first + timedelta(hours=hours)
            expected = connection.execute(READ_ALL, {"at": at}).scalar()
            assert connection.execute(FIRST_AT, {"at": at}).scalar() == expected, hours
        connection.execute(sa.text("DELETE FROM changes WHERE id > 4 OR id < 4"))
        assert connection.execute(FIRST_AT, {"at": first}).scalar() == 4
