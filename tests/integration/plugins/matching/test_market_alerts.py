"""`make alerts-chaos` over several shops: each alert of a rule over all shops once, whatever dies."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper.plugins.alerts.prices import outbox
from scraper.plugins.matching.linking import step
from tests.support.killed_alerts import deliver_through_kills
from tests.support.making import a_site, open_crawl

RULES = """
- {name: cheapest, when: cheapest}
- {name: lost, when: no longer cheapest, site: alpha}
- {name: under, when: undercut by 3%, site: alpha}
- {name: back, when: back in stock anywhere}
- {name: rose, when: rose, every: 1s}
- {name: rose-5, when: rose 5%}
- {name: changed, when: changed}
"""
# Three shops that sell the same products. Of five, beta will undercut alpha, undercut it a little,
# rise above it, have again what all have sold out, and change nothing of what it asks.
SHOPS = """
INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash, version)
SELECT :site, n, :site * 10000000 + n, :crawl, 'https://shop.example/' || :site || '/' || n,
       jsonb_build_object('name', 'Kitano kettle K' || n || 'XZ', 'brand', 'Kitano',
                          'mpn', 'K' || n || 'XZ', 'in_stock', n % 5 <> 3, 'price_currency', 'EUR',
                          'price', coalesce(CAST(:price AS numeric), (ARRAY[31, 31, 20, 31, 31])[1 + n % 5])),
       gen_random_uuid(), 1
  FROM generate_series(1, :changes) n
"""
# Each tenth change is of a crawl that is rejected.
MOVES = """
INSERT INTO product_versions (product_id, version, data, content_hash, valid_from, valid_to,
                              crawl_id)
SELECT id, 1, data, gen_random_uuid(), now(), now(), :good FROM products WHERE site_id = :site;
UPDATE products SET version = 2, data = data || jsonb_build_object('in_stock', true, 'note', 'new',
       'price', (ARRAY[27, 29.5, 40, 31, 31])[1 + CAST(external_id AS integer) % 5])
 WHERE site_id = :site;
INSERT INTO changes (product_id, crawl_id, site_id, version, previous_version, event)
SELECT id, CASE WHEN external_id LIKE '%0' THEN :bad ELSE :good END, site_id, 2, 1, 'changed'
  FROM products WHERE site_id = :site ORDER BY id;
ANALYZE
"""
# By the remainder of the number: the rules that match, and the shop whose offer is best then.
EXPECTED = {
    0: {"cheapest": "beta", "lost": "beta", "under": "beta", "changed": "beta"},
    1: {"cheapest": "beta", "lost": "beta", "changed": "beta"},
    2: {"cheapest": "alpha", "rose": "alpha", "rose-5": "alpha", "changed": "alpha"},
    3: {"back": "beta"},
    4: {},
}
ALERTS = sa.text("""
SELECT rule, details ->> 'product' AS product, details -> 'best' ->> 'site' AS best,
       details ->> 'id' AS id FROM price_alerts
""")


@pytest.mark.slow
def test_changes_over_all_shops_are_replayed_through_kills(
    engine: sa.Engine, tmp_path: Path
) -> None:
    number, kills = int(os.environ.get("CHANGES", "5000")) // 5, int(os.environ.get("KILLS", "4"))
    chance = random.Random(int(os.environ.get("SEED", "1")))
    for name, price in (("alpha", 30), ("gamma", 35), ("beta", None)):
        site = a_site(name)
        good = open_crawl(engine, site)
        values = {"site": good[0], "crawl": good[1], "price": price, "changes": number}
        with engine.begin() as connection:
            connection.execute(sa.text(SHOPS), values)
            connection.execute(sa.text("UPDATE crawls SET status = 'completed'"))
    while not step.run(engine, 60):
        pass
    bad = open_crawl(engine, site)
    values = {"site": good[0], "good": good[1], "bad": bad[1]}
    with engine.begin() as connection:
        for consumer in (outbox.CONSUMER, outbox.MARKET_CONSUMER):
            outbox.consumers.set_position(connection, consumer, None, 0)
        reasons = 'UPDATE crawls SET reasons = \'[{"what": "rejected"}]\' WHERE id = :bad'
        for statement in (reasons, *MOVES.split(";\n")):
            connection.execute(sa.text(statement), values)

    def has_unread(connection: sa.Connection) -> bool:
        def last(table: str) -> int:
            query = sa.text(f"SELECT coalesce(max(id), 0) FROM {table}")
            return int(connection.execute(query).scalar_one())

        def read(consumer: str) -> int | None:
            return outbox.consumers.read_position(connection, consumer, None)

        linked = connection.execute(sa.text("SELECT position FROM matching_state")).scalar_one()
        return {linked, read(outbox.CONSUMER)} != {last("changes")} or read(
            outbox.MARKET_CONSUMER
        ) != last("article_events")

    began = time.monotonic()
    replay = deliver_through_kills(
        engine,
        tmp_path,
        RULES,
        has_unread,
        kills=kills,
        longest_s=2.5,
        chance=chance,
        step="step.run(engine, 1.0)",
    )
    truth = {
        (rule, str(n), best)
        for n in range(1, number + 1)
        for rule, best in EXPECTED[n % 5].items()
        if n % 10
    }
    with engine.connect() as connection:
        alerts = connection.execute(ALERTS).all()
    written = Counter((row.rule, row.product, row.best) for row in alerts)
    assert set(written) == truth and max(written.values()) == 1, "none missed, none doubled"
    again = replay.check_received({row.id for row in alerts})
    print(
        f"{number:,} changes of articles, {replay.killed} kills ({replay.at_work} at work), "
        f"{len(truth):,} alerts in {time.monotonic() - began:.0f} s: none missed, none doubled; "
        f"{again} sent again with their ids"
    )
