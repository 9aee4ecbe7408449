"""Ends a process once its parent has ended, for any reason."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from scraper import settings


def end_with_command(**_: object) -> None:
    """Ends this process, as SIGTERM does, once the command that started it for itself has ended,
    for any reason."""
    parent = settings.ends_with()
    if parent is not None:
        watch_parent(parent, lambda: os.kill(os.getpid(), signal.SIGTERM))


def watch_parent(parent: int, end: Callable[[], None]) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        end()

    threading.Thread(target=watch, name="parent", daemon=True).start()
