"""In which order tests run, and which worker of xdist begins with which.

Xdist gives each worker an equal part of the list, one after the other, and a worker that has done
its part takes half of what another one has left. So each part begins with files of long tests, the
longest before all, and ends with short tests: no worker is left alone with a long one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# Seconds of the longest files in a run of all tests, roughly. Only the order depends on them.
LASTS_S = {
    "test_calls": 180,
    "test_chaos": 180,
    "test_commands": 180,
    "test_new_scripted": 180,
    "test_bad_networks": 170,
    "test_brokers": 170,
    "test_failover": 170,
    "test_odd_shops": 135,
    "test_browser_workers": 130,
    "test_crawls_tab": 120,
    "test_pooler": 120,
    "test_readme": 120,
    "test_rolling_upgrade": 120,
    "test_lies": 115,
    "test_bombs": 100,
    "test_dead": 100,
    "test_recovery": 98,
    "test_compose": 90,
    "test_json_of_each_command": 87,
    "test_plugins_off": 87,
    "test_pooled_crawls": 86,
    "test_processes": 83,
    "test_archive": 78,
    "test_invented_messages": 76,
    "test_clocks": 73,
    "test_picker_tab": 70,
    "test_browser_only": 70,
    "test_crawls_tab_access": 70,
    "test_watch": 60,
    "test_price_alerts": 60,
    "test_fleet": 53,
    "test_dlt": 50,
}
ACCEPTANCE_S = 20


def spread(
    items: Sequence[T], workers: int, file_of: Callable[[T], str], lasts_s: Callable[[T], float]
) -> list[T]:
    """Returns the list of all parts. Items of a file stay next to each other, but where a part is
    full. `lasts_s` is a file's, and 0 for files of short tests, which stay in their order."""
    by_name: dict[str, list[T]] = defaultdict(list)
    for item in items:
        by_name[file_of(item)].append(item)
    files = sorted(by_name.values(), key=lambda file: -lasts_s(file[0]))
    rooms = [
        (len(items) * (n + 1)) // workers - (len(items) * n) // workers for n in range(workers)
    ]
    parts: list[list[T]] = [[] for _ in range(workers)]
    seconds = [0.0] * workers
    for file in files:
        while file:
            free = [n for n in range(workers) if len(parts[n]) < rooms[n]]
            if lasts_s(file[0]):
                chosen = min(free, key=lambda n: seconds[n])
            else:
                chosen = max(free, key=lambda n: rooms[n] - len(parts[n]))
            taken = file[: rooms[chosen] - len(parts[chosen])]
            parts[chosen] += taken
            seconds[chosen] += lasts_s(file[0]) * len(taken) / len(file)
            file = file[len(taken) :]
    return [item for part in parts for item in part]
