"""Linking while another process links, on a real PostgreSQL: what that process has not committed is
left to do."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.plugins.matching.commands import links
from scraper.plugins.matching.linking import step, store
from tests.support.making import a_site
from tests.support.shops.crawled_shop import Shop


@pytest.fixture(autouse=True)
def _two_shops(engine: sa.Engine) -> None:
    for site in ("alpha", "beta"):
        shop = Shop(engine)
        shop.site = a_site(site, revisit="0s")
        product = {"name": "Kitano kettle K200", "gtin": "4006381333931", "price": Decimal(20)}
        shop.once(external_id="1", url=f"https://shop.example/{site}/1", **product)


def test_the_command_waits_for_the_process_that_links(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "open_engine", lambda: engine)
    with engine.connect() as other:
        assert store.lock(other)
        end = threading.Timer(1, other.commit)
        end.start()
        output = CliRunner().invoke(main, ["links", "update"]).output
        end.join()
    assert "2 offers of 1 articles" in output


def test_offers_whose_proposals_another_process_looks_for_are_left(engine: sa.Engine) -> None:
    assert step.run(engine, 60)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE offers SET proposed_at = NULL"))
    with engine.begin() as other:
        other.execute(sa.text("SELECT FROM offers FOR UPDATE"))
        assert not step.run(engine, 60)
    assert step.run(engine, 60)
