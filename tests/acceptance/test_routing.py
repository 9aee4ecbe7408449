"""Who gets which page, and when: regions, and priorities among real workers, on both brokers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import sqlalchemy as sa

from scraper.frontier import pages
from scraper.frontier.pages import Room
from scraper.rules.urls import host_of
from scraper.settings import Settings
from scraper.sites import loader
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.processes import said
from tests.support.making import add, new_page, open_crawl, rows

RESIDENTIAL = {"queue: datacenter": "queue: residential"}
EUROPEAN = RESIDENTIAL | {"# region: eu": "region: eu"}

STATUS = "SELECT c.status FROM crawls c JOIN sites s ON s.id = c.site_id WHERE s.name = '{}'"


def test_a_regions_worker_serves_its_region_and_any(
    any_broker: Settings, run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    sample_shop("--products", "30", changes=RESIDENTIAL, name="anywhere")
    european = sample_shop("--products", "30", changes=EUROPEAN, name="european")
    coordinator = run.coordinator()
    american = run.worker("residential.us")
    run.scraper("crawl", "european")
    for process in (coordinator, american):
        run.until_ready(process)
    assert said(run, american, "also serves the work of any region") == 1
    # A busy worker replies late.
    os.kill(american.pid, signal.SIGSTOP)
    threading.Timer(3, os.kill, (american.pid, signal.SIGCONT)).start()
    assert "no worker serves" not in run.scraper("crawl", "anywhere", "--wait").stderr
    assert rows(engine, "SELECT count(*) FROM leased_pages") != [(0,)], "it was sent"
    assert european.log() == [], "no worker of another region gets it"
    run.worker("residential.eu", "-X", "residential")
    until(lambda: rows(engine, STATUS.format("european")) == [("completed",)], 60)


LOW, HIGH = 4, 16
LOW_PAGES = 24_000
# no product's number: they are not found, and not redirected
NONE_SUCH = 1_000_000
# hosts without a rate: each may have 8 batches out, and together they fill all places and all room
HOLDERS = 3
PACED = {"rate: unlimited": "rate: 4/s", "concurrency: 16": "concurrency: 4"}


def backlog(
    engine: sa.Engine, shops: list[SampleShop], settings: Settings
) -> list[tuple[int, int]]:
    """Low-priority pages on all shops, due now; their crawls."""
    crawls = []
    for shop in shops:
        path = settings.sites_dir / f"{shop.name}.yaml"
        crawls.append(open_crawl(engine, loader.load_file(path)))
        path.unlink()  # no coordinator plans it
        urls = [f"{shop.url}/p/{NONE_SUCH + i}" for i in range(LOW_PAGES // len(shops))]
        add(engine, [new_page(crawls[-1], url, priority=LOW) for url in urls], room=LOW_PAGES)
    return crawls


def asked(shops: list[SampleShop], since: float) -> list[tuple[float, str]]:
    """(time, URL) of every request since then, of all shops."""
    return sorted(
        (at, shop.url + target)
        for shop in shops
        for at, target, _ in shop.log()
        if at >= since and target != "/robots.txt"
    )


def test_what_is_urgent_is_fetched_next(
    any_broker: Settings, run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    """All 8 places of the only worker are taken by batches of low priority, 8 more wait, and 20,000
    pages: of those that no worker had yet when a page of high priority came, none goes before it.
    Neither on a host of its own nor on another site's, paced or not."""
    options = ("--products", "20", "--latency-ms", "400")
    one_queue = {"queue: residential": "queue: datacenter"}
    # The first crawl's urgent page is on another shop's host.
    anywhere = {"allow_private: true": "allow_private: 127.0.0.0/8"}
    low = [sample_shop(*options, name=f"low{n}", changes=anywhere) for n in range(HOLDERS)]
    low.append(sample_shop(*options, name="paced", changes=PACED))
    crawls = backlog(engine, low, any_broker)
    urgent = sample_shop(
        "--products",
        "20",
        changes=one_queue | {"priority: normal": "priority: high"},
        name="urgent",
    )
    # The paced host's pages last for long enough that the urgent one need not be asked for at once.
    run.env["SCRAPER_HORIZON_S"] = "30"
    run.coordinator()
    run.worker("datacenter")

    def leases(claimed: bool) -> int:
        query = f"SELECT count(*) FROM leases WHERE (started_at IS NOT NULL) = {claimed}"
        return int(str(rows(engine, query)[0][0]))

    until(lambda: leases(claimed=True) >= 8 and leases(claimed=False) >= 7 and low[-1].log(), 60)
    added = [new_page(crawls[n], f"{low[n].url}/deal", priority=HIGH) for n in (0, -1)]
    added.append(new_page(crawls[0], f"{urgent.url}/deal", priority=HIGH))
    with engine.begin() as connection:
        connection.execute(
            sa.text("SELECT pg_advisory_xact_lock(hashtext('scraper.dispatch'))")
        )  # nothing is leased now
        pages.add_pages(
            connection, added, [Room(crawl_id, LOW_PAGES, LOW_PAGES) for _, crawl_id in crawls]
        )
        query = "SELECT url FROM pages JOIN leased_pages ON page_id = id"
        under_way = set(connection.execute(sa.text(query)).scalars())
        since = connection.execute(
            sa.text("SELECT extract(epoch FROM clock_timestamp())::float8")
        ).scalar_one()
    everywhere = [*low, urgent]
    wanted = {page.url for page in added}
    until(lambda: wanted <= {url for _, url in asked(everywhere, since)}, 60)
    requests = asked(everywhere, since)
    for at, url in requests:
        if url in wanted:
            before = [other for earlier, other in requests if earlier < at and other not in wanted]
            print(
                f"{at - since:.2f} s until the urgent page was asked for, after {len(before)} others: {url}"
            )
            strangers = set(before) - under_way
            assert not strangers, strangers
            here = [other for other in before if host_of(other) == host_of(url)]
            held = [other for other in under_way if host_of(other) == host_of(url)]
            assert len(here) <= len(held) / 2, (
                "of its own host's pages those that had their turn, not all that wait"
            )

    run.scraper("crawl", "urgent")
    until(lambda: rows(engine, STATUS.format("urgent")) == [("completed",)], 60)
    due = rows(engine, f"SELECT count(*) FROM pages WHERE status = 'due' AND priority = {LOW}")[0][
        0
    ]
    assert int(str(due)) > LOW_PAGES / 2
