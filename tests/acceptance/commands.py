"""The real commands, as a user types them, in processes of their own (see tests/support/servers/forked.py);
whatever was started is ended by its pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import psutil
import sqlalchemy as sa

from scraper.views import crawl_progress as progress
from tests.support import waiting
from tests.support.servers import forked
from tests.support.servers.forked import Process
from tests.support.servers.spares import FORKED, told_by

# What tests wait for at most is what a machine at rest takes, several times over; a slower one, or
# one that is busy with something else, has this many times as long.
PATIENCE = 4
STOP_S = 30.0 * PATIENCE
COUNTERS = ("ok", "unchanged", "gone", "dead", "invalid", "dropped")


class Commands:
    """Runs and starts commands from the top of the repository. `env` is added to this process's
    environment."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.env = env
        self.started: list[Process] = []

    def environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, **self.env, **(more or {})}

    def scraper(
        self,
        *words: str,
        code: int | None = 0,
        timeout_s: float = 60,
        env: Mapping[str, str] | None = None,
        given: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """`scraper …` to its end; `code` is the exit code it must have (None: any); `given` is its
        standard input."""
        argv = ["scraper", *words]
        with TemporaryFile("w+") as out, TemporaryFile("w+") as err, TemporaryFile("w+") as stdin:
            stdin.write(given or "")
            stdin.seek(0)
            its = None if given is None else stdin.fileno()
            process = forked.start(argv, self.environ(env), out.fileno(), err.fileno(), its)
            try:
                process.wait(timeout_s * PATIENCE)
            except BaseException:
                _kill_group(process)
                raise
            texts = [_whole(out), _whole(err)]
        done = subprocess.CompletedProcess(argv, process.wait(), *texts)
        told = (
            f"scraper {' '.join(words)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        assert code is None or done.returncode == code, told + self.logs()
        assert "Traceback" not in done.stderr, told
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        """What a command with --json prints, numbers with all their digits."""
        return json.loads(self.scraper(*words, "--json", code=code).stdout, parse_float=Decimal)

    def crawls(self, *words: str) -> Any:
        """The crawls of `scraper status --json`."""
        return self.json("status", *words)["crawls"]

    def crawl(
        self, engine: sa.Engine, site: str, *options: str, code: int = 0, timeout_s: float = 240
    ) -> dict[str, Any]:
        """`scraper crawl SITE --wait`, and the crawl as `scraper status --json` would show it then."""
        done = self.scraper("crawl", site, "--wait", *options, code=code, timeout_s=timeout_s)
        crawl_id = int(done.stderr.partition(": crawl ")[2].split()[0])
        return progress.as_json(progress.read_one(engine, crawl_id))

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> Process:
        """Starts a command of the virtual environment, its output in a file (see `log`)."""
        path = self.folder / f"{len(self.started)}-{Path(words[0]).name}.log"
        with path.open("w") as out:
            process = forked.start(words, self.environ(env), out.fileno(), out.fileno())
        self.started.append(process)
        return process

    def worker(self, queues: str, *options: str, env: Mapping[str, str] | None = None) -> Process:
        """`celery -A scraper worker -Q …` under a node name of its own."""
        name = f"w{len(self.started)}-{os.getpid()}@%h"
        return self.start(
            "celery", "-A", "scraper", "worker", "-Q", queues, "-n", name, *options, env=env
        )

    def coordinator(self, env: Mapping[str, str] | None = None) -> Process:
        return self.worker("coordinator", "-B", env=env)

    def log(self, process: Process) -> str:
        number = self.started.index(process)
        return next(self.folder.glob(f"{number}-*.log")).read_text(errors="replace")

    def logs(self, *, whole: bool = False) -> str:
        """All logs, or their ends for a failing test's message."""
        paths = [*sorted(self.folder.glob("*.log")), *sorted(self.folder.glob("**/log/*.log"))]
        return "".join(
            f"\n--- {path.name}\n{path.read_text(errors='replace')[0 if whole else -3000 :]}"
            for path in paths
        )

    def until_ready(self, process: Process) -> None:
        until(lambda: " ready." in self.log(process) or process.poll() is not None, 30)
        assert process.poll() is None, self.log(process)

    def end(self, process: Process, number: int = signal.SIGTERM) -> int:
        """Sends a signal and waits; what does not end in time is killed and the test fails. SIGKILL
        is for the whole group: `-B` is a child that outlives its worker."""
        if number == signal.SIGKILL:
            _kill_group(process)
        elif process.poll() is None:
            os.kill(process.pid, number)
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            process.wait()
            raise

    def end_all(self) -> None:
        """SIGTERM to what still runs, then SIGKILL to whole groups. Never fails: it is the
        teardown."""
        running = [process for process in self.started if process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + 15
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for process in self.started:
            _kill_group(process)
            process.wait()


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _kill_group(process: Process) -> None:
    """Every command leads a group of its own, whose number is not given again while a member lives."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def commands(folder: Path, **env: str) -> Iterator[Commands]:
    folder.mkdir(parents=True, exist_ok=True)
    found = Commands(folder, **env)
    try:
        yield found
    finally:
        found.end_all()


def until(true: Callable[[], Any], timeout_s: float, every_s: float = 0.05) -> Any:
    """Waits for a true answer and returns it; fails after `PATIENCE` times `timeout_s`."""
    return waiting.until(true, timeout_s=PATIENCE * timeout_s, every_s=every_s)


def until_completed(engine: sa.Engine, crawl_id: int, timeout_s: float) -> None:
    """Looks into the database: a `scraper status` each time would take a core from the crawl."""
    until(
        lambda: progress.as_json(progress.read_one(engine, crawl_id))["status"] == "completed",
        timeout_s,
        every_s=0.2,
    )


def processes_of(home: Path, word: str = "") -> list[str]:
    """Command lines, with that word in them, of the running processes that have `home` as their
    SCRAPER_HOME."""
    found = []
    for process in psutil.process_iter():
        try:
            shown = process.environ()
            told = told_by(process.pid) if FORKED in shown.items() else []
            if f"SCRAPER_HOME={home}" in told:
                found.append(" ".join(told))
            elif (
                shown.get("SCRAPER_HOME") == str(home) and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return [line for line in found if word in line]


def counted(engine: sa.Engine, crawl_id: int) -> dict[str, int]:
    """A crawl's counters as the pages table has them."""
    query = sa.text(
        "SELECT kind = 'product' AS product, status, count(*) AS n FROM pages WHERE crawl_id = :id GROUP BY 1, 2"
    )
    found = dict.fromkeys(
        ("discovery_total", "discovery_done", "product_total", "product_done", *COUNTERS), 0
    )
    with engine.connect() as connection:
        for row in connection.execute(query, {"id": crawl_id}):
            sort = "product" if row.product else "discovery"
            found[f"{sort}_total"] += row.n
            if row.status in COUNTERS:
                found[f"{sort}_done"] += row.n
                found[row.status] += row.n
    return found


def assert_counted(engine: sa.Engine, crawl: Mapping[str, Any]) -> None:
    """An ended crawl's counters are the pages table's, and nothing is left open."""
    table = counted(engine, crawl["id"])
    assert {name: crawl[name] for name in table} == table
    assert (
        table["discovery_done"] == table["discovery_total"]
        and table["product_done"] == table["product_total"]
    )
    # those of a crawl that was stopped run out by themselves
    with engine.connect() as connection:
        leases = connection.execute(sa.text("SELECT count(*) FROM leases")).scalar()
    assert leases == 0 or crawl["status"] == "stopped"
