"""What operators, users and ticks ask of a database of any size, by the functions that commands, the
tab and the coordinator call. Each is given the database and one of its sites that has the same
number of pages in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import redis
import sqlalchemy as sa

from benchmarks.frontiers import Filled
from scraper.cli.data.export import write_export
from scraper.coordinator import plan, reap
from scraper.feed import reader
from scraper.feed import store as feed
from scraper.frontier import throughput
from scraper.plugins.archive import rows as archive
from scraper.plugins.flower import view
from scraper.plugins.flower.latest.changes import read_changes
from scraper.plugins.flower.search import page as search
from scraper.plugins.metrics.postgres import Postgres
from scraper.plugins.replay import store as dead_letters
from scraper.registry import plugin_ticks, resolve
from scraper.settings import Settings
from scraper.views import dashboard, queue_stats
from scraper.views.host_states import read_states
from scraper.views.site_table import Query

# It links every product once before it has a feed to follow.
NOT_MEASURED = {"match"}
DAY_S = 86_400


@dataclass(frozen=True)
class Place:
    """A database, and one of its sites, whose crawl runs."""

    engine: sa.Engine
    config: Settings
    site: Filled
    product: str


Question = Callable[[Place], object]


def questions() -> dict[str, Question]:
    """What is measured, by the name of its row."""
    ticks = {
        f"tick {tick.name}": partial(_tick, tick.step)
        for tick in plugin_ticks()
        if tick.name not in NOT_MEASURED
    }
    return {
        "tick plan": lambda place: plan.plan(place.engine),
        "tick reap": lambda place: reap.reap(place.engine, place.config),
        **ticks,
        "status": lambda place: dashboard.read(place.engine, place.config, nodes={}),
        "  its queues": _reading(lambda c, _: queue_stats.read_queues(c)),
        "  its latest errors": lambda place: queue_stats.read_troubles(place.engine),
        "  its dead pages": _reading(lambda c, _: queue_stats.count_unusable(c)),
        "status of a site": lambda place: dashboard.read(
            place.engine, place.config, site=place.site.name, nodes={}
        ),
        "status of all sites": lambda place: dashboard.read(
            place.engine, place.config, every_site=True, nodes={}
        ),
        "hosts": _hosts,
        "dead, of a site": _reading(
            lambda c, place: dead_letters.find_pages(
                c, dead_letters.Selection(site=place.site.name), 50
            )
        ),
        "dead, of all": _reading(
            lambda c, _: dead_letters.find_pages(c, dead_letters.Selection(), 50)
        ),
        "metrics": lambda place: Postgres(place.engine, place.config.lease_s).read(),
        "tab, sites": _reading(lambda c, _: view.fleet_listing(c, Query())),
        "tab, crawls": _reading(
            lambda c, _: view.fleet_listing(c, Query(history=True, sort="newest"))
        ),
        "tab, a crawl": _reading(lambda c, place: view.crawl_details(c, place.site.crawl_id)),
        "tab, a site": _reading(
            lambda c, place: view.site_details(c, place.config, place.site.name)
        ),
        "tab, products": _reading(
            lambda c, place: view.products_listing(c, place.site.name, "", "id", 0)
        ),
        "tab, a product": _reading(
            lambda c, place: view.product_details(c, place.site.name, place.product)
        ),
        "tab, changes": _reading(lambda c, _: read_changes(c, None)),
        "tab, changes of a site": _reading(lambda c, place: read_changes(c, place.site.name)),
        "tab, search a code": _reading(lambda c, place: search.read(c, {"q": place.product})),
        "tab, search a word": _reading(lambda c, _: search.read(c, {"q": "pan"})),
        "export": partial(_export, None),
        "export, last hour": partial(_export, timedelta(hours=1)),
        "prune the feed": _reading(lambda c, _: feed.trim_feed(c, 29)),
        "prune the archive": _reading(
            lambda c, place: archive.forget_pages(c, place.site.site_id, 20 * DAY_S, rows=10)
        ),
        "prune throughput": _reading(lambda c, _: throughput.tidy_buckets(c, 29)),
    }


def _tick(step: str, place: Place) -> object:
    return resolve(step)(place.engine, place.config)


def _reading(ask: Callable[[sa.Connection, Place], object]) -> Question:
    def question(place: Place) -> object:
        with place.engine.begin() as connection:
            return ask(connection, place)

    return question


def _hosts(place: Place) -> object:
    with (
        redis.Redis.from_url(place.config.valkey_url) as client,
        place.engine.connect() as connection,
    ):
        return read_states(connection, client)


def _export(age: timedelta | None, place: Place) -> object:
    since = None if age is None else datetime.now(UTC) - age
    cursor = None if since is None else reader.resolve_cursor(place.engine, since)
    file = str(Path(place.config.home) / "export.csv")
    return write_export(place.engine, place.site.name, "csv", file, delisted=False, since=cursor)
