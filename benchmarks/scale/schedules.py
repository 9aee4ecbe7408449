"""How long do many schedules take that are due at once, and does each crawl begin exactly once?

    python -m benchmarks.scale.schedules                     500 sites, two coordinators: a minute

The sites' schedules come due while no coordinator runs. First one `plan` is timed in this process
and undone; then real coordinators start, with the broker and their own ticks. Nothing is fetched:
no worker runs.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import sqlalchemy as sa

from benchmarks.__main__ import say
from benchmarks.rig import servers
from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.infra import logs, migrations
from scraper.infra.database import make_engine
from scraper.rules.routing import COORDINATOR
from scraper.runtime import fleet
from scraper.settings import Settings
from scraper.sites.definition import Site

GIVE_UP_S = 300.0
STATES = sa.text("""
SELECT count(*) AS crawls, count(*) FILTER (WHERE status = 'running') AS running,
       count(DISTINCT site_id) AS sites, min(discovery_total) AS least, max(discovery_total) AS most,
       (SELECT count(*) FROM pages) AS pages,
       CAST(extract(epoch FROM max(created_at) - min(created_at)) AS float8) AS opened_s,
       CAST(extract(epoch FROM max(started_at) - min(created_at)) AS float8) AS started_s
  FROM crawls
""")


def measure(config: Settings, number: int, coordinators: int) -> None:
    engine = make_engine(config.postgres_url)
    migrations.upgrade(engine)
    defined = [
        Site.model_validate({
            "name": f"shop{place:03}", "start": f"https://shop{place}.example/", "schedule": "0 0 * * *",
            "listing": {"products": "a"}, "product": {"fields": {"name": "h1"}},
        })
        for place in range(number)
    ]  # fmt: skip
    with engine.begin() as connection:
        sites.store_definitions(connection, defined)
    took = [_timed_plan(engine) for _ in range(3)]
    print(f"a plan with nothing due: {min(took)[0] * 1e3:,.0f} ms")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE sites SET scheduled_since = now() - interval '2 days'"))
    wall_s, messages = _timed_plan(engine)
    print(f"a plan with {number} due: {wall_s * 1e3:,.0f} ms, {messages} messages")
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM crawls"))
    processes = [
        fleet.start_process(
            config, f"c{place}", fleet.worker_command([COORDINATOR], name=f"c{place}", beat=True)
        )
        for place in range(coordinators)
    ]
    try:
        _wait_for_all(engine, number)
    finally:
        fleet.stop_processes(processes)
        engine.dispose()


def _timed_plan(engine: sa.Engine) -> tuple[float, int]:
    began = time.perf_counter()
    messages = plan.plan(engine)
    return time.perf_counter() - began, len(messages)


def _wait_for_all(engine: sa.Engine, number: int) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while time.monotonic() < deadline:
        with engine.connect() as connection:
            row = connection.execute(STATES).one()
        say(f"{row.crawls} crawls, {row.running} running")
        if row.running == number:
            break
        time.sleep(1)
    # What was sent twice has time to do harm.
    time.sleep(10)
    print("messages handled:", _handled())
    with engine.connect() as connection:
        print(dict(connection.execute(STATES).mappings().one()))


def _handled() -> dict[str, int]:
    """Of each task, by all coordinators."""
    from scraper.celery import app

    total: Counter[str] = Counter()
    for stats in (app.control.inspect(timeout=3).stats() or {}).values():
        total.update({name.rpartition(".")[2]: n for name, n in stats["total"].items()})
    return dict(total)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale.schedules", description=__doc__
    )
    parser.add_argument("--sites", type=int, default=500, metavar="N")
    parser.add_argument("--coordinators", type=int, default=2, metavar="N")
    args = parser.parse_args()
    with servers() as config:
        logs.configure(config)
        measure(config, args.sites, args.coordinators)


if __name__ == "__main__":
    main()
