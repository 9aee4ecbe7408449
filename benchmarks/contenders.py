"""The peers: how each is started in its own environment, watched until its crawl is over, and
checked.

A peer leads a process group of its own. It says `ready` when all is imported, and is measured from
our answer until it ends, or, for one that never ends by itself, until the last row is there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import truth
from benchmarks.cost import PeakMemory, cpu_s, pin
from benchmarks.definition import FIELDS
from benchmarks.large.definition import READS
from benchmarks.results import Run
from benchmarks.rig import Rig
from scraper.runtime import fleet

FOLDER = Path(__file__).with_name("peers")
PYTHON = FOLDER / ".venv" / "bin" / "python"
# no page asked for, and no end
STALLED_S = 20.0
# at the shop, for a peer that ends by itself
LOOK_S = 2.0
POLL_S = 0.05

TABLE = """
    DROP TABLE IF EXISTS {table};
    CREATE TABLE {table} (
        external_id text PRIMARY KEY, url text NOT NULL, {columns}, fetched_at timestamptz NOT NULL DEFAULT now()
    )"""
COLUMNS = (
    "name text NOT NULL, price numeric(12, 2), brand text, sku text, stock integer, available boolean, "
    "category text, description text"
)


@dataclass(frozen=True)
class Peer:
    """`needs`: the module that must be there to run it. `ends`: whether it ends by itself. `reads`:
    what it reads of large pages; "small": the small ones."""

    name: str
    title: str
    command: tuple[str, ...]
    needs: str
    ends: bool = True
    reads: tuple[str, ...] = ("small",)


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "script",
            "script: aiohttp and parsel",
            ("asyncio_script.py",),
            "aiohttp",
            reads=("small", *READS),
        ),
        Peer(
            "selectolax",
            "script: aiohttp and selectolax",
            ("asyncio_script.py", "selectolax"),
            "selectolax",
            reads=("jsonld", "css"),
        ),
        Peer("go", "Go: net/http and goquery", (), "go", reads=("jsonld", "css")),
        Peer(
            "crawlee-impit",
            "Crawlee, impit",
            ("crawlee_crawler.py", "impit"),
            "crawlee",
            reads=("small", *READS),
        ),
        Peer("crawlee-httpx", "Crawlee, httpx", ("crawlee_crawler.py", "httpx"), "crawlee"),
        Peer(
            "scrapy-aiohttp",
            "Scrapy, its aiohttp handler",
            ("scrapy_spider.py", "--aiohttp"),
            "scrapy",
        ),
        Peer("scrapy", "Scrapy", ("scrapy_spider.py",), "scrapy", reads=("small", *READS)),
        Peer("scrapy-redis", "scrapy-redis", ("scrapy_redis_spider.py",), "scrapy_redis"),
        Peer("celery", "Celery, a task a page", ("celery_naive.py",), "celery", ends=False),
    )
}


class NoResult(Exception):
    """The run came to nothing; says why."""


def command_of(peer: Peer) -> list[str]:
    """What starts a peer. Raises NoResult where something is missing."""
    if peer.needs == "go":
        return [_built()]
    python = _python_of(peer)
    if python is None:
        raise NoResult(f"not installed (no {peer.needs} in {FOLDER.name}/.venv)")
    return [str(python), *peer.command]


def _built() -> str:
    """The crawler in Go. Its libraries are Debian's golang-github-puerkitobio-goquery-dev and
    golang-github-lib-pq-dev."""
    binary = FOLDER / ".venv" / "go-crawler"
    env = os.environ | {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}
    command = ["go", "build", "-o", str(binary), "crawler.go"]
    try:
        built = subprocess.run(
            command, cwd=FOLDER, env=env, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise NoResult("Go is not installed (golang-go, and goquery and pq of Debian)") from None
    if built.returncode:
        raise NoResult("it does not build: " + built.stderr.strip().splitlines()[-1])
    return str(binary)


def _python_of(peer: Peer) -> Path | None:
    """The Python that can run a peer: its own environment's, or this one where that has all it needs.
    None: neither."""
    for python in (PYTHON, Path(sys.executable)):
        if python.exists():
            check = [str(python), "-c", f"import {peer.needs}, parsel, psycopg"]
            if subprocess.run(check, stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return python
    return None


def versions() -> dict[str, str]:
    """Of the distributions that the peers are made of, where they are installed."""
    names = (
        "aiohttp",
        "celery",
        "crawlee",
        "httpx",
        "impit",
        "lxml",
        "parsel",
        "psycopg",
        "scrapy",
        "scrapy-redis",
        "selectolax",
    )
    lines = f"from importlib.metadata import version\nfor n in {names!r}:\n  print(n, version(n))"
    python = PYTHON if PYTHON.exists() else Path(sys.executable)
    said = subprocess.run(
        [str(python), "-c", lines], capture_output=True, text=True, check=False
    ).stdout
    return dict(line.split() for line in said.splitlines())


def crawl(rig: Rig, peer: Peer) -> Run:
    """One crawl. What goes wrong is the run's `problem`."""
    load = os.getloadavg()[0]
    table = "peer_" + peer.name.replace("-", "_")
    rig.fresh()
    with rig.admin() as connection:
        connection.execute("DROP DATABASE IF EXISTS peers WITH (FORCE)")
        connection.execute("CREATE DATABASE peers")
    try:
        with _started(rig, peer, command_of(peer), table) as process:
            return _measured(rig, peer, process, table, load)
    except NoResult as reason:
        return Run(problem=str(reason), load_before=load)


@contextmanager
def _started(
    rig: Rig, peer: Peer, command: list[str], table: str
) -> Iterator[subprocess.Popen[str]]:
    """The peer, ready to begin; its whole group is gone afterwards."""
    database = rig.database("peers")
    with psycopg.connect(database, autocommit=True) as connection:
        columns = COLUMNS if rig.read == "small" else "data jsonb NOT NULL"
        connection.execute(TABLE.format(table=table, columns=columns))
    env = {name: value for name, value in os.environ.items() if not name.startswith("SCRAPER_")}
    env |= {
        "BENCH_SHOP": rig.shop_url,
        "BENCH_DATABASE": database,
        "BENCH_TABLE": table,
        "BENCH_REDIS_SOCKET": rig.config.valkey_url.removeprefix("unix://").partition("?")[0],
        "BENCH_CONCURRENCY": str(rig.concurrency),
        "BENCH_READ": "" if rig.read == "small" else rig.read,
    }
    with fleet.log_path(rig.config, peer.name).open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=FOLDER,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        pin(process.pid, {rig.contender_cores[0]})
        assert process.stdout is not None
        while (said := process.stdout.readline()) != "ready\n":
            if not said:
                raise NoResult(f"ended before it began: {rig.log_tail(peer.name)}")
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _measured(rig: Rig, peer: Peer, process: subprocess.Popen[str], table: str, load: float) -> Run:
    assert process.stdin is not None
    servers, before = rig.servers_cpu(), cpu_s(process.pid)
    began = time.monotonic()
    with PeakMemory([process.pid]) as memory:
        process.stdin.write("go\n")
        process.stdin.flush()
        spent = _until_over(rig, peer, process, table)
        wall_s = time.monotonic() - began
        servers_spent = rig.servers_cpu().since(servers)
    counts = rig.ask("counts")
    return Run(
        pages=rig.pages,
        wall_s=wall_s,
        cpu_s=spent - before,
        peak_mb=memory.bytes / 1e6,
        requests=sum(counts.values()),
        load_before=load,
        problem=truth.missing(_rows(rig, table), rig.truth, rig.fields),
        note=truth.asked_amiss(counts, rig.expected),
        **servers_spent,
    )


def _until_over(rig: Rig, peer: Peer, process: subprocess.Popen[str], table: str) -> float:
    """Waits for the crawl's end; CPU seconds of the whole group by then, as the kernel accounts for
    it."""
    served, moved, looked = -1, time.monotonic(), 0.0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0 or not peer.ends:
                raise NoResult(f"exit code {process.returncode}: {rig.log_tail(peer.name)}")
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() - looked > (LOOK_S if peer.ends else POLL_S):
            looked, now = time.monotonic(), rig.ask("served")
            if not peer.ends and now >= len(rig.expected) and _count(rig, table) >= len(rig.truth):
                return cpu_s(process.pid)
            if now != served:
                served, moved = now, looked
            elif looked - moved > STALLED_S:
                if not peer.ends:
                    # the missing rows are the problem
                    return cpu_s(process.pid)
                raise NoResult(f"no request for {STALLED_S:.0f} s, after {now:,}")
        time.sleep(POLL_S)


def _count(rig: Rig, table: str) -> int:
    with psycopg.connect(rig.database("peers")) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _rows(rig: Rig, table: str) -> dict[str, dict[str, Any]]:
    columns = ", ".join(FIELDS)
    with psycopg.connect(rig.database("peers")) as connection:
        if rig.read != "small":
            return dict(connection.execute(f"SELECT external_id, data FROM {table}").fetchall())
        found = connection.execute(f"SELECT external_id, {columns} FROM {table}").fetchall()
    return {row[0]: dict(zip(FIELDS, row[1:], strict=True)) for row in found}
