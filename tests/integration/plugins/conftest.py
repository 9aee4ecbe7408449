"""Commands of the test's own, in processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scraper.settings import Settings
from tests.acceptance.commands import Commands, commands


@pytest.fixture
def run(environment: Settings, tmp_path: Path) -> Iterator[Commands]:
    with commands(tmp_path / "logs") as started:
        yield started
        # Asked nicely, each Flower would take a second.
        for process in started.started:
            started.end(process, signal.SIGKILL)
