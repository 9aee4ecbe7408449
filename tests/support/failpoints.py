"""Points of failure between any two statements of a step, in a process that imports this module
(`celery worker -I tests.support.failpoints`).

`FAILPOINTS` names a folder. A file `STEP-NUMBER-KIND` arms a point there. The process that reaches
the point removes the file and fails: `crash` kills it, `error` loses its connection. A file
`STEP-NUMBER` says that the point was reached.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import celery
import psycopg
import redis
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from scraper.coordinator.dispatch import dispatch
from scraper.coordinator.finish import finish
from scraper.coordinator.reap import reap
from scraper.runtime.send import send
from scraper.worker.commit import Settler
from scraper.worker.keeper import Claims

KINDS = ("crash", "error")
STEPS: dict[CodeType, str] = {
    Claims._try_claim.__code__: "claim",
    Settler._settle_group.__code__: "settle",
    dispatch.__code__: "dispatch",
    finish.__code__: "finish",
    reap.__code__: "reap",
    send.__code__: "publish",
}
_reached = threading.local()


def reach(lose: Callable[[], None]) -> None:
    """Counts a point of the step that calls, if any, and fails there if it is armed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in STEPS:
        frame = frame.f_back
    if frame is None:
        return
    is_same = getattr(_reached, "frame", None) is frame
    _reached.frame = frame
    _reached.number = _reached.number + 1 if is_same else 1
    point = Path(os.environ["FAILPOINTS"]) / f"{STEPS[frame.f_code]}-{_reached.number}"
    point.touch()
    for kind in KINDS:
        try:
            point.with_name(f"{point.name}-{kind}").unlink()
        except FileNotFoundError:
            continue
        if kind == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        lose()


def _before_statement(connection: sa.Connection, *_: Any) -> None:
    driver: Any = connection.connection.driver_connection
    reach(driver.pgconn.finish)


def _lose_reply() -> None:
    raise psycopg.OperationalError("server closed the connection unexpectedly")


def _lose_broker() -> None:
    raise redis.exceptions.ConnectionError("Connection closed by server.")


def _around(method: Callable[..., Any], lose: Callable[[], None]) -> Callable[..., Any]:
    """The method with a point before it, and one after it."""

    def run(*args: Any, **options: Any) -> Any:
        reach(lose)
        result = method(*args, **options)
        reach(lose)
        return result

    return run


if "FAILPOINTS" in os.environ:
    sa.event.listen(sa.engine.Engine, "before_cursor_execute", _before_statement)
    PGDialect_psycopg.do_commit = _around(PGDialect_psycopg.do_commit, _lose_reply)  # type: ignore[method-assign]
    celery.Celery.send_task = _around(celery.Celery.send_task, _lose_broker)
