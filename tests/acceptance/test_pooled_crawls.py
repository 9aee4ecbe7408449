"""What crawls set off, through PgBouncer in transaction mode with two connections to PostgreSQL, which
is paused, resumed and connected again all the time: alerts, links, archives, rounds, schedules."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa

from scraper.infra.database import make_engine
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.support.making import rows
from tests.support.servers import pgbouncer
from tests.support.servers.receivers import Webhook, receivers
from tests.support.shops.odd_shop import OddShop, listing, product

SIZE = 2
# A pooler that is connected again while it logs in would wait for 15 s.
POOL = {"default_pool_size": SIZE, "admin_users": "scraper", "server_login_retry": 1}
# At most as many as are proposed for an offer in two other shops (`proposals.KEPT`).
PRODUCTS = 10
DEFINITION = """
start: {start}
rate: unlimited
concurrency: 4
revisit: {revisit}
dedup: {dedup}
allow_private: true
archive: true
listing: {{products: a.p}}
product:
  id: {{css: "body::attr(data-id)"}}
  fields:
    name: {{css: {title}, required: true}}
    gtin: .gtin
    price: {{css: .price, type: price}}
{more}
"""
RULES = "- {name: drops, when: fell 5%}\n- {name: cheap, when: cheapest}\n"
TIMES = re.compile(
    r"in [\d.]+ s, |, [\d.]+ pages/s|\d{4}-\d\d-\d\d \d\d:\d\d|, [\d.]+ bytes per URL|\n\d+\t"
)
CONSUMER = "SELECT FROM consumers WHERE name = 'price-alerts'"
STORED = (
    "SELECT s.name, p.external_id, p.data, p.version, p.delisted_at IS NULL FROM products p"
    " JOIN sites s ON s.id = p.site_id ORDER BY 1, 2",
    "SELECT s.name, p.external_id, v.version, v.data FROM product_versions v JOIN products p"
    " ON p.id = v.product_id JOIN sites s ON s.id = p.site_id ORDER BY 1, 2, 3",
    "SELECT s.name, p.external_id, c.version, c.event, count(*) FROM changes c JOIN products p"
    " ON p.id = c.product_id JOIN sites s ON s.id = c.site_id GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
    "SELECT s.name, c.trigger, c.status, c.suspect, c.products_new, c.products_changed, c.dead"
    " FROM crawls c JOIN sites s ON s.id = c.site_id ORDER BY 1, c.id",
    # Which offer of an article is proposed follows the order in which the crawls have read them.
    "SELECT l.state, l.method, count(DISTINCT (least(a.article_id, b.article_id),"
    " greatest(a.article_id, b.article_id))) FROM offer_links l JOIN offers a ON a.id = l.left_id"
    " JOIN offers b ON b.id = l.right_id GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT s.name, count(*) FROM archived_pages a JOIN sites s ON s.id = a.site_id"
    " GROUP BY 1 ORDER BY 1",
)

DUE = "UPDATE sites SET scheduled_since = now() - interval '2 hours'"
ENDED = """
SELECT count(*) FILTER (WHERE trigger = 'schedule'), count(*) FILTER (WHERE trigger = 'visit')
  FROM crawls WHERE status = 'completed'
"""


class Scene:
    """Three shops, what their crawls set off, and what is stored in the end."""

    def __init__(self, run: Commands, server: OddShop, webhook: Webhook, sites: Path) -> None:
        self.run, self.server, self.webhook, self.sites = run, server, webhook, sites
        self.printed: list[str] = []

    def serve(self, port: int, *, price: int) -> None:
        paths = [f"/p/{number}" for number in range(PRODUCTS)]
        self.server.serve("/all", listing(paths), port)
        for number, path in enumerate(paths):
            more = f'<i class="gtin">40063813{number:04}</i><b class="brand">ACME</b>'
            text = product(str(number), f"thing {number}", f"{price + number}.90 €", more)
            self.server.serve(path, text.encode(), port)

    def define(self, name: str, port: int, **changes: str) -> None:
        values = {"revisit": "0s", "dedup": "exact", "title": "h1", "more": ""} | changes
        text = DEFINITION.format(start=self.server.url("/all", port), **values)
        (self.sites / f"{name}.yaml").write_text(text)

    def type(self, *words: str, code: int = 0) -> None:
        shown = self.run.scraper(*words, code=code, timeout_s=240).stdout
        self.printed.append(TIMES.sub("", shown))

    def said(self) -> list[tuple[str, str]]:
        """Alerts of crawls, and of the prices that beta has lowered. What is linked while it is new
        may bring others."""
        said = []
        for _, body in self.webhook.got:
            if "rule" not in body:
                said.append(("crawl", body["message"]))
                continue
            lines = body["message"].splitlines()
            said += [(body["rule"], line) for line in lines if "(beta)" in line]
        return sorted(said)

    def play(self, engine: sa.Engine) -> list[object]:
        names = "alpha", "beta", "gamma"
        for port, name in enumerate(names):
            self.serve(port, price=20 + port)
            self.define(name, port)
        self.define("gamma", 2, dedup="bloom", revisit="7d")
        for process in (self.run.coordinator(), self.run.worker("datacenter")):
            self.run.until_ready(process)
        until(lambda: rows(engine, CONSUMER), 60)
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(self.run.scraper, "crawl", "--wait", timeout_s=240), names))
        self.type("links", "update")
        self.serve(1, price=10)
        self.type("crawl", "beta", "--wait")
        self.type("crawl", "gamma", "--wait")
        until(lambda: len(self.said()) == PRODUCTS + 1, 20)
        self.server.forget("/all", 0)
        self.type("crawl", "alpha", "--wait", code=4)
        until(lambda: len(self.said()) == PRODUCTS + 2, 20)
        self.serve(0, price=20)
        self.define("alpha", 0, more="    brand: .brand")
        self.type("reextract", "alpha", "--diff")
        self.type("reextract", "alpha")
        self.type("archive", "verify")
        self.type("archive", "prune")
        self.type("reject", "beta")
        self.type("dedup", "show", "gamma")
        self.define("alpha", 0, title=".none")
        self.type("repair", "alpha", code=None)  # type: ignore[arg-type]
        for process in self.run.started:
            assert process.poll() is None, self.run.log(process)
            assert self.run.end(process) == 0
        return [self.said(), self.printed, *(rows(engine, query) for query in STORED)]


@contextmanager
def disturbed(url: str) -> Iterator[None]:
    """A pooler that is paused, resumed and connected again all the time."""
    ended = threading.Event()

    def disturb() -> None:
        while not ended.wait(1):
            pgbouncer.pause(url)
            ended.wait(0.5)
            pgbouncer.ask_console(url, "RESUME")
            ended.wait(1)
            pgbouncer.ask_console(url, "RECONNECT")

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


@pytest.mark.timeout(900)
def test_what_crawls_set_off_is_the_same_through_a_pooler(
    servers: Settings,
    environment: Settings,
    empty_database: str,
    own_database: str,
    run: Commands,
    tmp_path: Path,
) -> None:
    played = []
    with pgbouncer.open_pooler(servers, empty_database, **POOL) as pooled, OddShop(3) as server:
        for url, direct in ((own_database, own_database), (pooled, empty_database)):
            with (
                receivers(tmp_path) as (webhook, _, _),
                redis.Redis.from_url(environment.valkey_url) as client,
            ):
                client.flushdb()
                (tmp_path / "alerts.txt").write_text(f"{webhook.address}\n")
                (tmp_path / "rules.yaml").write_text(RULES)
                run.env |= {
                    "DATABASE_URL": url,
                    "SCRAPER_ARCHIVE": str(tmp_path / f"kept-{len(played)}"),
                    "SCRAPER_HOME": str(tmp_path / f"home-{len(played)}"),
                    "SCRAPER_ALERTS": str(tmp_path / "alerts.txt"),
                    "SCRAPER_ALERT_RULES": str(tmp_path / "rules.yaml"),
                }
                run.scraper("migrate")
                run.started.clear()
                engine, scene = (
                    make_engine(direct),
                    Scene(run, server, webhook, environment.sites_dir),
                )
                if url == pooled:
                    with disturbed(pooled):
                        played.append(scene.play(engine))
                else:
                    played.append(scene.play(engine))
                engine.dispose()
        pgbouncer.assert_clean(pooled, SIZE)
    for direct, through in zip(*played, strict=True):
        assert through == direct
    assert played[0][0]


@pytest.mark.timeout(900)
def test_schedules_and_rounds_through_a_pooler(
    servers: Settings,
    environment: Settings,
    own_database: str,
    run: Commands,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """A slot that is due opens a crawl, whose products are then visited in rounds."""
    # The next slot is far away.
    minute = (datetime.now(UTC).minute - 5) % 60
    schedule = f"schedule: '{minute} * * * *'\nbudget: 345600/d\nrevisit: 7d  # was "
    shop = sample_shop(*("--products", "20", "--latency-ms", "2"), changes={"revisit: ": schedule})
    engine = make_engine(own_database)
    with pgbouncer.open_pooler(servers, own_database, **POOL) as pooled, disturbed(pooled):
        run.env["DATABASE_URL"] = pooled
        for process in (run.coordinator(), run.worker("datacenter,residential")):
            run.until_ready(process)
        until(lambda: rows(engine, "SELECT FROM sites"), 60)
        with engine.begin() as connection:
            connection.execute(sa.text(DUE))
        until(lambda: rows(engine, ENDED) and int(str(rows(engine, ENDED)[0][1])) >= 2, 60)
        facts = run.json("plan", "demo")
        for process in run.started:
            assert run.end(process) == 0
    assert rows(engine, ENDED)[0][0] == 1
    assert facts["pages"] == len(shop.truth()) == 20
    stored = rows(engine, "SELECT external_id, delisted_at IS NULL FROM products ORDER BY 1")
    assert stored == [(number, True) for number in sorted(shop.truth())]
    assert "Traceback" not in run.logs(whole=True)
    engine.dispose()
