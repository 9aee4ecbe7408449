"""Best-effort messages never hinder the work that sends them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kombu.exceptions import OperationalError
from structlog.testing import capture_logs

from scraper.domain import Message
from scraper.infra import outages
from scraper.runtime import send as sending

MESSAGES = [Message("dispatch", "coordinator")]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Exception | None]:
    """What each try to send meets, first one first; an empty list: it gets through."""
    errors: list[Exception | None] = []

    def send(_: Sequence[Message]) -> None:
        error = errors.pop(0)
        if error is not None:
            raise error

    monkeypatch.setattr(sending, "send", send)
    monkeypatch.setattr(sending, "_best_effort_paused_until", 0.0)
    monkeypatch.setattr(outages, "_outages", {})
    return errors


def test_a_broker_that_is_away(
    tried: list[Exception | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried += [OperationalError("Connection refused"), None]
    with capture_logs() as logs:
        for _ in range(20):
            sending.send_best_effort(MESSAGES)
        assert len(tried) == 1, "the others do not even try for a while"
        assert outages.broker().away_s > 0
        monkeypatch.setattr(sending, "_best_effort_paused_until", 0.0)
        sending.send_best_effort(MESSAGES)
    assert not tried and outages.broker().away_s == 0
    assert [line["event"] for line in logs] == ["Redis is away", "Redis is back"]


def test_a_fault_of_the_project_is_logged_and_does_no_harm(tried: list[Exception | None]) -> None:
    tried += [TypeError("not JSON")]
    with capture_logs() as logs:
        sending.send_best_effort(MESSAGES)
    assert [line["event"] for line in logs] == ["best-effort messages not sent"] and logs[0][
        "exc_info"
    ]
