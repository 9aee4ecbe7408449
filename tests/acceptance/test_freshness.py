"""Planned pages of the sample shop, visited in rounds by a real coordinator and worker, and counted in
the shop's log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from scraper.plugins.freshness.store import PACE_MOST
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.support.making import rows

PRODUCTS = 20
PER_S = 4
# A request may be late, so that the next one follows sooner.
LATE = 4
ROUNDS = "SELECT count(*) FROM crawls WHERE trigger = 'visit' AND status = 'completed'"


@pytest.mark.timeout(900)
def test_rounds_visit_every_product_within_the_budget(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    shop = sample_shop(
        *("--products", str(PRODUCTS), "--latency-ms", "2"),
        changes={"revisit: ": f"budget: {PER_S * 86_400}/d\nrevisit: 7d  # was "},
    )
    run.coordinator()
    run.worker("residential")
    run.worker("datacenter")
    first = run.crawl(engine, "demo")
    assert first["status"] == "completed" and first["products_new"] == PRODUCTS
    until(lambda: rows(engine, ROUNDS)[0][0] >= 3, 120, 0.5)

    log = sorted(shop.log())
    times = [at for at, _, _ in log]
    for first_at, begin in enumerate(times):
        for last_at in range(first_at + 1, len(times)):
            # A round makes up for the pause before it, of which this time may have none.
            allowed = PER_S * PACE_MOST * (times[last_at] - begin) + LATE
            assert last_at - first_at <= allowed, log[first_at : last_at + 1]
    # The rounds together keep to the budget, but for what the last one made up.
    assert len(times) <= PER_S * (times[-1] - times[0]) + PRODUCTS * (PACE_MOST - 1) + LATE
    visits = Counter(target for _, target, status in log if status in (200, 304))
    seen = [url for (url,) in rows(engine, "SELECT url FROM products")]
    assert len(seen) == PRODUCTS
    assert min(visits[url.removeprefix(shop.url)] for url in seen) >= 3
    assert rows(engine, "SELECT sum(products_delisted), bool_or(suspect) FROM crawls") == [
        (0, False)
    ]
    facts = run.json("plan", "demo")
    assert facts["pages"] == PRODUCTS and facts["requests_a_day"] == PER_S * 86_400
    assert "requests a day" in run.scraper("plan", "demo").stdout
