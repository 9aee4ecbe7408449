"""A shop whose products are stored."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.support.judged_crawls import ALL, NUMBERS, crawled, shop, stored


@pytest.fixture
def known(engine: sa.Engine) -> sa.Engine:
    """A shop that was crawled well twice."""
    for _ in range(2):
        assert not crawled(engine, shop(), NUMBERS).row.suspect
    assert stored(engine) == ALL
    return engine
