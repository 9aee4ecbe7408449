"""A real worker's log, line by line as a log collector reads it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from scraper.domain import Blame, Outcome
from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.acceptance.conftest import SampleShop
from tests.support.making import rows

SECRET = "s3cret-of-the-shop"


def test_a_worker_logs_json_an_event_a_batch_and_one_a_failure(
    run: Commands, engine: sa.Engine, environment: Settings, sample_shop: Callable[..., SampleShop]
) -> None:
    shop = sample_shop(
        "--products",
        "80",
        "--fail-share",
        "0.2",
        changes={"queue: residential": "queue: datacenter"},
    )
    definition = environment.sites_dir / f"{shop.name}.yaml"
    start = f"{shop.url}/all?page=1"
    text = definition.read_text()
    assert start in text
    # No listing: it fails, and its address is logged.
    useless = f"{shop.url}/_control/log?token={SECRET}"
    definition.write_text(
        text.replace(f"start: {start}", f"start: [{json.dumps(start)}, {json.dumps(useless)}]")
    )
    coordinator = run.coordinator(env={"SCRAPER_LOG_FORMAT": "json"})
    worker = run.worker("datacenter", env={"SCRAPER_LOG_FORMAT": "json"})
    run.until_ready(worker)
    crawl = run.crawl(engine, shop.name)
    assert run.end(worker) == 0 and run.end(coordinator) == 0

    log = run.log(worker)
    assert SECRET not in log and SECRET not in run.log(coordinator)
    events = lines(log)
    assert events, log
    batches = [event for event in events if event["event"] == "batch done"]
    tried: Counter[str] = Counter()
    for batch in batches:
        assert (
            batch["sites"] == [shop.name]
            and batch["crawls"] == [crawl["id"]]
            and batch["unsettled"] == 0
        )
        assert batch["queue"] == "datacenter" and batch["hosts_total"] == len(batch["hosts"]) == 1
        assert (
            sum(batch["outcomes"].values()) == batch["pages"]
            and batch["seconds"] >= 0
            and batch["lease"]
        )
        tried.update(batch["outcomes"])
    assert sum(n for name, n in tried.items() if Outcome(name).tried) == crawl["fetches"]

    failures = [event for event in events if event["event"] == "page failed"]
    assert Counter(event["outcome"] for event in failures) == {
        name: n for name, n in tried.items() if is_failure(Outcome(name))
    }
    assert any("token=***" in event["url"] for event in failures)
    known = {
        page: (url, host) for page, url, host in rows(engine, "SELECT id, url, host FROM pages")
    }
    for event in failures:
        assert event["crawl"] == crawl["id"] and event["site"] == shop.name and event["lease"]
        assert event["blame"] == Outcome(event["outcome"]).blame and event["error"]
        url, host = known[event["page"]]
        assert event["url"] == str(url).replace(SECRET, "***") and event["host"] == host
        assert (event["level"] == "info") == (
            "again_in_s" in event and event["again_in_s"] is not None
        )
    assert any(event["logger"].startswith("celery.") for event in events), (
        "Celery's own lines are among them"
    )


def is_failure(outcome: Outcome) -> bool:
    return outcome.tried and outcome.blame is not Blame.NOBODY and outcome is not Outcome.NOT_FOUND


def lines(log: str) -> list[dict[str, Any]]:
    """From its first event on, every line is JSON. What Celery prints to standard output, which
    lands in the same file here, is its banner before that and one line when it gets the signal to end."""
    all_lines = log.splitlines()
    first = next(n for n, line in enumerate(all_lines) if line.startswith("{"))
    rest = [
        line
        for line in all_lines[first:]
        if line not in ("", "worker: Warm shutdown (MainProcess)")
    ]
    assert [line for line in rest if not line.startswith("{")] == []
    found = [json.loads(line) for line in rest]
    assert all({"event", "level", "logger", "timestamp"} <= event.keys() for event in found)
    return found
