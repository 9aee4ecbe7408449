"""The fleet's rows and totals, read from a real database: true at any number, the worst first, with
the reason in words."""

from __future__ import annotations

import re
import time
from datetime import timedelta

import pytest
import sqlalchemy as sa

from scraper.domain import Kind, Outcome
from scraper.frontier import crawls, hosts, sites
from scraper.frontier.progress import STATES, read_progress
from scraper.settings import Settings
from scraper.views import crawl_progress as progress
from scraper.views import dashboard as status
from scraper.views import site_table as fleet
from scraper.views.site_table import ORDERS, FleetRow, Query
from tests.support.making import (
    a_site,
    add,
    claimed,
    give_up,
    lease_all,
    new_page,
    open_crawl,
    rows,
    urls,
)


def execute(engine: sa.Engine, text: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(text))


def rows_of(engine: sa.Engine, **query: object) -> dict[str, FleetRow]:
    with engine.connect() as connection:
        return {row.site: row for row in fleet.read_rows(connection, Query(**query)).rows}  # type: ignore[arg-type]


def begun_long_ago(engine: sa.Engine) -> None:
    execute(engine, "UPDATE crawls SET started_at = now() - interval '1 hour'")


def test_totals_are_true_at_any_number(engine: sa.Engine, environment: Settings) -> None:
    for number in range(35):
        crawl = open_crawl(engine, a_site(f"shop-{number}"))
        add(engine, [new_page(crawl, url) for url in urls(number, f"shop-{number}.example")])
    give_up(engine, crawl, urls(3, "bad.example"))
    ended = open_crawl(engine, a_site("ended"))
    execute(engine, f"UPDATE crawls SET status = 'completed' WHERE id = {ended[1]}")
    found = status.as_json(status.read(engine, environment, newest=1, nodes={}))
    (truth,) = rows(
        engine,
        """SELECT count(*), sum(discovery_done + product_done),
                  sum(discovery_total + product_total), sum(dead + invalid)
             FROM crawls WHERE status = 'running'""",
    )
    totals = found["totals"]
    assert (totals["crawls"], totals["done"], totals["total"], totals["failed"]) == truth
    assert truth[0] == 35 and totals["sites"] == 36
    assert sum(totals["states"].values()) == 36 and totals["states"]["completed"] == 1
    assert len(found["crawls"]) == 36, "every running crawl, and one that has ended"
    with engine.connect() as connection:
        alone = fleet.read_totals(connection, "shop-7")
        assert (alone.sites, alone.crawls, alone.total) == (1, 1, 7)


def test_a_site_that_failed_long_ago_is_watched(engine: sa.Engine, environment: Settings) -> None:
    for number in range(30):
        open_crawl(engine, a_site(f"shop-{number}"))
    execute(engine, "UPDATE crawls SET status = 'completed', finished_at = now()")
    execute(engine, "UPDATE crawls SET status = 'failed', note = 'unreachable' WHERE id = 1")
    open_crawl(engine, a_site("runs"))
    open_crawl(engine, a_site("shop-5"))
    found = status.read(engine, environment, every_site=True, nodes={})
    shown = {crawl.site: crawl.state for crawl in found.crawls}
    assert len(found.crawls) == len(shown) == 31 and shown["shop-0"] == "failed"
    assert shown["shop-5"] == shown["runs"] == "running" and "unreachable" in found.why[1]


def test_what_failed_long_ago_is_in_status(engine: sa.Engine, environment: Settings) -> None:
    for number in range(8):
        open_crawl(engine, a_site(f"shop-{number}"))
    execute(engine, "UPDATE crawls SET status = 'completed', finished_at = now()")
    execute(engine, "UPDATE crawls SET status = 'failed', note = 'unreachable' WHERE id = 1")
    found = status.read(engine, environment, newest=3, nodes={})
    assert {crawl.site: crawl.state for crawl in found.crawls}["shop-0"] == "failed"
    assert len(found.crawls) == 4 and "unreachable" in found.why[1]
    assert status.read(engine, environment, newest=0, nodes={}).crawls == []


def test_the_worst_comes_first_with_its_reason(engine: sa.Engine) -> None:
    for state in ("fine", "failed", "suspect", "paused", "slow", "dead", "planned"):
        crawl = open_crawl(engine, a_site(state))
        add(engine, [new_page(crawl, f"https://{state}.example/p")])
        if state == "dead":
            give_up(engine, crawl, urls(2, "dead.example"), Outcome.REFUSED, error="HTTP 403")
    with engine.begin() as connection:
        sites.store_definitions(
            connection, [a_site("never", schedule="0 6 * * *", timezone="Europe/Berlin")]
        )
        sites.pause_site(connection, "paused")
    begun_long_ago(engine)
    execute(
        engine,
        """
        UPDATE crawls c SET status = 'failed', finished_at = now(), note = 'no listing was read'
          FROM sites s WHERE s.id = c.site_id AND s.name = 'failed';
        UPDATE crawls c SET status = 'completed', finished_at = now(), suspect = true,
               reasons = '[{"field": "price", "text": "found on 0 of 200 pages"},
                           {"field": "sku", "text": "other"}]'
          FROM sites s WHERE s.id = c.site_id AND s.name = 'suspect';
        UPDATE crawls c SET status = 'completed', finished_at = now()
          FROM sites s WHERE s.id = c.site_id AND s.name = 'dead';
        UPDATE crawls c SET status = 'planned', started_at = NULL
          FROM sites s WHERE s.id = c.site_id AND s.name = 'planned';
        INSERT INTO throughput SELECT c.id, now(), 10, 'w', 'datacenter', '', 'fetched', 9, 9, 1, 1
          FROM crawls c JOIN sites s ON s.id = c.site_id AND s.name = 'fine'
        """,
    )
    found = rows_of(engine)
    assert {name: row.state for name, row in found.items()} == {
        "failed": "failed", "suspect": "suspect", "slow": "waiting", "dead": "dead pages",
        "paused": "paused", "fine": "running", "planned": "planned", "never": "never crawled",
    }  # fmt: skip
    assert list(found) == sorted(found, key=lambda name: STATES.index(found[name].state))
    assert found["failed"].why == "no listing was read"
    assert found["suspect"].why == "price: found on 0 of 200 pages; 1 more"
    assert found["slow"].why == "waits for slow.example, 4/s"
    assert found["dead"].why == "refused: HTTP 403 (the last of 2 dead or invalid pages)"
    assert found["paused"].why == "its site is paused" and found["fine"].why == ""
    never = found["never"]
    assert never.crawl is None and never.next_slot is not None
    assert never.next_slot.utcoffset() == timedelta(0) and never.timezone == "Europe/Berlin"


def test_a_paused_site_shows_as_paused_when_its_crawl_has_ended(engine: sa.Engine) -> None:
    names = ("ended", "never", "failed", "suspect")
    for name in names:
        if name != "never":
            open_crawl(engine, a_site(name))
    execute(engine, "UPDATE crawls SET status = 'completed', finished_at = now()")
    execute(engine, "UPDATE crawls SET status = 'failed' WHERE id = 2")
    execute(engine, "UPDATE crawls SET suspect = true WHERE id = 3")
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(name) for name in names])
        for name in names:
            sites.pause_site(connection, name)
        totals = fleet.read_totals(connection)
        crawls_ = fleet.read_rows(connection, Query(history=True, site="ended")).rows
        paused = fleet.read_rows(connection, Query(state="paused"))
    states = {name: row.state for name, row in rows_of(engine).items()}
    assert states == {
        "ended": "paused",
        "never": "paused",
        "failed": "failed",
        "suspect": "suspect",
    }
    assert totals.states == {"failed": 1, "suspect": 1, "paused": 2}
    assert [row.site for row in paused.rows] == ["ended", "never"] and paused.matching == 2
    assert [row.state for row in crawls_] == ["completed"], "the crawl itself has ended"


def test_why_nothing_moves(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site(rate="30/m"))
    add(engine, [new_page(crawl, url) for url in urls(4)])

    def why() -> str:
        begun_long_ago(engine)
        return rows_of(engine)["shop"].why

    def why_until(seconds: int, since: float) -> str:
        """Why, without the seconds that are left of `seconds`."""
        text, left = re.fullmatch(r"(.*) again in (\d+) s", why()).groups()  # type: ignore[union-attr]
        assert seconds - (time.monotonic() - since) - 1 <= int(left) <= seconds
        return text

    assert why() == "waits for shop.example, 30/m"
    assert len(lease_all(engine, "shop.example", 1)) == 1
    execute(engine, "UPDATE leases SET created_at = now() - interval '1 minute'")
    assert why() == "no worker takes the queue datacenter"
    execute(engine, "UPDATE leases SET created_at = now()")
    assert why() == "no worker takes the queue datacenter", "it is leased anew all the time"
    other = open_crawl(engine, a_site("other"))
    add(engine, [new_page(other, "https://other.example/p")])
    (of_other,) = lease_all(engine, "other.example", 1)
    assert claimed(engine, of_other)
    assert why() == "waits for shop.example, 30/m", "a worker takes the queue, and will come"
    execute(engine, "UPDATE leases SET created_at = now() - interval '1 minute'")
    assert why() == "waits for a free worker of the queue datacenter"
    execute(engine, f"DELETE FROM leases WHERE id = '{of_other.id}'")
    execute(engine, "UPDATE crawls SET watched_at = now() - interval '5 minutes'")
    assert why() == "no worker takes the queue coordinator"
    execute(engine, "UPDATE crawls SET watched_at = now()")
    execute(engine, "DELETE FROM leases")
    execute(engine, "UPDATE pages SET not_before = now() - interval '5 minutes'")
    assert why() == "no worker takes the queue datacenter", "too many lie unread in the broker"
    since = time.monotonic()
    execute(engine, "UPDATE pages SET not_before = now() + interval '20 s'")
    assert why_until(20, since) == "waits for shop.example, 30/m: asked"
    since = time.monotonic()
    execute(
        engine,
        """UPDATE pages SET not_before = now() + interval '40 s', last_outcome = 'unreachable',
                  error = 'connection refused by https://ann:s3cret@shop.example/',
                  settled_at = now()""",
    )
    assert why_until(40, since) == (
        "unreachable: connection refused by https://***@shop.example/; shop.example is asked"
    )
    execute(
        engine,
        """UPDATE pages SET last_outcome = 'robots_unavailable', host = 'shop.example',
                  error = 'robots.txt: connection refused'""",
    )
    assert why().startswith("robots.txt: connection refused; shop.example is asked again in")
    execute(
        engine,
        """UPDATE pages SET last_outcome = 'unreachable',
                  error = 'no connection to shop.example: connection refused'""",
    )
    assert why().startswith("unreachable: connection refused; shop.example is asked again in")
    with engine.begin() as connection:
        hosts.set_paused(connection, "shop.example", paused=True)
    assert why() == "shop.example is paused (`scraper host resume shop.example`)"
    execute(engine, "UPDATE pages SET status = 'ok'")
    assert why() == "no page is open: it is about to end"


def test_a_site_is_searched_filtered_sorted_and_paged(engine: sa.Engine) -> None:
    for number in range(7):
        crawl = open_crawl(
            engine,
            a_site(
                f"shop-{number}",
                queue="residential" if number % 2 else "datacenter",
                tags=["garden", "De"][: number % 3],
            ),
        )
        add(engine, [new_page(crawl, url) for url in urls(number, f"h{number}.example")])
    odd = {"shop-1", "shop-3", "shop-5"}
    assert set(rows_of(engine, queue="residential")) == odd
    assert set(rows_of(engine, tag="garden")) == {f"shop-{n}" for n in (1, 2, 4, 5)}
    assert set(rows_of(engine, tag="De", queue="residential")) == {"shop-5"}
    assert rows_of(engine, tag="gard") == {} and rows_of(engine, tag="De")["shop-2"].tags == [
        *("garden", "De")
    ]
    assert set(rows_of(engine, search="P-3")) == {"shop-3"}
    assert rows_of(engine, search="%") == {}, "a search is text, and no pattern"
    assert rows_of(engine, state="failed") == {}
    assert set(rows_of(engine, state="running")) == {f"shop-{n}" for n in range(7)}
    pages = [list(rows_of(engine, sort="site", limit=3, offset=offset)) for offset in (0, 3, 6, 9)]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [name for page in pages for name in page] == [f"shop-{n}" for n in range(7)]
    with engine.connect() as connection:
        assert fleet.read_rows(connection, Query(limit=2)).matching == 7
        assert fleet.queue_names(connection) == ["datacenter", "residential"]
        assert fleet.tag_names(connection) == ["De", "garden"]


@pytest.mark.parametrize("sort", ORDERS)
@pytest.mark.parametrize("history", [False, True])
def test_every_order_is_answered(engine: sa.Engine, sort: str, history: bool) -> None:
    open_crawl(engine, a_site())
    assert list(rows_of(engine, sort=sort, history=history)) == ["shop"]


def test_a_region_is_part_of_its_queue(engine: sa.Engine) -> None:
    open_crawl(engine, a_site(region="eu", product={"fields": {"title": "h1"}, "queue": "browser"}))
    assert rows_of(engine)["shop"].queues == ["browser.eu", "datacenter.eu"]
    assert set(rows_of(engine, queue="browser.eu")) == {"shop"}


def test_a_site_shows_its_newest_crawl_that_was_not_skipped(engine: sa.Engine) -> None:
    site = a_site()
    ids = []
    for _ in range(3):
        ids.append(open_crawl(engine, site)[1])
        execute(engine, "UPDATE crawls SET status = 'completed', finished_at = now()")
    execute(
        engine,
        f"UPDATE crawls SET status = 'skipped', slot = slot + interval '1 d' WHERE id = {ids[2]}",
    )
    crawl = rows_of(engine)["shop"].crawl
    assert crawl is not None and crawl.id == ids[1]
    with engine.connect() as connection:
        history = fleet.read_rows(connection, Query(history=True, sort="newest"))
    assert [row.crawl and row.crawl.id for row in history.rows] == ids[::-1]
    running = open_crawl(engine, site)[1]
    crawl = rows_of(engine)["shop"].crawl
    assert crawl is not None and crawl.id == running


def test_a_retired_site_is_shown_while_it_runs(engine: sa.Engine) -> None:
    open_crawl(engine, a_site())
    execute(engine, "UPDATE sites SET enabled = false")
    assert set(rows_of(engine)) == {"shop"}
    execute(engine, "UPDATE crawls SET status = 'completed'")
    assert rows_of(engine) == {}


def test_pages_that_were_not_due_do_not_count_as_speed(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    execute(
        engine,
        """UPDATE crawls SET product_total = 1050, product_done = 1050, fresh = 1000,
                  unchanged = 1050, status = 'completed', started_at = now() - interval '1 s',
                  finished_at = now()""",
    )
    with engine.connect() as connection:
        (found,) = read_progress(connection, crawl_id=crawl[1])
    assert progress.as_json(found)["pages_per_s"] == 50
    assert "fetched 50, not due 1,000, 50 pages/s" in progress.summarize_crawl(found)


def test_every_running_crawl_is_read_and_some_ended_ones(engine: sa.Engine) -> None:
    for number in range(5):
        open_crawl(engine, a_site(f"old-{number}"))
    execute(engine, "UPDATE crawls SET status = 'completed'")
    for number in range(4):
        open_crawl(engine, a_site(f"new-{number}"))
    with engine.connect() as connection:
        found = read_progress(connection, newest=2)
        assert [crawl.active for crawl in found] == [True] * 4 + [False] * 2
        assert len(read_progress(connection, newest=0)) == 4
        assert len(read_progress(connection, active=True)) == 4
        assert [c.site for c in read_progress(connection, site="old-2")] == ["old-2"]
        assert [c.site for c in read_progress(connection, crawl_id=found[-1].id)] == ["old-3"]
        assert crawls.paused_crawls(connection) == []


def test_a_listing_that_fails_is_counted(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(1), kind=Kind.LISTING, error="HTTP 500")
    begun_long_ago(engine)
    row = rows_of(engine)["shop"]
    assert row.crawl is not None and row.crawl.failed == 1


def test_the_status_of_a_site_is_of_that_site_alone(
    engine: sa.Engine, environment: Settings
) -> None:
    for name in ("shop", "other"):
        crawl = open_crawl(engine, a_site(name))
        add(engine, [new_page(crawl, url) for url in urls(4, f"{name}.example")])
        (batch,) = lease_all(engine, f"{name}.example", 1 if name == "shop" else 3)
        assert claimed(engine, batch)
        give_up(engine, crawl, urls(1, f"bad-{name}.example"))
    with engine.begin() as connection:
        sites.pause_site(connection, "other")
    alone = status.as_json(status.read(engine, environment, site="shop", nodes={}))
    assert "other" not in str(alone)
    (queue,) = alone["queues"]
    assert (queue["due"], queue["held"], queue["leased"], queue["claimed"]) == (3, 0, 1, 1)
    assert [worker["pages"] for worker in alone["workers"]] == [1] and alone["paused"] == []
    fleet_wide = status.as_json(status.read(engine, environment, nodes={}))
    assert (fleet_wide["queues"][0]["leased"], fleet_wide["paused"]) == (4, ["other"])
