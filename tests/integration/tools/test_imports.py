"""What a process imports before it does anything: a command that only shows its help, and a worker
until it is ready."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from scraper.registry import active_plugins, plugin_ticks

FETCHING = {
    "scraper.worker.process",
    "scraper.http.fetcher",
    "httpx",
    "aiohttp",
    "price_parser",
    "curl_cffi",
}
HEAVY = {
    "sqlalchemy",
    "celery",
    "kombu",
    "pydantic",
    "redis",
    "psycopg",
    "lxml",
    "parsel",
    "rich",
    "alembic",
}

# A command that only shows rows needs the database and a table.
NOT_TO_SHOW = {
    *("celery", "kombu", "redis", "lxml", "parsel", "alembic", "structlog"),
    "scraper.sites.definition",
}
# One that reads files or pages alone needs no database.
NO_DATABASE = {"sqlalchemy", "psycopg", "alembic", "celery", "redis"}
PICK = "scraper.cli.setup.sites_group, scraper.plugins.author.commands.pick"
# One that also asks the workers needs Celery's application, and what consumes its queues.
NOT_TO_ASK = {"lxml", "parsel", "scraper.sites.definition", "scraper.runtime.pool"}
STATUS = "scraper.cli.crawl.status, scraper.celery, scraper.runtime.consumer"


@pytest.mark.parametrize(
    ("module", "without"),
    [
        pytest.param("scraper.cli.main", HEAVY | FETCHING, id="scraper --help"),
        pytest.param("scraper.cli.data.products", NOT_TO_SHOW | FETCHING, id="scraper products"),
        pytest.param(STATUS, NOT_TO_ASK | FETCHING, id="scraper status"),
        pytest.param(PICK, NO_DATABASE, id="scraper sites pick"),
        pytest.param("scraper.tasks", FETCHING, id="celery -A scraper"),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(module: str, without: set[str]) -> None:
    assert imported_by(f"import {module}") & without == set()


def test_a_coordinator_imports_what_ticks_need_ahead_and_no_archive() -> None:
    imported = imported_by(
        "import scraper.tasks, scraper.process.current_worker as worker; worker.import_ahead(False)"
    )
    assert {tick.step.partition(":")[0] for tick in plugin_ticks()} <= imported
    assert imported & {"scraper.worker.process", "warcio", "fsspec"} == set()


def test_a_worker_imports_hooks_before_its_first_page() -> None:
    imported = imported_by(
        "import scraper.tasks, scraper.process.current_worker as worker; worker.import_ahead(True)"
    )
    hooks = {plugin.hooks.partition(":")[0] for plugin in active_plugins() if plugin.hooks}
    assert hooks <= imported


def imported_by(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import json, sys; print(json.dumps([*sys.modules]))"],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return set(json.loads(done.stdout))
