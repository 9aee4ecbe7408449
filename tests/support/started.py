"""Processes: what this one has started, and whether one has ended."""

from __future__ import annotations

from contextlib import suppress

import psutil


def find_started(words: str) -> list[psutil.Process]:
    """The processes that this one has started, and what they have started, that run and have `words`
    in their command line."""
    found = []
    for process in psutil.Process().children(recursive=True):
        # A process that has ended since has no command line.
        with suppress(psutil.NoSuchProcess):
            if words in " ".join(process.cmdline()):
                found.append(process)
    return found


def has_ended(process: psutil.Process) -> bool:
    """Whether it is gone, or waits for its parent to take note."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
