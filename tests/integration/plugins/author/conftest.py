"""A shop whose definition a test writes, in a folder without settings or servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.shops.static_shop import StaticShop
from tests.support.shops.things_shop import PAGES


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StaticShop]:
    for name in ("DATABASE_URL", "REDIS_URL", "SCRAPER_HOME", "SCRAPER_SITES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with StaticShop(PAGES, "User-agent: *\nDisallow: /secret\n") as server:
        yield server
