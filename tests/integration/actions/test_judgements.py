"""An operator's decision on a crawl."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from scraper.actions import judgements
from scraper.errors import ScraperError
from tests.support.judged_crawls import Crawl, crawled, good, shop, stored


@pytest.mark.parametrize("fields", [None, ("price",)])
@pytest.mark.parametrize("dry", [True, False])
def test_a_running_crawl_cannot_be_accepted(
    engine: sa.Engine, fields: tuple[str, ...] | None, dry: bool
) -> None:
    """Its values have no reason yet that speaks against them: all would be published."""
    crawled(engine, shop(), range(2))
    crawl = Crawl(engine, shop(), range(2))
    crawl.settle(lambda n: good(n, name="another"))
    with pytest.raises(ScraperError, match="not judged yet"):
        judgements.accept_crawl(engine, crawl.id, fields, dry=dry)
    assert stored(engine) == {str(n): good(n) for n in range(2)}
