"""`scraper status` and `scraper watch` as they are typed: on a terminal of some size, and into a
pipe."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import sqlalchemy as sa

from scraper.domain import Outcome
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.support.databases import admin
from tests.support.making import a_site, add, give_up, new_page, open_crawl, urls
from tests.support.servers.forked import BIN, ROOT

LEAVES_SCREEN, SHOWS_CURSOR = b"\x1b[?1049l", b"\x1b[?25h"
SEQUENCE = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][AB0]")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, run: Commands, width: int, height: int, *words: str) -> None:
        self._mine, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        environment = {**run.environ(), "TERM": "xterm-256color"}
        # which would count for more than the terminal's size
        for name in ("COLUMNS", "LINES"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [BIN / "scraper", *words],
            cwd=ROOT,
            env=environment,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(its)
        self.out = b""

    def read(self) -> bytes:
        while select.select([self._mine], [], [], 0.05)[0]:
            try:
                found = os.read(self._mine, 65536)
            except OSError:  # it has ended
                break
            if not found:
                break
            self.out += found
        return self.out

    def text(self) -> str:
        return SEQUENCE.sub(b"", self.read()).decode(errors="replace")

    def type(self, keys: bytes) -> None:
        os.write(self._mine, keys)

    def ended(self) -> int:
        until(lambda: self.read() is not None and self.process.poll() is not None, 20)
        self.read()
        return int(self.process.returncode)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._mine)


@contextmanager
def terminal(run: Commands, width: int, height: int, *words: str) -> Iterator[Terminal]:
    found = Terminal(run, width, height, *words)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def standing(engine: sa.Engine) -> tuple[int, int]:
    """A running crawl with open and dead pages."""
    crawl = open_crawl(engine, a_site())
    add(engine, [new_page(crawl, url) for url in urls(40)])
    give_up(engine, crawl, urls(3, "bad.example"), Outcome.REFUSED)
    return crawl


def test_status_says_how_things_stand(
    run: Commands, engine: sa.Engine, standing: tuple[int, int]
) -> None:
    told = run.json("status")
    (crawl,), (queue,), (dead,), (error,) = (
        told["crawls"],
        told["queues"],
        told["dead"],
        told["errors"],
    )
    assert (crawl["total"], crawl["done"], crawl["failed"], crawl["phase"]) == (
        43,
        3,
        3,
        "fetching",
    )
    assert (crawl["recent_per_s"], crawl["left_s"], crawl["left"]) == (0, None, "–"), (
        "nothing has moved: nobody can say"
    )
    assert (queue["queue"], queue["due"], queue["workers"]) == ("datacenter", 40, 0)
    assert (dead["site"], dead["status"], dead["pages"]) == ("shop", "dead", 3)
    assert (error["blame"], error["outcome"], error["pages"], error["host"]) == (
        "page",
        "refused",
        3,
        "bad.example",
    )
    assert (told["workers"], told["hosts"], told["paused"], told["away"]) == ([], [], [], {})
    with engine.begin() as connection:
        # However long the commands take, it does not count as waiting yet.
        later = "UPDATE crawls SET started_at = now() + interval '1 hour'"
        connection.execute(sa.text(later))
    plain = run.scraper("status").stdout
    assert (
        "# crawls  1 running" in plain
        and "\tfailing\t" in plain
        and "\tnone" in plain
        and "\x1b" not in plain
    )
    assert "no site named 'nobody'" in run.scraper("status", "nobody", code=2).stderr


def test_status_sees_workers_and_says_when_the_broker_is_away(
    run: Commands, standing: tuple[int, int]
) -> None:
    worker = run.worker("residential")
    run.until_ready(worker)
    (found,) = until(lambda: run.json("status")["workers"], 20)
    assert (found["queues"], found["state"]) == (["residential"], "idle")
    assert run.end(worker) == 0
    told = json.loads(
        run.scraper("status", "--json", env={"REDIS_URL": "redis://:s3cret@127.0.0.1:9/0"}).stdout
    )
    assert told["away"].keys() == {"redis", "broker"} and "s3cret" not in str(told)
    assert len(told["crawls"]) == 1 and told["queues"][0]["workers"] is None


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (10, 3)])
def test_status_fits_the_terminal(
    run: Commands, standing: tuple[int, int], width: int, height: int
) -> None:
    with terminal(run, width, height, "status") as found:
        assert found.ended() == 0
        lines = found.text().splitlines()
    assert "Traceback" not in "\n".join(lines)
    if width >= 40:
        assert (
            max(map(len, lines)) <= width
            and len(lines) <= max(height, 20)
            and any("shop" in line for line in lines)
        )


@pytest.mark.parametrize("end", ["Ctrl-C", "SIGTERM", "q"])
def test_watch_is_live_and_leaves_a_clean_terminal(
    run: Commands, engine: sa.Engine, standing: tuple[int, int], end: str
) -> None:
    with terminal(run, 80, 24, "watch", "--every", "0.2") as found:
        until(lambda: "3/43" in found.text(), 30)
        add(engine, [new_page(standing, url) for url in urls(7, "more.example")])
        until(lambda: "3/50" in found.text(), 20)
        if end == "Ctrl-C":
            found.type(b"\x03")
        elif end == "q":
            found.type(b"/nothing\r")
            until(lambda: "no site matches" in found.text(), 20)
            found.type(b"\x1b")
            found.type(b"q")
        else:
            found.process.terminate()
        assert found.ended() == (128 + signal.SIGTERM if end == "SIGTERM" else 0)
        assert (
            found.out.rindex(LEAVES_SCREEN) > found.out.rindex(b"crawls")
            and SHOWS_CURSOR in found.out
        )
        assert "Traceback" not in found.text()


@pytest.mark.usefixtures("own_database")
def test_watch_goes_on_while_the_database_is_away(
    run: Commands, engine: sa.Engine, servers: Settings, standing: tuple[int, int]
) -> None:
    name = engine.url.database
    with terminal(run, 80, 24, "watch", "--every", "0.2") as found:
        until(lambda: "3/43" in found.text(), 30)
        engine.dispose()
        with admin(servers) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            until(lambda: "PostgreSQL does not answer" in found.text(), 20)
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        add(engine, [new_page(standing, url) for url in urls(7, "more.example")])
        until(lambda: "3/50" in found.text(), 20)
        found.type(b"\x03")
        assert found.ended() == 0


@pytest.mark.parametrize("as_json", [False, True])
def test_watch_without_a_terminal_writes_lines(
    run: Commands, standing: tuple[int, int], as_json: bool
) -> None:
    process = run.start("scraper", "watch", *(["--json", "--every", "0.2"] if as_json else []))
    until(lambda: run.log(process).count("shop") >= 2 and run.log(process).count("\n") >= 2, 30)
    assert run.end(process, signal.SIGINT) == 0
    log = run.log(process)
    assert "\x1b" not in log and "Traceback" not in log
    if as_json:
        told = [json.loads(line) for line in log.splitlines()]
        assert (
            all(each["crawls"][0]["total"] == 43 and each["at"] for each in told) and len(told) >= 2
        )
    else:
        assert "shop: fetching, 3/43 pages" in log and "queue datacenter: 40 due" in log
