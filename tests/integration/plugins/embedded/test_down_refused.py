"""`scraper down` does not fight with `scraper start`, which starts servers that end."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scraper.cli.main import main
from scraper.plugins.embedded import servers as embedded
from scraper.plugins.supervisor.lock import StartLock
from scraper.settings import Settings


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCRAPER_HOME", str(tmp_path / "home"))
    return Settings(home=tmp_path / "home")


def down() -> Result:
    return CliRunner().invoke(main, ["down"])


def test_down_is_refused_while_start_runs(own: Settings) -> None:
    embedded.up(own)
    try:
        lock = StartLock(own)
        lock.write_state()
        refused = down()
        assert refused.exit_code == 1 and "`scraper start` runs here, as process" in refused.output
        assert "it stops the servers that it started" in refused.output
        assert all(state.running for state in embedded.status(own))
        # What follows a killed `scraper start` holds the lock, and stops the servers itself.
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        lock._file.truncate(0)
        lock._file.write(f"{ended.pid} servers")
        lock._file.flush()
        stopped = down()
        assert stopped.exit_code == 0 and "postgres: stopped" in stopped.output
        lock.release()
        assert down().exit_code == 0
    finally:
        embedded.down(own)
        shutil.rmtree(own.socket_dir, ignore_errors=True)
