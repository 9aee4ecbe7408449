"""What a process imports before it does anything: a command that only shows its help, and a worker
until it is ready."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
NOT_TO_SHOW = {"celery", "kombu", "redis", "lxml", "parsel", "alembic", "scraper.sites.definition"}
# One that also asks the workers needs Celery's application, and what consumes its queues.
NOT_TO_ASK = {"lxml", "parsel", "scraper.sites.definition", "scraper.runtime.pool"}
STATUS = "scraper.cli.crawl.status, scraper.celery, scraper.runtime.consumer"


@pytest.mark.parametrize(
    ("module", "without"),
    [
        pytest.param("scraper.cli.main", HEAVY | FETCHING, id="scraper --help"),
        pytest.param("scraper.cli.data.products", NOT_TO_SHOW | FETCHING, id="scraper products"),
        pytest.param(STATUS, NOT_TO_ASK | FETCHING, id="scraper status"),
        pytest.param("scraper.tasks", FETCHING, id="celery -A scraper"),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(module: str, without: set[str]) -> None:
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=180, check=True
    )
    assert set(json.loads(done.stdout)) & without == set()
