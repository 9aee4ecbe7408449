"""This process's worker, and what others may ask of it. It is made when a batch first comes; what
it is made of is imported then, or just before, so that a process is ready sooner.
"""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING

from scraper import settings

if TYPE_CHECKING:
    from scraper.infra.meters import WorkerMeters
    from scraper.infra.metrics_endpoint import Target
    from scraper.worker.process import Send, Worker

_making = threading.Lock()
_current: dict[int, Worker] = {}
_targets: dict[int, Target] = {}


def prepare(fetches: bool) -> None:
    """Imports what the first batch would have to wait for, or in a coordinator the first crawl."""
    if fetches:
        import scraper.worker.process
    else:
        import scraper.crawl.context
        import scraper.crawl.new_pages  # noqa: F401
    _spare_the_collector()


def current(send: Send) -> Worker:
    """This process's worker, made on the first call."""
    pid = os.getpid()
    worker = _current.get(pid)
    if worker is None:
        from scraper.worker.process import Worker

        with _making:
            worker = _current.get(pid)
            if worker is None:
                worker = _current[pid] = Worker(settings.load(), send, meters := _meters())
                if meters is not None:
                    _serve(worker, meters)
                _spare_the_collector()
    return worker


def _meters() -> WorkerMeters | None:
    """None, and nothing imported, where nobody asked for a port."""
    if settings.load().metrics_port is None:
        return None
    from scraper.infra.meters import WorkerMeters

    return WorkerMeters()


def _serve(worker: Worker, meters: WorkerMeters) -> None:
    from scraper.infra import metrics_endpoint

    meters.watch(
        batches=lambda: worker.batches,
        silent_s=lambda: worker.silent_s,
        archived=lambda: worker.archived,
    )
    target = metrics_endpoint.serve_worker(settings.load(), meters.registry)
    if target is not None:
        _targets[os.getpid()] = target


def _spare_the_collector() -> None:
    """What is loaded by now stays, and pages leave hardly a cycle behind: looking through all of it
    after each 700 new objects, as Python does by default, took 40 us a page."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def close() -> None:
    """Closes this process's worker, if there is one: the last thing before the process ends."""
    worker = _current.pop(os.getpid(), None)
    target = _targets.pop(os.getpid(), None)
    if target is not None:
        target.close()
    if worker is not None:
        worker.close()


def stop() -> None:
    """Tells this process's worker, if there is one, that it is to stop."""
    worker = _current.get(os.getpid())
    if worker is not None:
        worker.stop()


def lost() -> int:
    """Pages that this process could neither store nor hand back since it was told to stop."""
    worker = _current.get(os.getpid())
    return worker.lost if worker is not None else 0


def silent_s() -> float:
    """Seconds since this process's loop last turned; 0 where there is none."""
    worker = _current.get(os.getpid())
    return worker.silent_s if worker is not None else 0.0
