"""What grows with the pages of other sites? 200 sites, with as many pages in all as is asked for, and
a month of history.

    python -m benchmarks.scale                               50,000 and 500,000 pages: 5 minutes
    python -m benchmarks.scale --pages 50000,5000000         the large one: 30 minutes, 25 GB of disk
    python -m benchmarks.scale --explain plans.txt           also each statement's slowest plan

On an embedded PostgreSQL and Valkey, as `benchmarks/growth.py`. Each row is one of the crawler's own
functions: the median and the time that nine of ten calls did not exceed, and its ratio to the
smallest database. `!` marks what takes FLAT times as long, and over LITTLE_MS.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks import explained
from benchmarks.__main__ import say
from benchmarks.frontier_options import make_parser, parse_options, run_until_interrupted
from benchmarks.growth import Frontier, with_buffers
from benchmarks.growth_table import number, quantile
from benchmarks.rig import servers
from benchmarks.scale.asking import Place, questions
from benchmarks.scale.filling import SMALL, fill, sizes_of
from benchmarks.sizes import sizes_of as tables_of
from benchmarks.steps import daily
from scraper.infra import logs
from scraper.infra.database import make_engine
from scraper.settings import Settings

FLAT, LITTLE_MS = 1.5, 2.0
SMALLEST = 50_000
STEPS = ("dispatch", "claim", "settle", "finish")
ROUND_PAGES = 300
Walls = dict[str, list[float]]


class Database:
    """One size: what works on it as a crawl does, and what asks it as people do."""

    def __init__(self, config: Settings, pages: int) -> None:
        name = f"scale_{pages}"
        fill(config, pages, name)
        self.frontier = Frontier(config, name, sizes_of(pages))
        self.pages, self.walls = pages, Walls()
        url = config.postgres_url.replace("/scraper?", f"/{name}?")
        self.engine = make_engine(url, pool_size=3)
        site = self.frontier.sites[-SMALL]
        query = "SELECT min(external_id) FROM products WHERE site_id = :site AND id % 3 = 0"
        with self.engine.connect() as connection:
            product = connection.execute(sa.text(query), {"site": site.site_id}).scalar()
        self.place = Place(self.engine, config, site, str(product))

    def close(self) -> None:
        self.engine.dispose()
        self.frontier.crawler.close()

    def ask(self, *, kept: bool) -> None:
        for name, question in questions().items():
            began = time.perf_counter()
            question(self.place)
            if kept:
                self.walls.setdefault(name, []).append(time.perf_counter() - began)

    def work(self, *, kept: bool) -> None:
        self.frontier.round(ROUND_PAGES)
        meter = self.frontier.crawler.meter
        for step in STEPS:
            walls = meter.walls.pop(step, [])
            if kept:
                self.walls.setdefault(step, []).extend(walls)

    def ms(self, row: str, share: float = 0.5) -> float:
        return 1e3 * quantile(self.walls.get(row, ()), share)


def measure(
    config: Settings, pages: Sequence[int], rounds: int, plans: Path | None
) -> list[Database]:
    with ExitStack() as stack:
        databases = []
        for number_ in pages:
            databases.append(Database(config, number_))
            stack.callback(databases[-1].close)
        for database in databases:
            # plans made, caches as warm as they get
            database.work(kept=False)
            database.ask(kept=False)
        for round_ in range(rounds):
            for database in databases:
                database.work(kept=True)
                database.ask(kept=True)
            say(f"round {round_ + 1} of {rounds}, load {os.getloadavg()[0]:.1f}")
        if plans:
            with explained.statements(databases[-1].engine) as found:
                databases[-1].ask(kept=False)
            plans.write_text(explained.text(found))
        # The first of them ends unmeasured.
        whole = [site for site in databases[0].frontier.sites if site.whole]
        for turn in range(len(whole)):
            for database in databases:
                database.frontier.finish(turn)
                walls = database.frontier.crawler.meter.walls.pop("finish")
                if turn:
                    database.walls.setdefault("finish", []).extend(walls)
        return databases


def table(databases: Sequence[Database]) -> str:
    first = databases[0]
    head = f"{'pages, milliseconds':<26}" + "".join(
        f"{database.pages:>12,}{'9 of 10':>10}{'ratio':>8} " for database in databases
    )
    lines = [head.rstrip()]
    for row in [*STEPS, *(row for row in first.walls if row not in STEPS)]:
        cells = f"{row:<26}"
        for database in databases:
            ratio = database.ms(row) / max(first.ms(row), 1e-6)
            mark = "!" if ratio > FLAT and database.ms(row) > LITTLE_MS else " "
            cells += f"{number(database.ms(row)):>12}{number(database.ms(row, 0.9)):>10}"
            cells += f"{f'x{ratio:.2f}':>8}{mark}"
        lines.append(cells.rstrip())
    return "\n".join(lines)


def as_json(database: Database) -> dict[str, Any]:
    tables = tables_of(database.frontier.crawler.engine)
    return {
        "pages": database.pages,
        "ms": {
            row: {"calls": len(walls), "median": database.ms(row), "9 of 10": database.ms(row, 0.9)}
            for row, walls in database.walls.items()
        },
        "tables": {name: vars(size) for name, size in tables.items()},
    }


def _run(args: argparse.Namespace) -> None:
    with servers(args.home) as config, daily():
        logs.configure(config)
        with_buffers(config, args.buffers)
        databases = measure(config, args.sizes, args.rounds, args.explain)
        print(table(databases))
        if args.json:
            about = {
                "system": platform.platform(),
                "cores": os.cpu_count(),
                "shared_buffers": args.buffers,
                "databases": [as_json(database) for database in databases],
            }
            args.json.write_text(json.dumps(about, indent=2) + "\n")


def main() -> None:
    parser = make_parser("python -m benchmarks.scale", __doc__, "50000,500000", 7)
    args = parse_options(parser, SMALLEST)
    run_until_interrupted(lambda: _run(args))


if __name__ == "__main__":
    main()
