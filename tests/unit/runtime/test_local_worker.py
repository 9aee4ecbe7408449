"""Workers that a command starts for itself: it is their supervisor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scraper.errors import RESTART_CODE, ServerUnavailableError
from scraper.runtime.fleet import LocalWorker, stop_processes
from scraper.settings import Settings


def test_one_that_asks_for_it_is_started_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"import sys; sys.exit({RESTART_CODE})"]
    worker = LocalWorker(Settings(home=tmp_path), "worker", command)
    first = worker.process
    assert first.wait(30) == RESTART_CODE
    worker.keep_running()
    assert worker.process.pid != first.pid
    stop_processes([worker.process])


@pytest.mark.parametrize("code", [0, 1, 3])
def test_one_that_ended_otherwise_is_an_error_that_names_its_log(tmp_path: Path, code: int) -> None:
    command = [sys.executable, "-c", f"import sys; sys.exit({code})"]
    worker = LocalWorker(Settings(home=tmp_path), "worker", command)
    worker.process.wait(30)
    with pytest.raises(ServerUnavailableError, match=rf"exit code {code}.*worker\.log"):
        worker.keep_running()


def test_one_that_runs_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    worker = LocalWorker(Settings(home=tmp_path), "worker", command)
    before = worker.process
    worker.keep_running()
    assert worker.process is before
    stop_processes([worker.process])
