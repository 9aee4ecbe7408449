"""What a process does about itself, by what it sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scraper.errors import RESTART_CODE
from scraper.process.watchdog import (
    HEALTHY_SILENCE_S,
    Action,
    ProcessHealth,
    decide,
)
from scraper.settings import Settings

SETTINGS = Settings(lease_s=45, away_s=600, memory_max_mb=1024)
WELL = ProcessHealth(life_s=3600, loop_silent_s=1, consumer_silent_s=1, rss_mb=300, tasks=5000)


def test_a_process_that_is_well() -> None:
    assert decide(WELL, SETTINGS) is None


@pytest.mark.parametrize(
    ("health", "action", "code"),
    [
        (replace(WELL, loop_silent_s=91), Action.QUIT, 1),
        (replace(WELL, consumer_silent_s=61), Action.QUIT, 1),
        (replace(WELL, postgres_away_s=601), Action.END, 3),
        (replace(WELL, mismatch="the database is at revision 0001"), Action.END, 3),
        (replace(WELL, beat_died=True), Action.RESTART, RESTART_CODE),
        (replace(WELL, rss_mb=1025), Action.RESTART, RESTART_CODE),
    ],
)
def test_what_it_ends_for(health: ProcessHealth, action: Action, code: int) -> None:
    order = decide(health, SETTINGS)
    assert order is not None and (order.action, order.code) == (action, code)


@pytest.mark.parametrize(
    "health",
    [
        replace(WELL, loop_silent_s=89),
        replace(WELL, postgres_away_s=599),
        # no work done in this life
        replace(WELL, rss_mb=1025, tasks=0),
        replace(WELL, rss_mb=1025, life_s=5),  # or hardly
        replace(WELL, rss_mb=1025, postgres_away_s=3),  # it could not start
        replace(WELL, beat_died=True, broker_away_s=3),
        replace(WELL, beat_died=True, life_s=5),  # a moment later
    ],
)
def test_what_it_withstands(health: ProcessHealth) -> None:
    assert decide(health, SETTINGS) is None


def test_short_leases_leave_the_loop_half_a_minute() -> None:
    settings = Settings(lease_s=5)
    assert decide(replace(WELL, loop_silent_s=29), settings) is None
    assert decide(replace(WELL, loop_silent_s=31), settings) is not None


def test_no_limit_of_memory() -> None:
    assert decide(replace(WELL, rss_mb=1e6), Settings(memory_max_mb=0)) is None


def test_when_it_gives_no_sign_of_life() -> None:
    """Before it quits by itself, so that a probe reports it; servers that are away do not count."""
    assert WELL.is_healthy and replace(WELL, postgres_away_s=500, broker_away_s=500).is_healthy
    for silent in (
        replace(WELL, loop_silent_s=HEALTHY_SILENCE_S + 1),
        replace(WELL, consumer_silent_s=HEALTHY_SILENCE_S + 1),
    ):
        assert not silent.is_healthy and decide(silent, SETTINGS) is None
