"""A paused site on a real PostgreSQL: none of its pages is leased, opened or made up; every other site
goes on. (What a worker does with a batch that is under way: test_worker_ends.)"""

from __future__ import annotations

from uuid import UUID

import pytest
import sqlalchemy as sa

from scraper.coordinator.discover import discover
from scraper.coordinator.dispatch import dispatch
from scraper.coordinator.plan import open_now, plan
from scraper.coordinator.reap import reap
from scraper.errors import PausedError
from scraper.frontier import sites
from scraper.frontier.control import poll_frontier
from scraper.frontier.progress import read_progress
from scraper.settings import Settings
from tests.support.making import (
    OK,
    a_site,
    add,
    at_once,
    claimed,
    expire,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    urls,
)

SETTINGS = Settings(batch_pages=100, horizon_s=10)
HOURLY = "0 * * * *"


def dispatched(engine: sa.Engine) -> list[UUID]:
    return [UUID(message.kwargs["lease_id"]) for message in dispatch(engine, SETTINGS, lambda _: 0)]


def leased(engine: sa.Engine) -> dict[str, int]:
    query = """SELECT s.name, count(*) FROM leased_pages JOIN pages p ON p.id = page_id
                 JOIN sites s ON s.id = p.site_id GROUP BY 1"""
    return dict(rows(engine, query))  # type: ignore[arg-type]


def shop(
    engine: sa.Engine, name: str, pages: int = 10, host: str | None = None, **more: object
) -> tuple[int, int]:
    crawl = open_crawl(engine, a_site(name, rate="unlimited"))
    prefix = f"https://{host or f'{name}.example'}/{name}"
    add(engine, [new_page(crawl, f"{prefix}/{n}", **more) for n in range(pages)])
    return crawl


def pause(engine: sa.Engine, name: str = "shop") -> bool | None:
    with engine.begin() as connection:
        return sites.pause_site(connection, name)


def resume(engine: sa.Engine, name: str = "shop") -> bool | None:
    with engine.begin() as connection:
        return sites.resume_site(connection, name)


# --- the switch
# ------------------------------------------------------------------------------------------------------


def test_pausing_says_whether_it_changed_anything(engine: sa.Engine) -> None:
    shop(engine, "shop")
    assert (pause(engine), pause(engine), pause(engine, "nowhere")) == (True, False, None)
    assert (resume(engine), resume(engine), resume(engine, "nowhere")) == (True, False, None)


def test_two_people_at_once_pause_once(engine: sa.Engine) -> None:
    shop(engine, "shop")
    said: list[bool | None] = []
    at_once([lambda: said.append(pause(engine))] * 4)
    assert sorted(said, key=bool) == [False, False, False, True]


def test_a_changed_definition_does_not_end_a_pause(engine: sa.Engine) -> None:
    shop(engine, "shop")
    pause(engine)
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site("shop", rate="1/s")])
    assert rows(engine, "SELECT paused FROM sites") == [(True,)]


# --- pages
# -----------------------------------------------------------------------------------------------------------


def test_no_page_of_a_paused_site_is_leased_until_it_is_resumed(engine: sa.Engine) -> None:
    shop(engine, "shop")
    pause(engine)
    assert dispatched(engine) == []
    assert rows(engine, "SELECT DISTINCT status, attempts FROM pages") == [("due", 0)]
    resume(engine)
    assert len(dispatched(engine)) == 1
    assert leased(engine) == {"shop": 10}


def test_other_sites_go_on(engine: sa.Engine) -> None:
    shop(engine, "shop")
    shop(engine, "other")
    pause(engine)
    dispatched(engine)
    assert leased(engine) == {"other": 10}


@pytest.mark.parametrize("queue", ["datacenter", "residential"])
def test_other_sites_go_on_on_the_same_host(engine: sa.Engine, queue: str) -> None:
    """A marketplace, and two definitions for it: the more urgent pages are the other one's."""
    shop(engine, "shop", host="market.example")
    shop(engine, "other", host="market.example", priority=12, queue=queue)
    pause(engine)
    dispatched(engine)
    assert leased(engine) == {"other": 10}


@pytest.mark.parametrize(
    "urgent", [8, 10, 12], ids=["paused less urgent", "both alike", "paused more urgent"]
)
@pytest.mark.parametrize("rate", ["unlimited", "2/s"])
def test_a_paused_site_holds_up_no_other_on_its_host_and_queue(
    engine: sa.Engine, urgent: int, rate: str
) -> None:
    """Its pages are looked past, however urgent, and so is its rate."""
    shop(engine, "shop", 30, host="market.example", priority=urgent)
    other = open_crawl(engine, a_site("other", rate=rate))
    add(engine, [new_page(other, f"https://market.example/other/{n}") for n in range(10)])
    pause(engine)
    dispatched(engine)
    assert leased(engine) == {"other": 10}
    assert dispatched(engine) == []


@pytest.mark.parametrize("losses", [1, 2, 3, 4])
def test_nor_do_its_suspects(engine: sa.Engine, losses: int) -> None:
    shop(engine, "shop", 30, host="market.example", priority=12)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET losses = :n"), {"n": losses})
    shop(engine, "other", 10, host="market.example")
    pause(engine)
    dispatched(engine)
    assert leased(engine) == {"other": 10}


def test_a_lease_of_two_sites_loses_neither(engine: sa.Engine) -> None:
    """They share a message; one is paused before it is read, and resumed after."""
    first, second = shop(engine, "shop"), shop(engine, "other")
    (lease_id,) = dispatched(engine)
    pause(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    with engine.begin() as connection:
        assert poll_frontier(connection, [first[1], second[1]]).running == {second[1]}
    done = [page for page in lease.pages if page.crawl_id == second[1]]
    store(engine, second, [settled(page.id, second, lease_id) for page in done])
    expire(engine, lease_id)
    reap(engine, SETTINGS)
    assert dispatched(engine) == []
    resume(engine)
    dispatched(engine)
    assert leased(engine) == {"shop": 10}


def test_what_is_under_way_is_stored(engine: sa.Engine) -> None:
    """The request was made before the pause: its answer is not thrown away."""
    crawl = shop(engine, "shop", 2)
    (lease_id,) = dispatched(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    pause(engine)
    more = [new_page(crawl, url) for url in urls(3)]
    stored = store(engine, crawl, [settled(lease.pages[0].id, crawl, lease_id, OK, links=more)])
    assert (stored.held, stored.added) == (1, 3)
    assert dispatched(engine) == []


def test_a_crawl_that_is_paused_is_shown_as_paused_and_runs_on_later(engine: sa.Engine) -> None:
    shop(engine, "shop")
    pause(engine)
    with engine.begin() as connection:
        ((before, active),) = [(each.phase, each.active) for each in read_progress(connection)]
    resume(engine)
    with engine.begin() as connection:
        (after,) = [each.phase for each in read_progress(connection)]
    assert (before, active, after) == ("paused", True, "fetching")


# --- crawls
# ----------------------------------------------------------------------------------------------------------


def scheduled(engine: sa.Engine, *names: str) -> None:
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(name, schedule=HOURLY) for name in names])
        connection.execute(sa.text("UPDATE sites SET scheduled_since = now() - interval '10 days'"))


def opened(engine: sa.Engine) -> list[tuple[object, ...]]:
    return rows(
        engine,
        "SELECT s.name, c.status FROM crawls c JOIN sites s ON s.id = c.site_id ORDER BY c.id",
    )


def test_no_slot_of_a_paused_site_is_opened_nor_made_up(engine: sa.Engine) -> None:
    scheduled(engine, "shop", "other")
    pause(engine)
    plan(engine)
    assert opened(engine) == [("other", "planned")]
    resume(engine)
    plan(engine)
    assert opened(engine) == [("other", "planned")], (
        "the slot lies in the pause: whoever paused did not want it"
    )


def test_the_next_slot_after_a_pause_is_opened(engine: sa.Engine) -> None:
    scheduled(engine, "shop")
    pause(engine)
    resume(engine)
    with engine.begin() as connection:  # the hour is over
        connection.execute(
            sa.text("UPDATE sites SET scheduled_since = scheduled_since - interval '1 hour'")
        )
    plan(engine)
    assert opened(engine) == [("shop", "planned")]


def test_a_slot_that_comes_due_in_a_pause_is_not_recorded_as_skipped(engine: sa.Engine) -> None:
    scheduled(engine, "shop")
    open_now(engine, "shop")
    pause(engine)
    plan(engine)
    assert opened(engine) == [("shop", "planned")]


def test_no_crawl_of_a_paused_site_opens_by_hand(engine: sa.Engine) -> None:
    scheduled(engine, "shop", "other")
    pause(engine)
    with pytest.raises(PausedError, match="shop is paused.*scraper sites resume shop"):
        open_now(engine, "shop")
    assert opened(engine) == []
    open_now(engine, "other")
    resume(engine)
    open_now(engine, "shop")
    assert opened(engine) == [("other", "planned"), ("shop", "planned")]


def test_a_crawl_that_was_planned_before_begins_but_fetches_nothing(engine: sa.Engine) -> None:
    """Its start pages wait with it, and nothing is lost when the pause ends."""
    scheduled(engine, "shop")
    (message,) = plan(engine)
    pause(engine)
    discover(engine, SETTINGS, message.kwargs["crawl_id"])
    assert dispatched(engine) == []
    resume(engine)
    assert len(dispatched(engine)) == 1
