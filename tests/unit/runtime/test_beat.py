"""Beat without a broker, and without a worker that listens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import redis.exceptions
from celery.beat import SchedulingError
from celery.schedules import schedule
from structlog.testing import capture_logs

from scraper.celery import app
from scraper.infra import outages
from scraper.runtime import beat
from scraper.runtime.beat import (
    BACKOFF_MAX_S,
    UNREAD_S,
    WAITING_MAX,
    TickScheduler,
)


class Broker:
    """What beat meets: `waiting` messages, or `error`; `sent` counts the ticks that got through."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waiting = 0
        self.error: Exception | None = None
        self.asked = self.sent = 0

    def depth(self, _queue: str) -> int:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.waiting

    def send(self, *_: object, **__: object) -> None:
        self.sent += 1


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(beat, "queue_depth", found.depth)
    monkeypatch.setattr(TickScheduler, "apply_async", found.send)
    monkeypatch.setattr(beat, "time", SimpleNamespace(monotonic=lambda: found.now))
    monkeypatch.setattr(outages, "_outages", {})
    return found


def ticks(broker: Broker, scheduler: TickScheduler, seconds: int) -> None:
    for _ in range(seconds):
        broker.now += 1
        scheduler.apply_entry(scheduler.schedule["dispatch"])


def test_it_backs_off_and_says_so_once(broker: Broker) -> None:
    scheduler = TickScheduler(app=app)
    broker.error = redis.exceptions.ConnectionError("Connection refused")
    with capture_logs() as logs:
        ticks(broker, scheduler, 60)
    assert [line["event"] for line in logs] == ["Redis is away"]
    assert 60 / BACKOFF_MAX_S <= broker.asked <= 60 / BACKOFF_MAX_S + 4 and broker.sent == 0
    broker.error = None
    ticks(broker, scheduler, 10)
    assert broker.sent >= 10 - BACKOFF_MAX_S


def test_errors_that_celery_wraps(broker: Broker) -> None:
    def refused(*_: object, **__: object) -> None:
        try:
            raise redis.exceptions.ConnectionError("Connection refused")
        except redis.exceptions.ConnectionError as error:
            raise SchedulingError("Couldn't apply scheduled task") from error

    scheduler = TickScheduler(app=app)
    scheduler.apply_async = refused
    with capture_logs() as logs:
        ticks(broker, scheduler, 10)
    assert [line["event"] for line in logs] == ["Redis is away"]


def test_ticks_that_no_worker_takes(broker: Broker) -> None:
    scheduler = TickScheduler(app=app)
    broker.waiting = WAITING_MAX + 1
    with capture_logs() as logs:
        ticks(broker, scheduler, int(UNREAD_S) * 3)
        assert broker.sent == 0
        broker.waiting = 0
        ticks(broker, scheduler, 5)
    assert broker.sent == 5
    assert [line["log_level"] for line in logs] == ["warning", "info"]


def test_another_error_keeps_its_traceback(broker: Broker) -> None:
    scheduler = TickScheduler(app=app)
    broker.error = KeyError("a fault of ours")
    with capture_logs() as logs:
        ticks(broker, scheduler, 1)
    assert logs[0]["exc_info"] and broker.sent == 0


def test_it_turns_once_for_each_tick_that_is_due(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = begin = datetime(2026, 11, 29, tzinfo=UTC)
    monkeypatch.setattr(type(app), "now", lambda _: clock)
    monkeypatch.setattr(schedule, "now", lambda _: clock)
    scheduler, turns = TickScheduler(app=app), 0
    while clock < begin + timedelta(minutes=1):
        clock += timedelta(seconds=scheduler.tick())
        turns += 1
        assert turns <= 1000
    assert broker.sent >= 60 + 30 + 12
    assert turns <= 2 * broker.sent
