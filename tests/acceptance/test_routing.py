"""Who gets which page, and when: regions, and priorities among real workers, on both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa

from scraper.demo import definition
from scraper.settings import Settings
from scraper.sites import loader
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.test_processes import said
from tests.making import add, new_page, open_crawl, rows

RESIDENTIAL = {"queue: datacenter": "queue: residential"}
EUROPEAN = RESIDENTIAL | {"# region: eu": "region: eu"}


def test_a_regions_worker_serves_its_region_and_any(
    any_broker: Settings, run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    sample_shop("--products", "30", changes=RESIDENTIAL, name="anywhere")
    european = sample_shop("--products", "30", changes=EUROPEAN, name="european")
    run.coordinator()
    american = run.worker("residential.us")
    run.until_ready(american)
    assert said(run, american, "also serves the work of any region") == 1
    assert "nobody serves" not in run.scraper("crawl", "anywhere", "--wait").stderr

    run.scraper("crawl", "european")
    time.sleep(3)
    assert european.log() == [], "no worker of another region gets it"
    run.worker("residential.eu", "-X", "residential")
    done = run.scraper("crawl", "european", "--wait")
    assert "nobody serves" not in done.stderr


STATUS = "SELECT c.status FROM crawls c JOIN sites s ON s.id = c.site_id WHERE s.name = '{}'"
HIGH = 16
LOW_PAGES = 50_000
URGENT_S = 10.0  # 2 s are meant, on a machine that has nothing else to do
HOLDERS = 3  # hosts of low priority: each may have 8 batches out, and together they fill all places and all room


def backlog(engine: sa.Engine, shops: list[SampleShop]) -> None:
    """Low-priority pages on all shops, due now."""
    for n, shop in enumerate(shops):
        text = definition(shop.url).replace("name: demo", f"name: low{n}", 1)
        crawl = open_crawl(engine, loader.load_text(text, "low.yaml"))
        pages = [new_page(crawl, f"{shop.url}/p/{i}", priority=4) for i in range(LOW_PAGES // len(shops))]
        add(engine, pages, room=LOW_PAGES)


def test_what_is_urgent_overtakes_a_backlog(
    any_broker: Settings, run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    """All 16 places of the only worker are taken by batches of low priority, 8 more wait: a page added with high priority is
    asked for next. A host of ten low-priority pages is served too, long before those with thousands are done."""
    options = ("--products", "20", "--latency-ms", "400")
    one_queue = {"queue: residential": "queue: datacenter"}
    shops = [sample_shop(*options, name=f"low{n}") for n in range(HOLDERS)]
    for n in range(HOLDERS):
        (any_broker.sites_dir / f"low{n}.yaml").unlink()
    backlog(engine, shops)
    urgent = sample_shop("--products", "20", changes=one_queue | {"priority: normal": "priority: high"}, name="urgent")
    sample_shop("--products", "10", changes=one_queue | {"priority: normal": "priority: low"}, name="small")
    run.coordinator()
    run.worker("datacenter")

    def leases(claimed: bool) -> int:
        query = f"SELECT count(*) FROM leases WHERE (started_at IS NOT NULL) = {claimed}"
        return int(str(rows(engine, query)[0][0]))

    until(lambda: leases(claimed=True) >= 16 and leases(claimed=False) >= 7, 60)
    run.scraper("crawl", "urgent")
    until(lambda: any(target.startswith("/p/") for _, target, _ in urgent.log()), URGENT_S * 2)
    found = rows(engine, f"SELECT url, extract(epoch FROM discovered_at)::float8 FROM pages WHERE priority >= {HIGH}")
    asked = {urgent.url + target: at for at, target, _ in urgent.log()}
    waits = sorted(asked[str(url)] - float(str(at)) for url, at in found if url in asked)
    assert len(waits) > 1 and waits[-1] < URGENT_S, waits
    until(lambda: rows(engine, STATUS.format("urgent")) == [("completed",)], 30)
    run.scraper("crawl", "small")
    until(lambda: rows(engine, STATUS.format("small")) == [("completed",)], 60)
    due = rows(engine, "SELECT count(*) FROM pages WHERE status = 'due' AND priority = 4")[0][0]
    assert int(str(due)) > LOW_PAGES / 2
