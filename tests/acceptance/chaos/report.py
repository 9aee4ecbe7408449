"""What came of a run: a table for people (plain and aligned without a terminal), and
the same as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.acceptance.chaos.recovery import bound_s
from tests.acceptance.chaos.rig import Injected
from tests.acceptance.chaos.truth import Checks, Counted

Row = tuple[str, ...]


@dataclass
class Report:
    seed: int
    replay: str
    lease_s: float
    began: float
    seconds: float = 0.0
    injected: list[Injected] = field(default_factory=list)
    rounds: list[Counted] = field(default_factory=list)
    checks: Checks = field(default_factory=Checks)
    slots: int = 0
    refused: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.checks.failed


def show(report: Report) -> None:
    _table(
        "Faults",
        ("kind", "injected", "measured", "median s", "max s", "bound s", "everybody, max s"),
        _faults(report),
    )
    _table(
        "Rounds",
        (
            "crawl",
            "seconds",
            "pages",
            "fetches",
            "minimum",
            "over",
            "over %",
            "leases",
            "given back",
            "lost",
            "versions",
        ),
        [_round(each) for each in report.rounds],
    )
    _table(
        "Checks",
        ("check", "result"),
        [(name, "FAILED" if bad else "ok") for name, bad in report.checks.found.items()],
    )
    for note in report.notes:
        print(f"note: {note}")
    for name, problems in report.checks.failed.items():
        print(f"\nFAILED: {name}")
        for problem in problems:
            print(f"  {problem}")
    verdict = (
        "passed"
        if report.passed
        else f"FAILED ({len(report.checks.failed)} of {len(report.checks.found)} checks)"
    )
    print(
        f"\n{verdict}: {len(report.injected)} faults, {len(report.rounds)} rounds, {report.seconds:.0f} s",
        flush=True,
    )
    print(f"the same again: {report.replay}", flush=True)


def as_json(report: Report) -> dict[str, Any]:
    columns = ("kind", "injected", "measured", "median_s", "max_s", "bound_s", "everybody_max_s")
    return {
        "seed": report.seed,
        "passed": report.passed,
        "lease_s": report.lease_s,
        "seconds": round(report.seconds, 1),
        "kinds": [dict(zip(columns, row, strict=True)) for row in _faults(report)],
        "faults": [
            {**asdict(each), "began": round(each.began - report.began, 2)}
            for each in report.injected
        ],
        "rounds": [{**asdict(each), "over": each.over} for each in report.rounds],
        "slots": report.slots,
        "checks": report.checks.found,
        "notes": report.notes,
        "replay": report.replay,
    }


def write(report: Report, path: Path) -> None:
    path.write_text(json.dumps(as_json(report), indent=1, default=str) + "\n")


def _faults(report: Report) -> list[Row]:
    rows: list[Row] = []
    for kind in sorted({each.kind for each in report.injected}):
        mine = [each for each in report.injected if each.kind == kind]
        took = [each.recovery_s for each in mine if each.recovery_s is not None]
        everybody = [each.everybody_s for each in mine if each.everybody_s is not None]
        bound = bound_s(kind)
        rows.append(
            (
                kind,
                str(len(mine)),
                str(len(took)),
                f"{median(took):.1f}" if took else "",
                f"{max(took):.1f}" if took else "",
                f"{bound:.0f}" if bound else "",
                f"{max(everybody):.1f}" if everybody else "",
            )
        )
    return rows


def _round(each: Counted) -> Row:
    share = 100 * each.over / each.minimum if each.minimum else 0.0
    numbers = (each.pages, each.fetches, each.minimum, each.over)
    more = (each.leases, each.deferred, each.lost, each.versions)
    return (
        str(each.crawl_id), f"{each.seconds:.0f}", *map(str, numbers), f"{share:.2f}", *map(str, more)
    )  # fmt: skip


def _table(title: str, head: Sequence[str], rows: Sequence[Row]) -> None:
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for n, name in enumerate(head):
            table.add_column(name, justify="left" if n == 0 else "right")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(len(row[n]) for row in [tuple(head), *rows]) for n in range(len(head))]
    print(f"\n{title}")
    for row in [tuple(head), *rows]:
        cells = [
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())
