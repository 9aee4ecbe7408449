"""A Flower of the test's own."""

from __future__ import annotations

import pytest

from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.support.servers.flower import Flower


@pytest.fixture
def flower(run: Commands, environment: Settings) -> Flower:
    return Flower(run, environment)
