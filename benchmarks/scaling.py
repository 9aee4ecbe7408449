"""Several of our workers on a core each against one worker: what the second core brings, the
servers' share taken out.

On a machine of few cores the workers share them with PostgreSQL, Valkey, the shop and the
coordinator. So next to pages a second the table says what each of them used, and pages a CPU-second
of the workers alone: where that stays the same, workers do not get in each other's way, and what is
missing to twice the pages was used by the servers.

Both crawl by the same definition, whose one host allows as many requests for each of the workers as
a single one is given elsewhere: two with half as many each have fewer answers at a time, and read
them in shorter rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks import ours
from benchmarks.cost import pin
from benchmarks.results import Run
from benchmarks.rig import Rig

Measured = Mapping[int, Sequence[Run]]


def measure(rig: Rig, workers: int, rounds: int, say: Callable[[str], None]) -> Measured:
    """First crawls by one worker and by `workers`, in turn. Servers may use every core in both."""
    for pid in (*rig.servers.values(), rig.shop.pid):
        pin(pid, set(rig.contender_cores))
    found: dict[int, list[Run]] = {1: [], workers: []}
    for round_ in range(rounds):
        for count in found:
            run = ours.crawl(rig, ["first"], workers=count, spread=True)[0]
            found[count].append(run)
            said = run.problem or f"{run.pages / run.wall_s:,.0f} pages a second"
            say(f"round {round_ + 1}  {count} worker(s): {said}")
    return found


def table(measured: Measured) -> str:
    """At most 83 columns. Cores: CPU seconds a second."""
    lines = [
        f"{'':<11}{'pages':>10}{'pages a CPU-second':>20}{'workers':>10}{'servers':>10}{'PostgreSQL':>12}{'others':>10}",
        f"{'':<11}{'a second':>10}{'of the workers':>20}{'cores':>10}{'cores':>10}{'of it':>12}{'cores':>10}",
    ]
    for count, runs in measured.items():
        problem = next((run.problem for run in runs if run.problem), None)
        name = f"{count} worker{'s' if count > 1 else ''}"
        lines.append(
            f"{name:<11}  no result: {problem}" if problem else name.ljust(11) + _row(runs)
        )
    one, many = (measured[count] for count in (min(measured), max(measured)))
    if not any(run.problem for run in (*one, *many)):
        faster = _middle(many, _pages_per_s) / _middle(one, _pages_per_s)
        lines.append(f"{max(measured)} workers: {faster:.2f} times the pages of one.")
        each = _middle(many, _per_worker_cpu_s) / _middle(one, _per_worker_cpu_s)
        lines.append(
            f"Were the servers elsewhere, so that each had a core: {max(measured) * each:.2f} times, by the CPU they used."
        )
    return "\n".join(lines)


def as_json(measured: Measured) -> dict[str, Any]:
    return {str(count): [asdict(run) for run in runs] for count, runs in measured.items()}


def _row(runs: Sequence[Run]) -> str:
    def servers(run: Run) -> float:
        return (run.postgres_cpu_s + run.valkey_cpu_s + run.shop_cpu_s) / run.wall_s

    return (
        f"{_middle(runs, _pages_per_s):>10,.0f}"
        f"{_middle(runs, _per_worker_cpu_s):>20,.0f}"
        f"{_middle(runs, lambda run: (run.worker_cpu_s or 0) / run.wall_s):>10.2f}"
        f"{_middle(runs, servers):>10.2f}"
        f"{_middle(runs, lambda run: run.postgres_cpu_s / run.wall_s):>12.2f}"
        f"{_middle(runs, lambda run: (run.cpu_s - (run.worker_cpu_s or 0)) / run.wall_s):>10.2f}"
    )


def _middle(runs: Sequence[Run], value: Callable[[Run], float]) -> float:
    return float(median(value(run) for run in runs))


def _per_worker_cpu_s(run: Run) -> float:
    return run.per_worker_cpu_s or 0.0


def _pages_per_s(run: Run) -> float:
    return run.pages / run.wall_s
