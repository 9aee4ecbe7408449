"""This process's one worker, and what other parts of the process may ask of it. It is made when a
batch first comes. What it is made of is imported then, or just before, so that a process is ready
sooner.
"""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING

from scraper import settings

if TYPE_CHECKING:
    from scraper.worker.process import Send, Worker

_making = threading.Lock()
# Keyed by pid: a process that was forked makes its own.
_workers: dict[int, Worker] = {}


def import_ahead(fetches: bool) -> None:
    """Imports what the first batch would have to wait for, or in a coordinator the first crawl."""
    if fetches:
        import scraper.worker.process
    else:
        import scraper.crawl.context
        import scraper.crawl.new_pages  # noqa: F401
    _spare_the_collector()


def get(send: Send) -> Worker:
    """This process's worker, made on the first call."""
    pid = os.getpid()
    worker = _workers.get(pid)
    if worker is None:
        with _making:
            worker = _workers.get(pid)
            if worker is None:
                worker = _workers[pid] = _make(send)
                _spare_the_collector()
    return worker


def _make(send: Send) -> Worker:
    # It is most of what there is to import.
    from scraper.worker.process import Worker

    return Worker(settings.load(), send)


def _spare_the_collector() -> None:
    """What is loaded by now stays, and pages leave hardly a cycle behind: looking through all of it
    after each 700 new objects, as Python does by default, took 40 us a page."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def close() -> None:
    """Closes this process's worker, if there is one: the last thing before the process ends."""
    worker = _workers.pop(os.getpid(), None)
    if worker is not None:
        worker.close()


def stop() -> None:
    """Tells this process's worker, if there is one, that it is to stop."""
    worker = _workers.get(os.getpid())
    if worker is not None:
        worker.stop()


def lost_pages() -> int:
    """Pages that this process could neither store nor hand back since it was told to stop."""
    worker = _workers.get(os.getpid())
    return worker.lost if worker is not None else 0


def silent_s() -> float:
    """Seconds since this process's loop last turned; 0 where there is none."""
    worker = _workers.get(os.getpid())
    return worker.silent_s if worker is not None else 0.0
