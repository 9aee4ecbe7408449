"""`scraper sites check` says how long a crawl will take."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.settings import Settings
from tests.support.making import open_crawl
from tests.support.shops.crawled_shop import A, B, Shop

DEFINITION = """
start: https://shop.example/
rate: 6/m
limits: {listings: 40, products: 80}
listing: {products: a}
product: {id: {url: '/p/(.+)'}, fields: {title: {css: h1, required: true}}}
"""


def checked() -> str:
    done = CliRunner().invoke(main, ["sites", "check"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_time_is_that_of_the_last_complete_crawl_or_of_the_limits(
    environment: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scraper.cli.setup.sites.open_engine", lambda: engine)
    path = environment.sites_dir / "shop.yaml"
    path.write_text(DEFINITION.replace("listings: 40, ", ""))
    assert "no complete crawl yet; 1,000 pages would take 3 h at 6/m" in checked()
    done = CliRunner().invoke(main, ["sites", "check", "--json"], catch_exceptions=False)
    assert done.stdout == "[]\n" and "1,000 pages would take 3 h" in done.stderr
    path.write_text(DEFINITION)
    assert "no complete crawl yet; 120 pages (its limits) take 20 min at 6/m" in checked()
    shop = Shop(engine)
    pages = shop.begin(A, B)
    shop.give(pages[A], "a")
    shop.give(pages[B], "b")
    shop.end()
    told = "shop: the 2 pages of its last complete crawl take about 20 s at 6/m a host"
    assert told in checked()
    # One that runs, and one of dead pages alone, say nothing.
    open_crawl(engine, shop.site)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET product_total = 900 WHERE id > 1"))
    assert told in checked()
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE crawls SET status = 'completed', trigger = 'replay' WHERE id > 1")
        )
    assert told in checked()
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET trigger = 'schedule' WHERE id > 1"))
    assert "the 900 pages" in checked()
