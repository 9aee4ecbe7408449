"""The worker of this process, and what other parts of the process need from it. It is made for the
first batch. Its modules are imported then, or just before, so that a process is ready sooner.
"""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING

from scraper import settings
from scraper.registry import active_plugins, plugin_hooks, plugin_ticks, resolve

if TYPE_CHECKING:
    from scraper.worker.process import Send, Worker

_making = threading.Lock()
# Keyed by pid: a process that was forked makes its own.
_workers: dict[int, Worker] = {}


def import_ahead(fetches: bool) -> None:
    """Imports the plug-ins' hooks and the modules that the first batch needs, or in a coordinator
    the first crawl and the plug-ins' ticks."""
    plugin_hooks()
    if fetches:
        import scraper.worker.process

        for plugin in active_plugins():
            if plugin.worker is not None:
                resolve(plugin.worker)
    else:
        import scraper.crawl.context
        import scraper.crawl.new_pages  # noqa: F401

        for tick in plugin_ticks():
            resolve(tick.step)
    _spare_the_collector()


def get_worker(send: Send) -> Worker:
    """Returns this process's worker; makes it on the first call."""
    pid = os.getpid()
    worker = _workers.get(pid)
    if worker is None:
        with _making:
            worker = _workers.get(pid)
            if worker is None:
                worker = _workers[pid] = _make_worker(send)
                _spare_the_collector()
    return worker


def _make_worker(send: Send) -> Worker:
    # This imports most of the package.
    from scraper.worker.process import Worker

    return Worker(settings.load(), send)


def _spare_the_collector() -> None:
    """Takes loaded modules, which stay, out of garbage collections, and makes these rare. A
    collection before would take 0.1 s and find twenty objects."""
    gc.freeze()
    collect_rarely()


def collect_rarely() -> None:
    """Makes garbage collections rare. Pages leave hardly any cycles, but a collection after each
    700 new objects, Python's default, took 40 us a page."""
    gc.set_threshold(50_000, 20, 20)


def close_worker() -> None:
    """Closes this process's worker, if there is one, at the end of the process."""
    worker = _workers.pop(os.getpid(), None)
    if worker is not None:
        worker.close()


def stop_worker() -> None:
    """Asks this process's worker, if there is one, to stop."""
    worker = _workers.get(os.getpid())
    if worker is not None:
        worker.stop()


def lost_pages() -> int:
    """Returns how many pages this process could neither store nor hand back since `stop_worker`."""
    worker = _workers.get(os.getpid())
    return worker.lost if worker is not None else 0


def silent_s() -> float:
    """Returns the seconds since this process's event loop last turned; 0 without a loop."""
    worker = _workers.get(os.getpid())
    return worker.silent_s if worker is not None else 0.0
