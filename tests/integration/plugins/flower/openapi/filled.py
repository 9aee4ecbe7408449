"""A database in which every answer of the tab's JSON has something to say."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import sqlalchemy as sa

from scraper.domain import Outcome
from scraper.frontier import sites
from scraper.plugins.alerts.crawls import alert_crawls
from scraper.plugins.alerts.prices.outbox import alert_prices
from scraper.plugins.matching.linking import step
from scraper.settings import Settings
from tests.support.judged_crawls import crawled, good, shop, without
from tests.support.making import a_site, add, give_up, new_page, open_crawl, rows, urls
from tests.support.servers.receivers import Webhook
from tests.support.shops.crawled_shop import Shop

GTIN = "4006381333931"
RUN_OF_A_CRAWL = """
INSERT INTO throughput VALUES
 (:id, now(), 10, 'w', 'datacenter.eu', '', 'fetched', 9, 9, 1, 700),
 (:id, now(), 10, 'w', 'datacenter.eu', 'residential', 'refused', 9, 9, 1, 300)
"""
HOST = "INSERT INTO crawl_hosts VALUES (:id, 'other.example', 'w', 9, 1, 2.5, 1.5, 700)"
COVERAGE = """
INSERT INTO crawl_coverage (crawl_id, site_id, products, expected, evidence)
SELECT id, site_id, 28, 30, 'its sitemap' FROM crawls
"""
DELISTED = "UPDATE products SET delisted_at = now() WHERE url LIKE '%/p/29' OR data ? 'gtin'"
PLAN = """
INSERT INTO site_plans (site_id, allocation, mean_rate, requests, visits, promised, planned_at,
                        wanted, hours, days, seen_days, kept_days, promise_days, needed, broken,
                        cards, dates)
VALUES (:site, '{0.5,0,0,1,0,0}', 0.2, 1000, 900, 0.9, now(),
        '{"fresh": {"share": "95%", "within": "12h"}}', array_fill(2.0::float, '{24}'),
        array_fill(4.0::float, '{7}'), 1000, 880, 970, 1500, 'budget too small',
        '{9,1,9,1}', '{9,1,9,1}')
"""
VISITS = """
INSERT INTO page_visits (page_id, site_id, changes, changed_days, quiet_days, rate, weight,
                         looked_at, next_visit)
SELECT :site * 1000 + n, :site, 2, 3, 10, n / 300.0, 1, now(), now() FROM generate_series(1, 300) n
"""
RULES = """\
- {name: drops, when: fell 15%, to: [ops], every: 1d}
- {name: wide, when: fell 15%, to: [ops]}
"""


def fill_database(engine: sa.Engine, settings: Settings, webhook: Webhook) -> None:
    """Fills it: a suspect site, one that is being crawled, a market, a plan, and alerts, of which
    the webhook refuses those of prices."""
    alert_prices(engine, settings)
    _crawl_market(engine)
    alert_prices(engine, settings)
    _crawl_suspect_site(engine)
    crawl = open_crawl(engine, a_site("other", schedule="0 6 * * *", tags="big", queue="browser"))
    give_up(engine, crawl, urls(2, "other.example"), Outcome.REFUSED, error="no", excerpt="<p>")
    add(engine, [new_page(crawl, "https://other.example/due")])
    with engine.begin() as connection:
        connection.execute(sa.text(RUN_OF_A_CRAWL), {"id": crawl[1]})
        connection.execute(sa.text(HOST), {"id": crawl[1]})
        fresh = {"share": "95%", "within": "12h", "looked": "7d"}
        planned = a_site("planned", fresh=fresh, budget="20000/d")
        never = a_site("never", rate="unlimited", alerts=[{"name": "gone", "when": "sold out"}])
        sites.store_definitions(connection, [planned, never])
        row = sites.find_site(connection, "planned")
        assert row is not None
        connection.execute(sa.text(VISITS), {"site": row[0]})
        connection.execute(sa.text(PLAN), {"site": row[0]})
        connection.execute(sa.text(COVERAGE))
        connection.execute(sa.text(DELISTED))
    webhook.status = 503
    alert_prices(engine, settings)
    webhook.status = 200
    alert_crawls(engine, settings)


def _crawl_suspect_site(engine: sa.Engine) -> None:
    """Three good crawls with other prices each, and one with prices that are held back."""
    for more in range(3):
        crawled(
            engine,
            shop(schedule="0 6 * * *", tags="garden"),
            range(30),
            lambda n, more=more: good(n, price=Decimal(n + 10 - 2 * more), in_stock=n % 2 == 0),
        )
    numbers = range(28)
    crawled(engine, shop(), numbers, lambda n: good(n, price=Decimal(n + 9000), in_stock=True))
    crawled(
        engine,
        shop(),
        numbers,
        lambda n: without(good(n), "price") if n % 3 else good(n, price=Decimal(n + 70_000)),
    )


def _crawl_market(engine: sa.Engine) -> None:
    kettle: dict[str, object] = {"name": "Kitano kettle K200 1.7 l", "gtin": GTIN, "mpn": "K-200"}
    titles = "Harlow steel frying pan 28 cm", "Lumen oak dining table", "Fjord woven wool rug grey"
    _sell(engine, "alpha", kettle, *({"name": title} for title in titles))
    _sell(engine, "beta", kettle, *({"name": f"{title} new"} for title in titles))
    while not step.run(engine, 60):
        pass
    assert rows(engine, "SELECT count(*) FROM offer_links WHERE state = 'proposed'")[0][0] == 3


def _sell(engine: sa.Engine, site: str, *products: dict[str, object]) -> None:
    """Crawls a shop of these products twice, at a lower price the second time."""
    for price in (50, 40):
        shop = Shop(engine)
        shop.site = a_site(site, revisit="0s")
        pages = shop.begin(*(f"https://shop.example/{site}/{n}" for n in range(len(products))))
        for n, (page, product) in enumerate(zip(pages.values(), products, strict=True)):
            more = {"price": Decimal(price + n), "price_currency": "EUR", "in_stock": True}
            shop.give(page, str(n), **product, **more, image=f"/{n}.png")
        shop.end()


def write_alert_files(folder: Path, webhook: str) -> dict[str, str]:
    """Writes recipients and rules, and returns the settings that name them."""
    recipients, rules = folder / "alerts.txt", folder / "rules.yaml"
    recipients.write_text(f"ops = {webhook}\n")
    rules.write_text(RULES)
    return {"SCRAPER_ALERTS": str(recipients), "SCRAPER_ALERT_RULES": str(rules)}
