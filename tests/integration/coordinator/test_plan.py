"""Planning on a real PostgreSQL: one crawl a slot whichever process plans, nothing made up twice, files taken
over as they change."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from scraper.coordinator import site_sync
from scraper.coordinator.discover import discover
from scraper.coordinator.plan import OPENED_AT_ONCE, open_now, plan
from scraper.domain import Message
from scraper.errors import NotFoundError
from scraper.frontier import crawls, sites
from scraper.infra.database import make_engine
from scraper.settings import Settings
from scraper.sites.definition import Site
from tests.support.clocks import hourly_schedule, is_newest_slot
from tests.support.making import a_site, add, at_once, lease_all, new_page, open_crawl, rows
from tests.support.waiting import until


@pytest.fixture
def hourly() -> str:
    return hourly_schedule()


def take_over(engine: sa.Engine, *defined: Site, since: str = "10 days") -> None:
    """Stores definitions as if they had been there for some time."""
    with engine.begin() as connection:
        sites.store_definitions(connection, defined)
        connection.execute(
            sa.text(f"UPDATE sites SET scheduled_since = now() - interval '{since}'")
        )


def end_all(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE crawls SET status = 'completed' WHERE status <> 'skipped'")
        )


def slot_back(engine: sa.Engine, by: str) -> None:
    """Time passes: what was planned is that much longer ago."""
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE crawls SET slot = slot - interval '{by}'"))


def waits_long(engine: sa.Engine) -> None:
    """What was planned is planned for a minute by now."""
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET created_at = now() - interval '1 minute'"))


def planned(engine: sa.Engine) -> list[tuple[object, ...]]:
    return rows(
        engine,
        "SELECT s.name, c.status FROM crawls c JOIN sites s ON s.id = c.site_id ORDER BY c.id",
    )


def test_a_due_slot_is_planned_once(engine: sa.Engine, hourly: str) -> None:
    take_over(engine, a_site(schedule=hourly))
    (message,) = plan(engine)
    assert message == Message("discover", "coordinator", {"crawl_id": 1})
    assert rows(engine, f"SELECT trigger, status, {is_newest_slot(hourly)} FROM crawls") == [
        ("schedule", "planned", True)
    ]
    end_all(engine)
    assert plan(engine) == []
    assert planned(engine) == [("shop", "completed")]


def test_three_planners_at_once_open_one_crawl_a_slot(
    engine: sa.Engine, hourly: str, database: str
) -> None:
    take_over(engine, *(a_site(f"shop{n}", schedule=hourly) for n in range(20)))
    engines = [make_engine(database) for _ in range(3)]

    def planner(own: sa.Engine) -> Callable[[], None]:
        return lambda: [plan(own) for _ in range(3)] and None

    at_once([planner(own) for own in engines])
    for own in engines:
        own.dispose()
    assert rows(engine, "SELECT count(*), count(DISTINCT site_id), max(status) FROM crawls") == [
        (20, 20, "planned")
    ]


def test_many_schedules_that_are_due_at_once_each_begin_once(
    engine: sa.Engine, hourly: str, database: str, environment: Settings
) -> None:
    """Two coordinators plan at once, and each message is delivered to both of them. One definition
    is another version's."""
    number = 2 * OPENED_AT_ONCE + 10
    take_over(engine, *(a_site(f"shop{n:03}", schedule=hourly) for n in range(number)))
    with engine.begin() as connection:
        broken = """UPDATE sites SET definition = '{"schedule"\\: "0 * * * *", "timezone"\\: "Mars/Base"}'
                     WHERE name = 'shop007'"""
        connection.execute(sa.text(broken))
    engines = [make_engine(database) for _ in range(2)]
    sent: list[Message] = []
    at_once([lambda own=own: sent.extend(plan(own)) for own in engines])  # type: ignore[misc]
    assert {message.kwargs["crawl_id"] for message in sent} == {
        row[0] for row in rows(engine, "SELECT id FROM crawls")
    }
    assert len(sent) == number - 1

    def start_all(own: sa.Engine) -> None:
        for message in sent:
            discover(own, environment, message.kwargs["crawl_id"])

    at_once([lambda own=own: start_all(own) for own in engines])  # type: ignore[misc]
    for own in engines:
        own.dispose()
    query = """SELECT count(*), count(DISTINCT site_id), min(status), max(discovery_total),
                      (SELECT count(*) FROM pages) FROM crawls"""
    assert rows(engine, query) == [(number - 1, number - 1, "running", 1, number - 1)]


def test_missed_slots_are_made_up_once(engine: sa.Engine, hourly: str) -> None:
    """Every coordinator was down for five hours: the newest slot counts."""
    take_over(engine, a_site(schedule=hourly))
    plan(engine)
    end_all(engine)
    slot_back(engine, "5 hours")
    plan(engine)
    end_all(engine)
    plan(engine)
    assert rows(engine, f"SELECT {is_newest_slot(hourly)} FROM crawls ORDER BY id") == [
        (False,),
        (True,),
    ]


def test_a_slot_during_a_crawl_is_recorded_as_skipped(engine: sa.Engine, hourly: str) -> None:
    take_over(engine, a_site(schedule=hourly))
    plan(engine)
    slot_back(engine, "1 hour")
    for _ in range(3):
        plan(engine)
    found = rows(engine, "SELECT status, note, finished_at IS NOT NULL FROM crawls ORDER BY id")
    assert found == [("planned", None, False), ("skipped", "crawl 1 was still running", True)]
    end_all(engine)
    # the skipped slot is over: it is not made up when the crawl ends
    assert plan(engine) == []


@pytest.mark.parametrize("change", ["paused = true", "enabled = false"])
def test_paused_and_retired_sites_are_not_planned(
    engine: sa.Engine, hourly: str, change: str
) -> None:
    take_over(engine, a_site(schedule=hourly), a_site("other", schedule=hourly))
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE sites SET {change} WHERE name = 'shop'"))
    plan(engine)
    assert planned(engine) == [("other", "planned")]


def test_a_disabled_definition_and_one_without_a_schedule_are_not_planned(
    engine: sa.Engine,
    hourly: str,
) -> None:
    take_over(engine, a_site(schedule=hourly, enabled=False), a_site("by-hand"))
    assert plan(engine) == []


def test_without_schedules_only_forgotten_discoveries_are_sent(
    engine: sa.Engine, hourly: str
) -> None:
    take_over(engine, a_site(schedule=hourly), a_site("by-hand"))
    opened = open_now(engine, "by-hand")
    waits_long(engine)
    assert plan(engine, schedules=False) == opened.messages
    assert planned(engine) == [("by-hand", "planned")]


@pytest.mark.parametrize("changed", ["schedule", "timezone"])
def test_a_changed_schedule_makes_up_no_old_slots(
    engine: sa.Engine, hourly: str, changed: str
) -> None:
    """The new slots are half an hour from the old ones."""
    take_over(engine, a_site(schedule=hourly))
    minute = (int(hourly.partition(" ")[0]) + 30) % 60
    change = {
        "schedule": {"schedule": f"{minute} * * * *"},
        "timezone": {"timezone": "Asia/Kolkata", "schedule": hourly},
    }[changed]
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(**change)])
    assert plan(engine) == []


def test_another_change_of_the_definition_does_not_lose_the_slot(
    engine: sa.Engine, hourly: str
) -> None:
    take_over(engine, a_site(schedule=hourly))
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(schedule=hourly, rate="1/s")])
    assert len(plan(engine)) == 1
    assert rows(engine, "SELECT rate_per_s FROM crawls") == [(1.0,)]


def test_a_new_site_begins_with_its_next_slot(engine: sa.Engine, hourly: str) -> None:
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(schedule=hourly)])
    assert plan(engine) == []


def test_a_site_in_another_zone_has_its_own_slot(engine: sa.Engine) -> None:
    take_over(engine, a_site(schedule="0 6 * * *", timezone="America/New_York"))
    plan(engine)
    query = "SELECT extract(hour FROM slot AT TIME ZONE 'America/New_York')::int, slot <= now() FROM crawls"
    assert rows(engine, query) == [(6, True)]


def test_a_crawl_by_hand_while_one_runs_is_that_one(engine: sa.Engine, hourly: str) -> None:
    take_over(engine, a_site(schedule=hourly))
    plan(engine)
    opened = open_now(engine, "shop")
    assert (opened.crawl_id, opened.already_running) == (1, True)
    end_all(engine)
    again = open_now(engine, "shop")
    assert (again.already_running, planned(engine)) == (
        False,
        [("shop", "completed"), ("shop", "planned")],
    )


def test_two_people_at_once_get_one_crawl(engine: sa.Engine) -> None:
    take_over(engine, a_site())
    at_once([lambda: open_now(engine, "shop") and None] * 4)
    assert planned(engine) == [("shop", "planned")]


def test_a_crawl_by_hand_that_loses_a_deadlock_is_opened_all_the_same(engine: sa.Engine) -> None:
    """It ends a crawl of planned visits, whose leases another transaction has locked first."""
    crawl = open_crawl(engine, a_site())
    add(engine, [new_page(crawl, "https://shop.example/p/1")])
    lease_all(engine, "shop.example")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET trigger = 'visit'"))
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT FROM leases FOR UPDATE"))
            opened = pool.submit(open_now, engine, "shop")
            until(lambda: rows(engine, waiting))
            connection.execute(sa.text("SELECT FROM crawls FOR UPDATE"))
        assert not opened.result(60).already_running
    assert planned(engine) == [("shop", "stopped"), ("shop", "planned")]


def test_a_slot_that_comes_due_during_a_crawl_by_hand_is_skipped(
    engine: sa.Engine, hourly: str
) -> None:
    take_over(engine, a_site(schedule=hourly))
    open_now(engine, "shop")
    plan(engine)
    assert rows(engine, "SELECT trigger, status FROM crawls ORDER BY id") == [
        ("manual", "planned"),
        ("schedule", "skipped"),
    ]


def test_an_unknown_site_is_named(engine: sa.Engine) -> None:
    with pytest.raises(NotFoundError, match="'nowhere'.*sites list"):
        open_now(engine, "nowhere")


def test_a_forgotten_discovery_is_sent_again_until_it_has_begun(
    engine: sa.Engine, hourly: str
) -> None:
    """Invariant 3: its message was lost with the broker. It has a moment to arrive first."""
    take_over(engine, a_site(schedule=hourly))
    opened = plan(engine)
    assert plan(engine) == []
    waits_long(engine)
    assert plan(engine) == plan(engine) == opened != []
    with engine.begin() as connection:
        crawls.start_crawl(connection, 1)
    assert plan(engine) == []


def test_a_stored_definition_that_is_not_valid_any_more_stops_no_other(
    engine: sa.Engine, hourly: str
) -> None:
    take_over(engine, a_site("broken", schedule=hourly), a_site(schedule=hourly))
    with engine.begin() as connection:
        query = """UPDATE sites SET definition = '{"name": "broken", "schedule": "0 * * * *"}' WHERE name = 'broken'"""
        connection.execute(sa.text(query.replace(":", r"\:")))
    plan(engine)
    assert planned(engine) == [("shop", "planned")]


# --- files
# -----------------------------------------------------------------------------------------------------------

DEFINITION = """
start: https://{host}/
schedule: "{schedule}"
listing: {{products: a}}
product: {{fields: {{title: h1}}}}
"""


class Folder:
    """The sites folder, and what the database has after a coordinator looked at it."""

    def __init__(self, engine: sa.Engine, path: Path) -> None:
        self.engine = engine
        self.path = path
        self.settings = Settings(SCRAPER_SITES=path)
        self._schedule = hourly_schedule()
        path.mkdir()

    def write(self, name: str, host: str = "shop.example", head: str = "") -> Path:
        file = self.path / name
        file.write_text(head + DEFINITION.format(host=host, schedule=self._schedule))
        return file

    def sync(self) -> dict[object, object]:
        """Start URL of each enabled site."""
        site_sync.sync_sites(self.engine, self.settings)
        query = "SELECT name, definition -> 'start' ->> 0 FROM sites WHERE enabled"
        return dict(rows(self.engine, query))  # type: ignore[arg-type]


@pytest.fixture
def folder(engine: sa.Engine, tmp_path: Path) -> Folder:
    return Folder(engine, tmp_path / "definitions")


def test_definitions_are_taken_over_and_changes_too(folder: Folder) -> None:
    folder.write("a.yaml", "a.example")
    folder.write("b.yml", "b.example")
    assert folder.sync() == {"a": "https://a.example/", "b": "https://b.example/"}
    folder.write("a.yaml", "a2.example")
    assert folder.sync()["a"] == "https://a2.example/"


def test_unchanged_files_are_not_read_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("a.yaml")
    folder.sync()
    read: list[object] = []
    monkeypatch.setattr(site_sync.loader, "load_file", lambda *args: read.append(args))
    folder.sync()
    assert read == []


def test_a_broken_file_keeps_its_last_valid_version(folder: Folder) -> None:
    file = folder.write("a.yaml", "a.example")
    folder.write("b.yaml", "b.example")
    folder.sync()
    for text in ("start: [", "start: nonsense\n", "", "\x00", "- 1"):
        file.write_text(text)
        assert folder.sync() == {"a": "https://a.example/", "b": "https://b.example/"}
    folder.write("a.yaml", "fixed.example")
    assert folder.sync()["a"] == "https://fixed.example/"


@pytest.mark.parametrize(
    ("file", "head", "name"),
    [
        ("My Shop.yaml", "", "my-shop"),
        ("a.b.yaml", "", "a-b"),
        ("x.yaml", "name: books\n", "books"),
    ],
)
def test_a_broken_file_keeps_a_site_that_is_not_named_as_the_file(
    folder: Folder, file: str, head: str, name: str
) -> None:
    path = folder.write(file, head=head)
    folder.write("other.yaml")
    assert set(folder.sync()) == {name, "other"}
    path.write_text(head + "start: [")
    assert set(folder.sync()) == {name, "other"}


def test_a_removed_file_retires_its_site_and_keeps_its_data(folder: Folder) -> None:
    folder.write("a.yaml")
    folder.write("b.yaml").unlink()
    folder.write("b.yaml")
    folder.sync()
    (folder.path / "b.yaml").unlink()
    assert set(folder.sync()) == {"a"}
    assert rows(folder.engine, "SELECT count(*) FROM sites") == [(2,)]


def test_a_site_that_comes_back_makes_up_no_slots(folder: Folder) -> None:
    folder.write("a.yaml")
    folder.write("b.yaml")
    folder.sync()
    (folder.path / "b.yaml").unlink()
    folder.sync()
    with folder.engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE sites SET scheduled_since = now() - interval '3 days' WHERE name = 'b'")
        )
    folder.write("b.yaml")
    assert set(folder.sync()) == {"a", "b"}
    assert plan(folder.engine) == []


@pytest.mark.parametrize("how", ["emptied", "missing"])
def test_a_folder_that_is_not_there_retires_nothing(folder: Folder, how: str) -> None:
    file = folder.write("a.yaml")
    folder.sync()
    file.unlink()
    if how == "missing":
        folder.path.rmdir()
    assert set(folder.sync()) == {"a"}


def test_two_files_of_one_name_do_not_stop_the_rest(folder: Folder) -> None:
    folder.write("a.yaml", "first.example", head="name: books\n")
    folder.write("b.yaml", "second.example", head="name: books\n")
    folder.write("c.yaml", "c.example")
    assert folder.sync() == {"books": "https://first.example/", "c": "https://c.example/"}


def test_changed_defaults_change_each_site(folder: Folder) -> None:
    query = "SELECT name, definition ->> 'rate' FROM sites WHERE enabled ORDER BY name"
    folder.write("a.yaml", "a.example")
    folder.write("b.yaml", "b.example", head="rate: 2/s\n")
    for rate in ("1/s", "30/m"):
        (folder.path / "defaults.yaml").write_text(f"rate: {rate}\n")
        folder.sync()
        assert rows(folder.engine, query) == [("a", rate), ("b", "2/s")]
    # Broken defaults leave each site as it was.
    (folder.path / "defaults.yaml").write_text("rate: often\n")
    assert set(folder.sync()) == {"a", "b"}
    (folder.path / "defaults.yaml").unlink()
    folder.sync()
    assert rows(folder.engine, query) == [("a", "4/s"), ("b", "2/s")]


def test_a_dangling_link_stops_nothing(folder: Folder) -> None:
    folder.write("a.yaml")
    os.symlink(folder.path / "nowhere", folder.path / "b.yaml")
    assert set(folder.sync()) == {"a"}


def test_an_empty_folder_ends_no_schedule_and_is_logged_once(folder: Folder) -> None:
    file = folder.write("a.yaml")
    folder.sync()
    file.unlink()
    with capture_logs() as logs:
        assert [set(folder.sync()) for _ in range(3)] == [{"a"}] * 3
    assert [line["event"] for line in logs] == [
        "the sites folder has become empty; its sites stay scheduled"
    ]
    folder.write("b.yaml")
    assert set(folder.sync()) == {"b"}


def test_two_coordinators_take_over_at_once(folder: Folder) -> None:
    for n in range(30):
        folder.write(f"shop{n}.yaml")

    def take() -> None:
        site_sync._synced.clear()
        site_sync.sync_sites(folder.engine, folder.settings)

    at_once([take] * 3)
    assert rows(folder.engine, "SELECT count(*) FROM sites WHERE enabled") == [(30,)]
