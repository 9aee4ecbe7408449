"""The fault harness, briefly: each kind of fault against one crawl, by a seed that stays the same.
`make chaos` for more.

About two minutes. A failure prints the whole run: the
faults with their times, the tables, every check that failed and the command that repeats it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.chaos import __main__ as command
from tests.acceptance.chaos.faults import KINDS, planned
from tests.support.servers.forked import ROOT

SEED = 1
# Long enough for each kind once, and for what is then left of the crawl to be little.
BRIEFLY = "--minutes", "0.5", "--products", "1500"
END_S = 60.0


# a crawl that does not end is given up by the harness itself, with a diagnosis
@pytest.mark.timeout(900)
def test_a_crawl_under_every_kind_of_fault(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    argv = [
        sys.executable,
        "-m",
        "tests.acceptance.chaos",
        "--seed",
        str(SEED),
        *BRIEFLY,
        "--json",
        str(report),
        "--end-with-parent",
    ]
    run = subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said, _ = run.communicate()
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=END_S)
    print(said)
    assert run.returncode == 0, said
    found = json.loads(report.read_text())
    assert found["passed"] and found["rounds"] and not any(found["checks"].values())
    assert {kind["kind"] for kind in found["kinds"]} >= {*KINDS, "messages_after_crawl"}


def test_a_seed_gives_the_same_faults_again_and_every_kind_first() -> None:
    kinds = sorted(KINDS)
    assert kinds and len(command.FAULTS) == 4
    one, same, other = (planned(seed, kinds, (1.0, 2.0)) for seed in (5, 5, 6))
    first = [next(one) for _ in range(3 * len(kinds))]
    assert first == [next(same) for _ in first] != [next(other) for _ in first]
    assert sorted(fault.kind for fault in first[: len(kinds)]) == kinds
