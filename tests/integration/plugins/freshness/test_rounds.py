"""Rounds of planned visits on a real PostgreSQL, with looks that are made older."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.coordinator.finish import finish
from scraper.coordinator.plan import open_now, plan
from scraper.frontier import crawls, sites
from scraper.infra.database import make_engine
from scraper.plugins.freshness import command, rounds
from scraper.plugins.freshness.command import describe_plan
from scraper.plugins.freshness.hooks import HOOKS
from scraper.plugins.freshness.keys import FreshnessKeys, PlanBudget
from scraper.plugins.freshness.rounds import visit_pages
from scraper.plugins.freshness.store import count_visits, other_requests, read_plan
from scraper.settings import Settings
from scraper.sites.definition import Site
from tests.support.making import a_site, rows
from tests.support.servers.forked import run_program

PAGES = 60
SETTINGS = Settings()
PAGE = sa.text("""
INSERT INTO pages (site_id, crawl_id, fingerprint, url, kind, host, queue, priority, depth, status,
                   content_hash, fetched_at)
SELECT :site, :crawl, gen_random_uuid(), 'https://shop.example/p/' || n, 'product',
       'shop.example', 'residential', 10, 1, 'ok', md5(n || ' 0')::uuid, now() - interval '1 minute'
  FROM generate_series(1, :pages) n
""")

# A process that is killed at its statement of that number, or comes to the end.
DYING = """
import os, signal, sys
import sqlalchemy as sa
from scraper.infra.database import make_engine
from scraper.plugins.freshness import store
from scraper.plugins.freshness.rounds import visit_pages
from scraper.settings import Settings
engine, left = make_engine(sys.argv[1]), [int(sys.argv[2])]
store.BATCH = 7
@sa.event.listens_for(engine, sys.argv[3])
def die(*_):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
visit_pages(engine, Settings())
"""


def run(engine: sa.Engine, text: str, **values: Any) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(text), values)


def stock_site(engine: sa.Engine, pages: int = PAGES, **keys: Any) -> tuple[int, Site]:
    """Stores a site with one whole crawl that has read its pages."""
    site = a_site(**keys)
    with engine.begin() as connection:
        sites.store_definitions(connection, [site])
        row = sites.find_site(connection, site.name)
        assert row is not None
        crawl_id = crawls.open_crawl(connection, row[0], site, slot=None, trigger="manual")
        connection.execute(PAGE, {"site": row[0], "crawl": crawl_id, "pages": pages})
    run(engine, "UPDATE crawls SET status = 'completed', judged_at = now()")
    return row[0], site


def settle_round(engine: sa.Engine, changed: Sequence[int], version: int = 1) -> list[int]:
    """Settles the pages of the round; those with these numbers have a version. Ends the round, and
    returns the numbers of its pages."""
    visited = [
        int(url.rpartition("/")[2])
        for (url,) in rows(engine, "SELECT url FROM pages WHERE status = 'due' ORDER BY id")
    ]
    run(
        engine,
        """UPDATE pages SET status = 'ok', fetched_at = now(), content_hash = CASE
             WHEN substring(url FROM '\\d+$')::int = ANY (:changed)
             THEN md5(url || :version)::uuid ELSE content_hash END
            WHERE status = 'due'""",
        changed=list(changed),
        version=str(version),
    )
    run(
        engine, "UPDATE crawls SET status = 'completed', judged_at = now() WHERE status = 'running'"
    )
    return visited


def age_looks(engine: sa.Engine, days: float) -> None:
    for column, table in (("looked_at", "page_visits"), ("next_visit", "page_visits")):
        run(engine, f"UPDATE {table} SET {column} = {column} - :days * interval '1 day'", days=days)
    run(engine, "UPDATE pages SET fetched_at = fetched_at - :days * interval '1 day'", days=days)
    run(
        engine,
        "UPDATE site_plans SET planned_at = planned_at - :days * interval '1 day'",
        days=days,
    )


def test_a_round_visits_as_many_pages_as_the_budget_allows(engine: sa.Engine) -> None:
    stock_site(engine, budget="240/d")
    messages = visit_pages(engine, SETTINGS)
    assert [message.task for message in messages] == ["dispatch"]
    assert rows(
        engine,
        "SELECT trigger, status, product_total, round(rate_per_s * 86400) FROM crawls WHERE id = 2",
    ) == [("visit", "running", 10, 240)]
    # The round is not over, so that a second tick opens no other.
    assert visit_pages(engine, SETTINGS) == []
    assert rows(engine, "SELECT count(*) FROM page_visits WHERE round_id = 2") == [(10,)]


def test_a_round_goes_where_the_definition_says_now(engine: sa.Engine) -> None:
    """The earlier queue may have no worker."""
    stock_site(engine, budget="240/d", queue="residential")
    moved = a_site(budget="240/d", queue="datacenter", region="eu")
    with engine.begin() as connection:
        sites.store_definitions(connection, [moved])
    visit_pages(engine, SETTINGS)
    due = "SELECT queue, count(*) FROM pages WHERE status = 'due' GROUP BY queue"
    assert rows(engine, due) == [("datacenter.eu", 10)]


def test_a_round_makes_up_for_the_pauses_between_rounds(engine: sa.Engine) -> None:
    stock_site(engine, budget=f"{PAGES * 48}/d")
    visit_pages(engine, SETTINGS)
    assert len(settle_round(engine, [])) == PAGES / 5
    # Twelve pages in six minutes are as planned; with a pause of 36 seconds they are too few.
    for minutes, pace in ((6, 2880), (6.6, 3168), (60, 3600)):
        run(
            engine,
            """UPDATE crawls SET created_at = now() - :minutes * interval '1 minute',
                      rate_per_s = 2880 / 86400.0, product_done = 12
                WHERE id = (SELECT max(id) FROM crawls)""",
            minutes=minutes,
        )
        visit_pages(engine, SETTINGS)
        query = "SELECT rate_per_s * 86400 FROM crawls ORDER BY id DESC LIMIT 1"
        # What passes between the statements is a pause too.
        assert rows(engine, query) == [(pytest.approx(pace, rel=0.03),)]
        settle_round(engine, [])


@pytest.mark.slow
def test_rounds_reach_every_page_and_learn_which_ones_change(engine: sa.Engine) -> None:
    stock_site(engine, budget="96/d")
    restless = range(1, 7)
    visits: dict[int, int] = dict.fromkeys(range(1, PAGES + 1), 0)
    visit_pages(engine, SETTINGS)
    for hour in range(24 * 6):
        for number in settle_round(engine, restless, version=hour // 24):
            visits[number] += 1
        age_looks(engine, 1 / 24)
        visit_pages(engine, SETTINGS)
    assert min(visits.values()) >= 3
    assert sum(visits.values()) == 4 * 24 * 6
    often = sum(visits[number] for number in restless) / len(restless)
    seldom = sum(visits[number] for number in visits if number > 6) / (PAGES - 6)
    assert often > 1.3 * seldom
    ((restless_rate, quiet_rate),) = rows(
        engine,
        """SELECT avg(rate) FILTER (WHERE substring(url FROM '\\d+$')::int < 7),
                  avg(rate) FILTER (WHERE substring(url FROM '\\d+$')::int > 6)
             FROM page_visits JOIN pages ON pages.id = page_id""",
    )
    assert restless_rate > 5 * quiet_rate
    # What was true within the promised time is measured, too: never less than what was true.
    ((seen, kept, promise),) = rows(
        engine, "SELECT seen_days, kept_days, promise_days FROM site_plans"
    )
    assert 0 < kept <= promise + 1e-9 <= seen + 2e-9


def test_the_first_hours_of_a_new_site_say_nothing_of_the_hour(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the pages change between two looks that are ten minutes apart: thousands of times as
    often as a new site's pages are taken to."""
    monkeypatch.setattr(rounds, "ROUND_PART", 1.0)
    site_id, site = stock_site(engine, budget=f"{PAGES * 144}/d")
    visit_pages(engine, SETTINGS)
    for number in range(12):
        settle_round(engine, range(number % 2, PAGES + 1, 2), version=number)
        age_looks(engine, 1 / 144)
        visit_pages(engine, SETTINGS)
    with engine.connect() as connection:
        plan = read_plan(connection, site_id)
        facts = describe_plan(connection, site.name)
    assert plan is not None
    assert 20 < plan.plan.mean_rate < 200
    # A change between two looks takes half of the time between them on average, of each second one.
    assert facts["planned"] == pytest.approx(0.75, abs=0.1)
    stretched = plan.profile.stretched
    hours = [stretched((hour + 1) / 24) - stretched(hour / 24) for hour in range(24)]
    assert max(hours) < 2 * min(hours)
    # Rates are known by now, and teach the season.
    assert plan.profile.lately[1] > 0


def test_pages_that_alternate_are_recognised_and_their_plan_is_kept(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A round has as many pages of the few as it has of many.
    monkeypatch.setattr(rounds, "ROUND_PART", 1.0)
    stock_site(engine, budget="720/d")
    visit_pages(engine, SETTINGS)
    for hour in range(24):
        settle_round(engine, range(1, 7), version=hour // 3 % 2)
        age_looks(engine, 1 / 24)
        visit_pages(engine, SETTINGS)
    alternating = rows(
        engine,
        """SELECT substring(url FROM '\\d+$')::int
             FROM page_visits v JOIN pages p ON p.id = v.page_id
            WHERE v.same >= 0.5 AND v.older_hash IS NOT NULL ORDER BY 1""",
    )
    assert alternating and {number for (number,) in alternating} <= set(range(1, 7))
    assert rows(engine, "SELECT count(*) FROM page_visits WHERE same > 0 AND returns < 2") == [(0,)]
    ((modelled, promised, foreseen, seen),) = rows(
        engine, "SELECT modelled, promised, foreseen_days, seen_days FROM site_plans"
    )
    assert 0 < modelled <= 1 and 0 < promised <= 1 and 0 < foreseen <= seen
    with engine.connect() as connection:
        facts = describe_plan(connection, "shop")
    assert 0 < facts["planned"] <= 1 and facts["changes_a_day"] < 24 * PAGES


def test_a_crawl_of_the_whole_site_takes_precedence(engine: sa.Engine) -> None:
    stock_site(engine, budget="240/d", schedule="0 * * * *")
    visit_pages(engine, SETTINGS)
    opened = open_now(engine, "shop")
    assert opened.crawl_id == 3 and not opened.already_running
    assert rows(engine, "SELECT status, note FROM crawls WHERE id = 2") == [
        ("stopped", "gave way to a crawl of the whole site")
    ]
    run(engine, "UPDATE crawls SET status = 'completed', judged_at = now() WHERE id = 3")
    # What the round has dropped is due as before.
    visit_pages(engine, SETTINGS)
    assert rows(
        engine,
        """SELECT count(*) FROM page_visits v JOIN pages p ON p.id = v.page_id
            WHERE p.status = 'dropped' AND v.next_visit > now()""",
    ) == [(0,)]
    assert rows(engine, "SELECT count(*) FROM page_visits WHERE round_id = 2") == [(0,)]


def test_a_slot_that_comes_due_ends_the_round(engine: sa.Engine) -> None:
    stock_site(engine, budget="240/d", schedule="0 * * * *")
    visit_pages(engine, SETTINGS)
    run(engine, "UPDATE sites SET scheduled_since = now() - interval '10 days'")
    plan(engine)
    assert rows(engine, "SELECT trigger, status FROM crawls WHERE id > 1 ORDER BY id") == [
        ("visit", "stopped"),
        ("schedule", "planned"),
    ]


def test_a_crawl_of_the_whole_site_leaves_known_pages_to_the_plan(engine: sa.Engine) -> None:
    site_id, _ = stock_site(engine, budget="240/d", revisit="0s")
    opened = open_now(engine, "shop")
    ((fresh,),) = rows(
        engine,
        f"SELECT fresh_after < now() - interval '29 days' FROM crawls WHERE id = {opened.crawl_id}",
    )
    assert fresh
    again = open_now_refetching(engine)
    assert rows(engine, f"SELECT fresh_after FROM crawls WHERE id = {again}") == [(None,)]
    assert site_id == 1


def open_now_refetching(engine: sa.Engine) -> int:
    run(engine, "UPDATE crawls SET status = 'completed', judged_at = now()")
    return open_now(engine, "shop", refetch=True).crawl_id


def test_a_round_ends_as_a_crawl_without_delisting(engine: sa.Engine) -> None:
    stock_site(engine, budget="240/d")
    visit_pages(engine, SETTINGS)
    run(engine, "UPDATE pages SET status = 'ok', fetched_at = now() WHERE status = 'due'")
    run(engine, "UPDATE crawls SET ok = 10, product_done = 10 WHERE id = 2")
    finish(engine, 2)
    assert rows(engine, "SELECT status, suspect, products_delisted FROM crawls WHERE id = 2") == [
        ("completed", False, 0)
    ]


def test_pages_that_are_gone_leave_the_plan_and_dead_ones_wait(engine: sa.Engine) -> None:
    stock_site(engine, budget="240/d")
    visit_pages(engine, SETTINGS)
    due = [row[0] for row in rows(engine, "SELECT id FROM pages WHERE status = 'due' ORDER BY id")]
    run(engine, "UPDATE pages SET status = 'gone' WHERE id = :id", id=due[0])
    run(engine, "UPDATE pages SET status = 'dead' WHERE status = 'due'")
    run(engine, "UPDATE crawls SET status = 'failed', judged_at = now() WHERE id = 2")
    visit_pages(engine, SETTINGS)
    assert rows(engine, f"SELECT count(*) FROM page_visits WHERE page_id = {due[0]}") == [(0,)]
    assert rows(
        engine,
        f"""SELECT count(*) FROM page_visits
             WHERE page_id = ANY (ARRAY{due}) AND round_id IS NULL AND next_visit > now()""",
    ) == [(9,)]


def test_a_promise_without_a_budget_finds_what_it_needs(engine: sa.Engine) -> None:
    stock_site(engine, fresh="95% within 12h")
    visit_pages(engine, SETTINGS)
    with engine.connect() as connection:
        facts = describe_plan(connection, "shop")
    assert 0 < facts["requests_a_day"] < 1000
    assert facts["age_h"] <= 12
    needs = [row["requests_a_day"] for row in facts["curve"]]
    assert needs == sorted(needs, reverse=True)


def test_weights_make_products_count_more(engine: sa.Engine) -> None:
    site_id, _ = stock_site(
        engine, budget="240/d", weight=[{"field": "category", "value": "Sale", "weight": 5}]
    )
    run(
        engine,
        """INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash)
           SELECT site_id, url, id, crawl_id, url,
                  CASE WHEN id % 2 = 0 THEN '{"category": "sale"}' ELSE '{}' END::jsonb,
                  content_hash FROM pages""",
    )
    visit_pages(engine, SETTINGS)
    assert rows(engine, "SELECT weight, count(*) FROM page_visits GROUP BY 1 ORDER BY 1") == [
        (1.0, 30),
        (5.0, 30),
    ]
    assert site_id == 1


def test_sites_without_the_keys_and_paused_ones_are_left_alone(engine: sa.Engine) -> None:
    stock_site(engine)
    assert visit_pages(engine, SETTINGS) == []
    assert rows(engine, "SELECT count(*) FROM page_visits") == [(0,)]
    run(engine, "UPDATE sites SET paused = true")
    assert visit_pages(engine, SETTINGS) == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"budget": "many"}, "requests and a time"),
        ({"budget": "0/d"}, "never fetch"),
        ({"fresh": "soon"}, "95% within 12h"),
        ({"fresh": "95% within 0s"}, "promises nothing"),
        ({"fresh": "0% within 1h"}, "promises nothing"),
        ({"weight": [{"field": "price", "over": 3, "weight": 2}]}, "nothing is planned"),
        ({"budget": "10/d", "dedup": "bloom", "revisit": "7d"}, "a filter forgets"),
        ({"budget": "20000"}, "requests and a time"),
        ({"budget": "unlimited"}, "requests and a time"),
        ({"budget": "-5/d"}, "not a rate"),
        ({"fresh": "120% within 12h"}, "share"),
        ({"fresh": "95% within tomorrow"}, "duration|time"),
        ({"fresh": {"share": "95%"}}, "within"),
        ({"budget": "10/d", "weight": [{"field": "price", "weight": 0}]}, "0.01"),
        ({"budget": {}}, "no limit"),
        ({"budget": {"bytes": "0GB/d"}}, "size a day"),
        ({"budget": {"bytes": "5GB"}}, "size a day"),
        ({"budget": {"bytes": "-5GB/d"}}, "size a day"),
        ({"budget": {"proxy": "3 USD/d"}}, "go together"),
        ({"budget": {"requests": "9/d", "proxy_price": "3 USD/GB"}}, "go together"),
        ({"budget": {"proxy": "3/d", "proxy_price": "3 USD/GB"}}, "currency"),
        ({"budget": {"proxy": "3 USD/d", "proxy_price": "3 EUR/GB"}}, "in EUR"),
        ({"budget": {"proxy": "3 USD/d", "proxy_price": "0 USD/GB"}}, "price of proxies"),
        ({"budget": {"requests": "many"}}, "requests and a time"),
    ],
)
def test_keys_that_cannot_be_kept_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        a_site(**keys)


def test_keys_stay_as_they_are_written() -> None:
    keys = a_site(budget="20000/d", fresh="95% within 12h").of(FreshnessKeys)
    assert keys.budget == PlanBudget(requests="20000/d")
    assert json.loads(keys.model_dump_json())["fresh"] == {
        "share": "95%",
        "within": "12h",
        "looked": None,
    }


def rate_of(engine: sa.Engine, crawl_id: int) -> float:
    """Returns the requests a day that a crawl makes at most, of each host."""
    ((per_s,),) = rows(engine, f"SELECT rate_per_s FROM crawls WHERE id = {crawl_id}")
    return float(per_s) * 86_400


def test_hosts_share_the_budget_and_a_lower_rate_stays(engine: sa.Engine) -> None:
    stock_site(engine, budget="240/d")
    run(engine, "UPDATE pages SET host = 'cdn.example' WHERE id % 2 = 0")
    visit_pages(engine, SETTINGS)
    assert rate_of(engine, 2) == pytest.approx(120)
    opened = open_now(engine, "shop")
    assert rate_of(engine, opened.crawl_id) == pytest.approx(120)
    run(engine, "UPDATE crawls SET status = 'completed', judged_at = now()")
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(budget="240/d", rate="2/h")])
    visit_pages(engine, SETTINGS)
    assert rate_of(engine, opened.crawl_id + 1) == pytest.approx(48)


def test_listings_that_a_stopped_crawl_dropped_were_not_requested(engine: sa.Engine) -> None:
    site_id, _ = stock_site(engine)
    run(engine, "UPDATE pages SET status = 'due', kind = 'listing' WHERE id > 14")
    run(
        engine,
        """UPDATE crawls SET status = 'running', discovery_total = 53, discovery_done = 7,
           product_total = 14, product_done = 14, fresh = 14""",
    )
    with engine.begin() as connection:
        assert crawls.stop_crawl(connection, 1, "by hand")
    with engine.connect() as connection:
        assert other_requests(connection, site_id) == 1


def test_visits_get_the_budget_of_a_host_that_has_sitemaps_alone(engine: sa.Engine) -> None:
    stock_site(engine, budget="240/d")
    run(engine, "UPDATE pages SET host = 'cdn.example', kind = 'sitemap' WHERE id = 1")
    visit_pages(engine, SETTINGS)
    assert rate_of(engine, 2) == pytest.approx(240)


def test_a_new_site_with_several_hosts_stays_within_its_budget_and_has_no_bursts(
    engine: sa.Engine,
) -> None:
    site = a_site(
        budget="240/d", burst=50, hosts=["images.example", "de.example"], rate="unlimited"
    )
    with engine.begin() as connection:
        sites.store_definitions(connection, [site])
    opened = open_now(engine, "shop")
    assert rate_of(engine, opened.crawl_id) == pytest.approx(80)
    assert rows(engine, "SELECT definition ->> 'burst' FROM crawls") == [("1",)]


def metrics_of(engine: sa.Engine) -> dict[tuple[str, ...], float]:
    with engine.connect() as connection:
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in HOOKS.stored_metrics(connection)
            for sample in family.samples
        }


def test_a_broken_contract_has_a_reason_in_metrics_and_in_the_command(engine: sa.Engine) -> None:
    stock_site(engine, budget="2/d", fresh="99% within 1h")
    visit_pages(engine, SETTINGS)
    metrics = metrics_of(engine)
    assert metrics["scraper_plan_broken", "shop", "budget too small"] == 1
    assert metrics["scraper_plan_requests", "shop", "planned"] == pytest.approx(2)
    assert metrics["scraper_plan_requests", "shop", "needed"] > 2
    with engine.connect() as connection:
        assert describe_plan(connection, "shop")["broken"] == "budget too small"
    # A larger budget keeps it, and the reason goes.
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(budget="9000/d", fresh="99% within 1h")])
    settle_round(engine, [])
    visit_pages(engine, SETTINGS)
    assert metrics_of(engine)["scraper_plan_broken", "shop", ""] == 0


def test_rounds_that_visit_too_little_are_the_reason(engine: sa.Engine) -> None:
    stock_site(engine, budget="240/d", fresh="50% within 12h")
    visit_pages(engine, SETTINGS)
    settle_round(engine, range(1, PAGES + 1))
    age_looks(engine, 1)
    run(engine, "UPDATE crawls SET created_at = now() - interval '3 days', product_done = 1")
    run(engine, "UPDATE site_plans SET seen_days = 100, kept_days = 10, promise_days = 20")
    visit_pages(engine, SETTINGS)
    assert metrics_of(engine)["scraper_plan_broken", "shop", "fewer visits than planned"] == 1


def test_pages_that_a_round_leaves_are_not_visited(engine: sa.Engine) -> None:
    site_id, _ = stock_site(engine, budget="240/d")
    visit_pages(engine, SETTINGS)
    with engine.begin() as connection:
        crawls.stop_crawl(connection, 2, "it gives way")
        assert count_visits(connection, site_id) == 0


def test_listings_that_are_most_requests_break_no_contract(engine: sa.Engine) -> None:
    stock_site(engine, budget={"bytes": "3MB/d"}, fresh="50% within 20d")
    run(engine, "UPDATE crawls SET discovery_done = 700")
    visit_pages(engine, SETTINGS)
    with engine.connect() as connection:
        facts = describe_plan(connection, "shop")
    assert facts["promise"]["planned"] and facts["broken"] is None
    assert facts["promise"]["needs_a_day"] > 100
    assert facts["budget_a_day"] == pytest.approx(130, rel=0.01)


def test_a_larger_budget_than_the_promise_needs_is_not_spent(engine: sa.Engine) -> None:
    stock_site(engine, budget="5000/d", fresh="95% within 12h")
    visit_pages(engine, SETTINGS)
    with engine.connect() as connection:
        facts = describe_plan(connection, "shop")
    assert facts["promise"]["planned"]
    assert 0 < facts["requests_a_day"] < 1000
    assert rate_of(engine, 2) == pytest.approx(facts["requests_a_day"])


def test_looking_at_every_page_is_part_of_what_a_promise_needs(engine: sa.Engine) -> None:
    stock_site(engine, fresh={"share": "5%", "within": "12h", "looked": "1d"})
    visit_pages(engine, SETTINGS)
    with engine.connect() as connection:
        facts = describe_plan(connection, "shop")
    assert facts["promise"]["needs_a_day"] >= PAGES
    assert facts["requests_a_day"] >= PAGES


def plan_command(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    # A process that ends closes its connections; this one does not end.
    monkeypatch.setattr(command, "open_engine", lambda: engine)
    return CliRunner().invoke(main, ["plan", *words])


def test_the_command_says_what_a_budget_cannot_keep(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan_command(engine, monkeypatch, "shop").exit_code == 2
    stock_site(engine, budget="24/d", fresh="99% within 1h")
    none = plan_command(engine, monkeypatch, "shop")
    assert none.exit_code != 0 and "has no plan yet" in none.output
    visit_pages(engine, SETTINGS)
    text = plan_command(engine, monkeypatch, "shop")
    assert text.exit_code == 0, text.output
    assert "shop: 60 pages" in text.output and "24 requests a day" in text.output
    assert "if a page changes every 1 days: none was visited twice" in text.output
    assert "a budget of 24 cannot keep it" in text.output and "99% within" in text.output
    facts = json.loads(plan_command(engine, monkeypatch, "shop", "--json").output)
    assert facts["requests_a_day"] == pytest.approx(24) == facts["budget_a_day"]
    assert facts["promise"]["needs_a_day"] > 24 and not facts["promise"]["planned"]
    assert facts["age_h"] > 1


def test_the_command_says_that_a_promise_is_kept(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock_site(engine, fresh="90% within 1d")
    visit_pages(engine, SETTINGS)
    text = plan_command(engine, monkeypatch, "shop").output
    assert "the promise 90% within 1d needs" in text and "is kept by the plan" in text


@pytest.mark.parametrize("event", ["before_cursor_execute", "commit"])
def test_a_process_that_dies_at_any_statement_loses_no_look(
    engine: sa.Engine, database: str, event: str
) -> None:
    stock_site(engine, budget="240/d")
    visit_pages(engine, SETTINGS)
    assert len(settle_round(engine, range(1, PAGES + 1))) == 10
    kills, at = 0, 1
    while True:
        ended = run_program(DYING, database, str(at), event)
        if ended.returncode != -signal.SIGKILL:
            assert ended.returncode == 0, ended.stderr
            break
        kills, at = kills + 1, at + 4
        assert rows(engine, "SELECT count(*) FROM page_visits WHERE round_id = 2") == [(10,)]
        assert rows(engine, "SELECT count(*) FROM crawls") == [(2,)]
    assert kills >= 1
    assert rows(engine, "SELECT count(*), sum(changes) FROM page_visits") == [(PAGES, 10.0)]
    assert rows(
        engine,
        """SELECT c.trigger, c.status, c.product_total, count(v.page_id), count(p.id)
             FROM crawls c JOIN page_visits v ON v.round_id = c.id
             JOIN pages p ON p.id = v.page_id AND p.crawl_id = c.id AND p.status = 'due'
            WHERE c.id > 2 GROUP BY c.id""",
    ) == [("visit", "running", 10, 10, 10)]


def test_tables_are_migrated_down_and_up_with_data(
    own_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", own_database)
    engine = make_engine(own_database)
    stock_site(engine, budget="240/d")
    visit_pages(engine, SETTINGS)
    scraper = Path(sys.executable).with_name("scraper")
    subprocess.run([scraper, "migrate", "--down", "base", "--plugin", "freshness"], check=True)
    assert rows(engine, "SELECT to_regclass('page_visits'), to_regclass('site_plans')") == [
        (None, None)
    ]
    assert rows(engine, "SELECT count(*) FROM pages") == [(PAGES,)]
    subprocess.run([scraper, "migrate"], check=True)
    settle_round(engine, range(1, 10))
    assert visit_pages(engine, SETTINGS)
    assert rows(engine, "SELECT count(*) FROM page_visits") == [(PAGES,)]
    engine.dispose()


STOCK = """
INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash)
SELECT site_id, 'p' || id, id, crawl_id, url, jsonb_build_object('brand', 'B' || id % 3, 'stock', true),
       content_hash FROM pages
"""


def heavy_pages(engine: sa.Engine) -> list[int]:
    return [
        id_
        for (id_,) in rows(engine, "SELECT page_id FROM page_visits WHERE weight > 1 ORDER BY 1")
    ]


def test_products_that_an_alert_names_count_more(engine: sa.Engine, tmp_path: Path) -> None:
    rules = tmp_path / "alerts.yaml"
    rules.write_text(
        "- {name: one, when: sold out, id: p7, site: shop}\n"
        "- {name: other-shop, when: sold out, id: p8, site: elsewhere}\n"
        "- {name: everything, when: fell 5%}\n"
        "- {name: cheapest, when: cheapest, id: p9}\n"
    )
    settings = Settings(alert_rules=rules)
    alerts = [{"name": "brand", "when": "fell", "where": {"brand": "B1", "stock": True}}]
    stock_site(engine, budget="240/d", alerts=alerts)
    run(engine, STOCK)
    visit_pages(engine, settings)
    named = sorted({7, 9, *range(1, PAGES + 1, 3)})
    assert heavy_pages(engine) == named
    assert rows(engine, "SELECT DISTINCT weight FROM page_visits ORDER BY 1") == [(1.0,), (3.0,)]
    # A rule of `weight` wins over alerts.
    settle_round(engine, [])
    weights = [{"field": "brand", "value": "B1", "weight": 0.5}]
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(budget="240/d", alerts=alerts, weight=weights)])
    visit_pages(engine, settings)
    assert heavy_pages(engine) == [9]


def test_a_new_alert_brings_its_product_forward_and_a_broken_file_changes_nothing_else(
    engine: sa.Engine, tmp_path: Path
) -> None:
    stock_site(engine, budget="48/d")
    run(engine, STOCK)
    rules = tmp_path / "alerts.yaml"
    rules.write_text("[]")
    settings = Settings(alert_rules=rules)
    for _ in range(40):
        visit_pages(engine, settings)
        settle_round(engine, [])
        age_looks(engine, 1 / 24)
    visit_pages(engine, settings)
    ((last,),) = rows(engine, "SELECT page_id FROM page_visits ORDER BY next_visit DESC LIMIT 1")
    before = dict(rows(engine, "SELECT page_id, next_visit FROM page_visits"))
    settle_round(engine, [])
    rules.write_text(f"- {{name: one, when: sold out, id: p{last}}}\n")
    visit_pages(engine, settings)
    assert heavy_pages(engine) == [last]
    after = dict(rows(engine, "SELECT page_id, next_visit FROM page_visits"))
    assert after[last] < before[last]
    settle_round(engine, [])
    rules.write_text("- {name: one, when: sometimes}\n")
    messages = visit_pages(engine, settings)
    assert [message.task for message in messages] == ["dispatch"]
    assert heavy_pages(engine) == []


TRAFFIC = """
INSERT INTO site_traffic (site_id, at, product, requests, sized, bytes, proxied, proxy_sized,
                          proxy_bytes)
SELECT id, now() - :hours * interval '1 hour', true, :requests, :requests, :requests * 99000,
       :requests, :requests, :requests * 99000 FROM sites
"""


def test_the_command_says_which_limit_binds(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = {"requests": "2000/d", "bytes": "1GB/d", "proxy": "3 USD/d"}
    budget["proxy_price"] = "30 USD/GB"
    stock_site(engine, 5000, budget=budget, fresh="99% within 1h")
    run(engine, TRAFFIC, hours=48, requests=100)
    visit_pages(engine, SETTINGS)
    output = plan_command(engine, monkeypatch, "shop").output
    # A visit moves 100 KB through a proxy: 0.003 USD.
    assert "requests 2,000, bytes 10,000, proxy 1,000; proxy binds" in output
    assert "a budget of 1,000 cannot keep it" in output
    assert rows(engine, "SELECT round(visits) FROM site_plans") == [(1000,)]
    # All of today's money is spent: no round begins.
    settle_round(engine, [])
    run(engine, TRAFFIC, hours=2, requests=1001)
    assert visit_pages(engine, SETTINGS) == []
    run(engine, "UPDATE site_traffic SET at = at - interval '22 hours'")
    assert visit_pages(engine, SETTINGS)


@pytest.mark.parametrize(
    "keys", [{"budget": "240/d"}, {"fresh": "90% within 20d"}], ids=["budget", "fresh"]
)
def test_a_plan_is_made_as_soon_as_there_are_pages(engine: sa.Engine, keys: dict[str, str]) -> None:
    site_id, _ = stock_site(engine, 0, **keys)
    # Ticks before the first page plan nothing, and put nothing off.
    for _ in range(2):
        assert visit_pages(engine, SETTINGS) == []
    assert rows(engine, "SELECT count(*) FROM site_plans") == [(0,)]
    with engine.begin() as connection:
        connection.execute(PAGE, {"site": site_id, "crawl": 1, "pages": PAGES})
    assert visit_pages(engine, SETTINGS)
    with engine.connect() as connection:
        facts = describe_plan(connection, "shop")
    assert facts["pages"] == PAGES
    assert 0.5 < facts["planned"] < 1
    assert facts["age_h"] < 3650
    # Every page is visited once in the order in which it was read; none waits for ten years.
    assert rows(engine, "SELECT count(*) FROM page_visits WHERE next_visit > now()") == [(0,)]
