"""Watches its own worker process from two plain threads, and ends it, with a reason, for what it
cannot recover from.

    it sees                                                     it does
    ---------------------------------------------------------   -----------------------------------
    the event loop, or the consumer of queues, does not turn    writes all threads' stacks, quits
                                                                with code 1
    PostgreSQL is away for longer than `away_s`                 ends warmly with code 3
    the database is at a revision that this program cannot use  the same
    its beat child died                                         finishes its batches and ends with
                                                                code 75, to be started again
    it has grown larger than `memory_max_mb`                    the same, once it has done some work
    it was asked to end, and does not                           quits (`scraper.process.shutdown`)

`decide` is the policy, and pure. The pages of a process that quits come back with their leases. The
watchdog cannot see a thread that holds the interpreter's lock for good: only a supervisor can, by
the heartbeat (`scraper.process.heartbeat`), which stops before the process quits by itself. A
supervisor that waits for a minute or two finds the stacks in the log.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, assert_never

import psutil
import sqlalchemy as sa
import structlog
from celery.worker import state
from sqlalchemy.pool import NullPool

from scraper import settings as settings_module
from scraper.errors import RESTART_CODE, ServerUnavailableError
from scraper.infra import migrations, outages
from scraper.infra.database import watch_engine
from scraper.process import current_worker, heartbeat
from scraper.process.shutdown import quit_now, shutdown
from scraper.settings import Settings

log = structlog.get_logger()

TICK_S = 1.0
# After such a gap between two ticks the whole process was frozen (a suspended machine), and silence
# proves nothing.
FROZEN_S = 5.0
# This is longer than any one wait of the consumer: while it reconnects it turns each second, and
# commands have a timeout.
CONSUMER_SILENT_S = 60.0
LOOP_SILENT_MIN_S = 30.0
# A process whose limit is below its size, or whose beat dies at once, lives at least this long
# between two starts.
LIFE_MIN_S = 10.0
# A loop or consumer that was silent for longer is not healthy.
HEALTHY_SILENCE_S = 15.0
# The interval between two probes of a database that answers.
PROBE_S = 30.0
# The longest interval between two probes of a database that does not answer.
PROBE_MAX_S = 15.0


class Action(Enum):
    QUIT = "quit"
    END = "end"
    RESTART = "restart"


@dataclass(frozen=True)
class ProcessHealth:
    """A process at one moment. Silences exclude the time that it was frozen. `mismatch`
    says why the database's revision cannot be used; `tasks` counts those begun since the start."""

    life_s: float
    loop_silent_s: float = 0.0
    consumer_silent_s: float = 0.0
    postgres_away_s: float = 0.0
    broker_away_s: float = 0.0
    mismatch: str | None = None
    beat_died: bool = False
    rss_mb: float = 0.0
    tasks: int = 0

    @property
    def is_healthy(self) -> bool:
        """Loop and consumer turn, so the heartbeat may go on."""
        return max(self.loop_silent_s, self.consumer_silent_s) <= HEALTHY_SILENCE_S


@dataclass(frozen=True)
class Order:
    action: Action
    reason: str
    code: int


def make_probe_engine(url: str) -> sa.Engine:
    """Returns an engine that keeps no connection."""
    options = {"connect_timeout": 5, "application_name": "scraper watchdog"}
    engine = sa.create_engine(url, poolclass=NullPool, connect_args=options)
    watch_engine(engine)
    return engine


def decide(health: ProcessHealth, settings: Settings) -> Order | None:
    """Returns what to do about a process in that state; None for nothing."""
    loop_s, consumer_s = health.loop_silent_s, health.consumer_silent_s
    if loop_s > max(LOOP_SILENT_MIN_S, 2 * settings.lease_s):
        return Order(Action.QUIT, f"the event loop has not turned for {loop_s:.0f} s", 1)
    if consumer_s > CONSUMER_SILENT_S:
        reason = f"the consumer of queues has not turned for {consumer_s:.0f} s"
        return Order(Action.QUIT, reason, 1)
    if health.postgres_away_s > settings.away_s:
        reason = f"PostgreSQL has been away for {health.postgres_away_s:.0f} s: gives up"
        return Order(Action.END, reason, 3)
    if health.mismatch is not None:
        return Order(Action.END, f"{health.mismatch}: ends", 3)
    # A new process would need both servers, and one that ends at once would restart without end.
    if health.postgres_away_s or health.broker_away_s or health.life_s <= LIFE_MIN_S:
        return None
    if health.beat_died:
        return Order(Action.RESTART, "beat died: ends, to be started again", RESTART_CODE)
    if 0 < settings.memory_max_mb < health.rss_mb and health.tasks:
        reason = "grown too large: finishes its batches and ends, to be started again"
        return Order(Action.RESTART, reason, RESTART_CODE)
    return None


class Watchdog:
    """Checks the process each second. `has_consumer` is false in a pool that runs tasks in the
    consumer's thread, where its silence proves nothing."""

    def __init__(self, controller: Any, settings: Settings, *, has_consumer: bool) -> None:
        self._controller = controller
        self._settings = settings
        self._has_consumer = has_consumer
        self._process = psutil.Process()
        self._heartbeat = heartbeat.process_heartbeat()
        self._began = self._ticked_at = self._awake_since = time.monotonic()
        # The code was loaded with this revision; the files may be newer by now.
        self._needed = {history: history.head() for history in migrations.histories()}
        self._newer: dict[str, str] = {}
        self._mismatch: str | None = None
        self._probe_soon = threading.Event()
        self.consumer_turned_at = self._began

    def start(self) -> None:
        size_mb = self._rss_mb()
        if 0 < self._settings.memory_max_mb < size_mb:
            log.warning(
                "larger than SCRAPER_MEMORY_MAX_MB right after its start: will restart repeatedly",
                rss_mb=round(size_mb),
                limit_mb=self._settings.memory_max_mb,
            )
        threading.Thread(target=self._watch_process, name="watchdog", daemon=True).start()
        threading.Thread(target=self._probe_database, name="probe", daemon=True).start()

    def probe_now(self) -> None:
        """Reads the database's revision at once."""
        self._probe_soon.set()

    def _watch_process(self) -> None:
        while True:
            time.sleep(TICK_S)
            now = time.monotonic()
            if now - self._ticked_at > FROZEN_S:
                self._awake_since = now
            self._ticked_at = now
            try:
                self._check_health(now)
            except Exception:
                log.exception("the watchdog failed")

    def _check_health(self, now: float) -> None:
        health = self._measure_health(now)
        if shutdown.is_requested:
            # The consumer is expected to have stopped.
            health = replace(health, consumer_silent_s=0.0)
        if health.is_healthy:
            self._heartbeat.beat()
        if shutdown.is_requested:
            shutdown.enforce_deadlines(now)
            return
        order = decide(health, self._settings)
        if order is not None:
            self._execute_order(order, health)

    def _measure_health(self, now: float) -> ProcessHealth:
        awake_s = now - self._awake_since
        consumer_silent_s = min(now - self.consumer_turned_at, awake_s)
        return ProcessHealth(
            life_s=now - self._began,
            loop_silent_s=min(current_worker.silent_s(), awake_s),
            consumer_silent_s=consumer_silent_s if self._has_consumer else 0.0,
            postgres_away_s=outages.postgres().away_s,
            broker_away_s=outages.broker().away_s,
            mismatch=self._mismatch,
            beat_died=self._has_beat_died(),
            rss_mb=self._rss_mb(),
            tasks=state.all_total_count[0],
        )

    def _execute_order(self, order: Order, health: ProcessHealth) -> None:
        match order.action:
            case Action.QUIT:
                sys.stderr.flush()
                faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
                quit_now(order.reason, order.code)
            case Action.END:
                server = outages.postgres()
                log.error(
                    order.reason, address=server.address, error=server.error, exit_code=order.code
                )
                shutdown.end(order.code)
            case Action.RESTART:
                limit_mb = self._settings.memory_max_mb
                log.warning(
                    order.reason,
                    rss_mb=round(health.rss_mb),
                    limit_mb=limit_mb,
                    exit_code=order.code,
                )
                shutdown.end_for_restart()
            case _:
                assert_never(order.action)

    def _has_beat_died(self) -> bool:
        beat = getattr(self._controller, "beat", None)
        pid = getattr(beat, "pid", None)
        # This process has no beat, or it runs in a thread.
        if pid is None:
            return False
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def _rss_mb(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    def _probe_database(self) -> None:
        """Probes PostgreSQL now and then, since an idle process would not notice an outage. Has a
        thread of its own: a server that hangs holds up nothing else."""
        engine, backoff_s = make_probe_engine(self._settings.postgres_url), 1.0
        while True:
            self._probe_soon.wait(PROBE_S if not outages.postgres().away_s else backoff_s)
            self._probe_soon.clear()
            self._probe_revisions(engine)
            backoff_s = min(backoff_s * 2, PROBE_MAX_S) if outages.postgres().away_s else 1.0

    def _probe_revisions(self, engine: sa.Engine) -> None:
        try:
            with (
                outages.postgres().watching(outages.is_postgres_away),
                engine.connect() as connection,
            ):
                self._check_revisions(connection)
        except Exception as error:
            if not outages.is_postgres_away(error):
                log.exception("the watchdog could not read the database's revision")

    def _check_revisions(self, connection: sa.Connection) -> None:
        newer = {}
        try:
            for history, needed in self._needed.items():
                if revision := migrations.read_newer(connection, history, needed):
                    newer[history.name] = revision
            self._mismatch = None
        except ServerUnavailableError as error:
            self._mismatch = str(error).partition("\n")[0]
            return
        if newer and newer != self._newer:
            log.info("the database is newer than this program, and compatible", revisions=newer)
        self._newer = newer


_watchdog: Watchdog | None = None


def start(controller: Any, *, every: Callable[[float, Callable[[], None]], object] | None) -> None:
    """Watches this process from now on. `every(seconds, call)` calls from the consumer's own loop;
    None if it has none."""
    global _watchdog
    _watchdog = Watchdog(controller, settings_module.load(), has_consumer=every is not None)
    if every is not None:
        every(TICK_S, record_consumer_turn)
    _watchdog.start()


def record_consumer_turn() -> None:
    """Records that the consumer of queues turns."""
    if _watchdog is not None:
        _watchdog.consumer_turned_at = time.monotonic()


def suspect_schema() -> None:
    """Records that a statement met a missing table or column."""
    if _watchdog is not None:
        _watchdog.probe_now()
