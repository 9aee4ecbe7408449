"""Runs pytest, and stops its processes for a moment again and again: `make stalls`.

A test that fails then needs a machine that is never busy, or has met a race. Stopped are a few of
its processes, servers, workers and pytest's own among them, and now and then all of them at once.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

# A stop lasts at least this long; a pause between two stops at most as long as the second.
LEAST_S, PAUSE_MAX_S = 0.05, 1.0
# The share of stops that stop all processes.
ALL_SHARE = 0.07
# The environment variable of all processes that a run starts.
MARK = "SCRAPER_STALLS"


def main(argv: Sequence[str] | None = None) -> int:
    """Returns pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.stalls", description=__doc__)
    parser.add_argument("--longest-s", type=float, default=0.8, help="the longest stop (0.8)")
    parser.add_argument("--seed", type=int, default=1, help="which processes are stopped when")
    options, arguments = parser.parse_known_args(argv)
    rng = random.Random(options.seed)
    mark = f"{os.getpid()} {time.time()}"
    environment = {**os.environ, MARK: mark}
    tests = subprocess.Popen([sys.executable, "-m", "pytest", *arguments], env=environment)
    stops = 0
    while tests.poll() is None:
        processes = _list_running(tests.pid, mark)
        if processes:
            _stop(_choose(rng, processes), rng.uniform(LEAST_S, options.longest_s))
            stops += 1
        time.sleep(rng.uniform(0.1, PAUSE_MAX_S))
    print(f"stopped processes {stops} times, each for up to {options.longest_s:g} s")
    return tests.returncode


def _list_running(pytest_id: int, mark: str) -> list[psutil.Process]:
    """Returns pytest's process and those below it. A process that has outlived its parent, and
    pytest itself, are found by the mark. What a test has stopped itself is left alone."""
    found: set[psutil.Process] = set()
    with suppress(psutil.Error):
        found.update(psutil.Process(pytest_id).children(recursive=True))
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.add(process)
    return sorted(filter(_is_running, found), key=lambda process: process.pid)


def _is_running(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    return False


def _choose(rng: random.Random, processes: list[psutil.Process]) -> list[psutil.Process]:
    if rng.random() < ALL_SHARE:
        return processes
    return rng.sample(processes, min(len(processes), rng.choice((1, 2, 2, 4, 8))))


def _stop(processes: Sequence[psutil.Process], seconds: float) -> None:
    try:
        for process in processes:
            with suppress(psutil.Error):
                process.suspend()
        time.sleep(seconds)
    finally:
        for process in processes:
            with suppress(psutil.Error):
                process.resume()


if __name__ == "__main__":
    raise SystemExit(main())
