"""Fixtures of the tests of alerts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.receivers import Mailbox, Webhook, receivers


@pytest.fixture
def people(tmp_path: Path) -> Iterator[tuple[Webhook, Mailbox, Path]]:
    """Those who receive alerts, by a webhook and by mail, and the file with their addresses."""
    with receivers(tmp_path) as found:
        yield found
