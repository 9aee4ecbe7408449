"""Which signals are believed."""

from __future__ import annotations

import random

from scraper.plugins.freshness.rules.sensors import SensorRecord


def play(visits, signals, rng):
    record = SensorRecord()
    for _ in range(visits):
        changed = rng.random() < 0.1
        record = record.after_visit(signalled=signals(changed), changed=changed, chance=0.1)
    return record


def test_a_sensor_that_stamps_everything_loses_its_say_soon():
    record = play(30, lambda changed: True, random.Random(1))
    assert not record.has_say


def test_a_sensor_that_is_right_keeps_its_say_and_has_a_recall():
    record = play(2000, lambda changed: changed, random.Random(1))
    assert record.has_say
    assert record.precision == 1
    assert record.recall > 0.97


def test_a_sensor_with_false_alarms_that_still_says_something_keeps_its_say():
    rng = random.Random(2)
    record = play(2000, lambda changed: changed or rng.random() < 0.06, rng)
    assert record.has_say
    assert 0.4 < record.precision < 0.85


def test_a_sensor_that_stays_silent_has_no_recall():
    record = play(500, lambda changed: False, random.Random(1))
    assert record.precision is None
    assert record.recall == 0


def test_a_sensor_wins_its_say_back():
    rng = random.Random(1)
    record = play(200, lambda changed: True, rng)
    assert not record.has_say
    for _ in range(600):
        record = record.after_visit(signalled=True, changed=True, chance=0.1)
    assert record.has_say


def test_a_visit_that_says_nothing_changes_nothing():
    record = SensorRecord(3, 2, 1, 4)
    assert record.after_visit(signalled=False, changed=False, chance=0.3) == record
