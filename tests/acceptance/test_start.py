"""`scraper start`: every process may die, the command itself may be killed, and no page is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from scraper.plugins.demo import definition
from scraper.plugins.embedded import servers as embedded
from scraper.settings import Settings
from tests.acceptance.commands import Commands, commands, processes_of, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.killed_crawl import SHOP, SLOWER, Crawl
from tests.acceptance.started_scraper import Started
from tests.support.machine import need

NAMES = ("coordinator", "worker", "flower")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A project without servers, as after `scraper init`."""
    monkeypatch.setenv("SCRAPER_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("SCRAPER_SITES", str(tmp_path / "sites"))
    (tmp_path / "sites").mkdir()
    return Settings()


def embedded_runs(own: Settings) -> list[bool]:
    return [state.running for state in embedded.status(own)]


def are_served(run: Commands, *queues: str) -> bool:
    """Asks the workers themselves: a log keeps the "ready" of a worker that was killed since. The
    worker of a new definition's queue starts once the definition is there."""
    inspected = run.start("celery", "-A", "scraper", "inspect", "active_queues")
    return inspected.wait(60) == 0 and all(queue in run.log(inspected) for queue in queues)


def children_of(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.timeout(900)
def test_each_process_that_dies_is_started_again(own: Settings, tmp_path: Path) -> None:
    """Servers, beat and a killed command included: after that, no process is left."""
    with commands(tmp_path / "logs") as run:
        started = Started(run)
        assert f"dashboard: http://127.0.0.1:{started.port}/crawls" in started.log()
        assert all(f"\n{name:<11} | " in started.log() for name in NAMES), "lines have names"
        second = run.scraper("start", code=1)
        assert f"already runs here, as process {started.process.pid}" in second.stderr

        beats = children_of(started.pid_of("coordinator"))
        started.kill(*NAMES)
        until(lambda: not any(beat.is_running() for beat in beats), 30)
        for name in ("postgres", "valkey"):
            embedded.kill(own, name)
        until(lambda: all(embedded_runs(own)), 60)
        until(started.is_flower_there, 60)

        shop = SampleShop("--products", "60")
        try:
            (own.sites_dir / "demo.yaml").write_text(definition(shop.url))
            until(lambda: are_served(run, "datacenter", "residential"), 120)
            done = run.scraper("crawl", "demo", "--wait", timeout_s=120)
        finally:
            shop.stop()
        assert "60 new" in done.stdout and "starting workers" not in done.stderr

        os.kill(started.process.pid, signal.SIGKILL)
        started.process.wait(30)
        until(lambda: not any(embedded_runs(own)), 120)
        until(lambda: not processes_of(own.home_dir), 60)
        assert "BrokenPipe" not in run.logs(whole=True)


@pytest.mark.timeout(900)
def test_ctrl_c_in_the_middle_of_a_crawl(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop], environment: Settings
) -> None:
    """The servers are the user's own, and stay. The crawl goes on at the next start; the second
    time the whole command is killed in it."""
    shop = sample_shop(*SHOP, changes=SLOWER)
    crawl = Crawl(run, engine, shop, lambda: Started(run).process)
    crawl.until_fetched(0.2)
    assert run.end(crawl.worker, signal.SIGINT) == 0
    assert "everything has ended" in run.log(crawl.worker)
    assert not processes_of(environment.home_dir, "celery")
    assert crawl.quiet() and crawl.progress()["status"] == "running"
    assert crawl.rows("SELECT count(*) FROM leases WHERE started_at IS NOT NULL") == [(0,)]

    shop.options(latency_ms=500)
    crawl.worker = Started(run).process
    crawl.until_fetched(0.6)
    os.kill(crawl.worker.pid, signal.SIGKILL)
    shop.options(latency_ms=20)
    until(lambda: not processes_of(environment.home_dir, "celery"), 60)

    last = Started(run)
    crawl.until_completed()
    crawl.assert_exact()
    assert last.end(signal.SIGTERM) == 0


def test_a_service(run: Commands, environment: Settings, tmp_path: Path) -> None:
    """systemd accepts the unit, which starts what `scraper start` does."""
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    written = run.scraper("start", "--service", "--workers", "2", env=env)
    unit = next((tmp_path / "config/systemd/user").iterdir())
    assert str(unit) in written.stdout and "DATABASE_URL" in written.stdout
    assert "-m scraper start --workers 2\n" in unit.read_text()
    unit.write_text(unit.read_text().replace("WorkingDirectory=/", "WorkingDirectory=/other/"))
    refused = run.scraper("start", "--service", env=env, code=2)
    assert "is another project's" in refused.stderr
    unit.unlink()
    run.scraper("start", "--service", env=env)
    need(shutil.which("systemd-analyze"), "systemd is not installed (Debian: apt install systemd)")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
