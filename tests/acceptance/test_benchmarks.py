"""`python -m benchmarks` from end to end, small: us and the one peer that needs nothing but what we
need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_ours_and_the_script_side_by_side(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--products", "60", "--only", "ours,script"]
    options = ["--json", str(tmp_path / "runs.json"), "--strict"]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    for title in (
        "this application, first crawl",
        "this application, second crawl",
        "asyncio script",
    ):
        assert title in done.stdout
    told = json.loads((tmp_path / "runs.json").read_text())
    assert [line["name"] for line in told["contenders"]] == ["first", "second", "script"]
    for line in told["contenders"]:
        (run,) = line["runs"]
        assert run["problem"] is None and run["note"] is None, line
        assert run["pages"] == 66 and run["requests"] in (67, 68), (
            "63 products, 3 listings, a redirect; robots.txt"
        )
        assert 0 < line["min"] == line["pages_per_cpu_s"] == line["max"]
        assert run["peak_mb"] > 10 and run["wall_s"] > 0
