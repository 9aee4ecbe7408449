"""What processes cost: CPU time with their ended children, peak memory, and the cores they may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Set
from types import TracebackType

import psutil

SAMPLE_S = 0.25


def cpu_s(pid: int) -> float:
    """User and system time so far of a process and its descendants, all threads, the ended ones
    included."""
    total = 0.0
    for process in family(pid):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def cores() -> list[int]:
    """The cores we may use; one that has no number where the system cannot say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else [0]


def pin(pid: int, chosen: Set[int]) -> None:
    """Keeps a process, its threads and whatever it starts later on these cores, where the system
    allows it."""
    if hasattr(os, "sched_setaffinity"):
        for thread in psutil.Process(pid).threads():
            os.sched_setaffinity(thread.id, chosen)


class PeakMemory:
    """The largest sum, over some processes and their descendants, of memory held: shared pages
    count once in all (PSS), where the system says, else once a process (RSS). Sampled four times a
    second."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.bytes = 0
        self._pids = list(pids)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peak-memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.bytes = max(
                self.bytes, sum(_held(process) for pid in self._pids for process in family(pid))
            )
            if self._ended.wait(SAMPLE_S):
                return


def _held(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", 0) or full.rss)
    except psutil.AccessDenied:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
