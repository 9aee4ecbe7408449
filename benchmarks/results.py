"""What one run of a contender came to, what its runs come to together, and the table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

WIDTH = 100


@dataclass(frozen=True)
class Run:
    """One crawl by one contender. Times in seconds, `cpu_s` of all its processes; `problem`: why it
    is not a result."""

    pages: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    worker_cpu_s: float | None = None
    postgres_cpu_s: float = 0.0
    valkey_cpu_s: float = 0.0
    shop_cpu_s: float = 0.0
    peak_mb: float = 0.0
    worker_mb: float | None = None
    requests: int = 0
    load_before: float = 0.0
    problem: str | None = None
    note: str | None = None

    @property
    def per_cpu_s(self) -> float:
        """Pages a CPU-second of all its processes: listings and products, a redirect not counted
        twice."""
        return self.pages / self.cpu_s if self.cpu_s else 0.0

    @property
    def per_worker_cpu_s(self) -> float | None:
        return self.pages / self.worker_cpu_s if self.worker_cpu_s else None


@dataclass
class Line:
    """A contender's runs. One that is not a result takes the result from all: a median of the lucky
    ones would lie."""

    name: str
    title: str
    read: str = "small"
    runs: list[Run] = field(default_factory=list)

    @property
    def problem(self) -> str | None:
        if not self.runs:
            return "not run"
        return next((run.problem for run in self.runs if run.problem), None)

    def middle(self, what: str) -> float:
        return float(median(getattr(run, what) or 0.0 for run in self.runs))

    def spread(self, what: str) -> tuple[float, float]:
        values = [getattr(run, what) or 0.0 for run in self.runs]
        return min(values), max(values)

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "title": self.title, "read": self.read}
        found["problem"] = self.problem
        if self.problem is None:
            low, high = self.spread("per_cpu_s")
            found |= {
                "pages_per_cpu_s": round(self.middle("per_cpu_s"), 1),
                "min": round(low, 1),
                "max": round(high, 1),
            }
        found["runs"] = [
            asdict(run) | {"pages_per_cpu_s": round(run.per_cpu_s, 1)} for run in self.runs
        ]
        return found


HEAD = (
    f"{'':<34}{'pages a CPU-second':>19}{'CPU':>8}{'wall':>8}{'memory':>8}{'PostgreSQL':>12}{'Valkey':>8}\n"
    f"{'':<34}{'median':>8}{'min–max':>11}{'s':>8}{'s':>8}{'MB':>8}{'CPU s':>12}{'CPU s':>8}"
)


def table(lines: Sequence[Line]) -> str:
    """At most 97 columns, best first; those without a result below, with the reason."""
    good = sorted(
        (line for line in lines if line.problem is None), key=lambda line: -line.middle("per_cpu_s")
    )
    rows = [HEAD]
    for line in good:
        rows.append(_row(line.title, line, "per_cpu_s", "cpu_s"))
        if line.runs[0].worker_cpu_s is not None:
            rows.append(
                _row(
                    "  its worker process alone",
                    line,
                    "per_worker_cpu_s",
                    "worker_cpu_s",
                    short=True,
                )
            )
    rows += [
        f"{line.title:<34}  no result: {line.problem}"[:WIDTH]
        for line in lines
        if line.problem is not None
    ]
    rows += _notes(lines)
    return "\n".join(rows)


def _row(title: str, line: Line, rate: str, cpu: str, *, short: bool = False) -> str:
    low, high = line.spread(rate)
    spread = f"{low:.0f}–{high:.0f}" if len(line.runs) > 1 else "–"
    text = f"{title:<34}{line.middle(rate):>8,.0f}{spread:>11}{line.middle(cpu):>8.1f}"
    if short:
        return f"{text}{'':>8}{line.middle('worker_mb'):>8.0f}"
    text += f"{line.middle('wall_s'):>8.1f}{line.middle('peak_mb'):>8.0f}"
    return text + f"{line.middle('postgres_cpu_s'):>12.1f}{line.middle('valkey_cpu_s'):>8.1f}"


def _notes(lines: Iterable[Line]) -> list[str]:
    noted = {line.title: next((run.note for run in line.runs if run.note), None) for line in lines}
    return [f"{title}: {note}"[:WIDTH] for title, note in noted.items() if note]


def rotated(names: Sequence[str], round_: int, rounds: int) -> list[str]:
    """The order of one round: each begins at another contender, so that none always runs first, or
    after the same load.

    >>> rotated(["a", "b", "c", "d"], 1, 2) ['c', 'd', 'a', 'b']
    """
    start = round_ * len(names) // max(1, rounds)
    return [*names[start:], *names[:start]]
