"""A Flower of the test's own, in a process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scraper.settings import Settings
from tests.acceptance.commands import Commands, commands
from tests.support.servers.flower import Flower


@pytest.fixture
def run(environment: Settings, tmp_path: Path) -> Iterator[Commands]:
    with commands(tmp_path / "logs") as started:
        yield started
        # Asked nicely, each Flower would take a second.
        for process in started.started:
            started.end(process, signal.SIGKILL)


@pytest.fixture
def flower(run: Commands, environment: Settings) -> Flower:
    return Flower(run, environment)
