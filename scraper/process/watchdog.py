"""A worker process watching itself, from two plain threads: what it cannot recover from, it ends
for, and says why.

    it sees                                                     it does
    ---------------------------------------------------------   -----------------------------------
    the event loop, or the consumer of queues, stands still     writes all threads' stacks, quits
                                                                with code 1
    PostgreSQL is away for longer than `away_s`                 ends warmly with code 3
    the database is at another revision than this program       the same
    its beat child died                                         finishes its batches and ends with
                                                                code 75, to be started again
    it has grown larger than `memory_max_mb`                    the same, once it has done some work
    it was told to end, and does not                            quits (`scraper.process.shutdown`)

`decide` is the policy, and pure. Leases bring back what a process that quits had in its hands. It
cannot see a thread that holds the interpreter's lock for good: only a supervisor can, by its signs
of life (`scraper.process.heartbeat`). They cease before it quits by itself; a supervisor that waits
for a minute or two finds the stacks in the log.
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
from scraper.errors import RESTART_CODE
from scraper.infra import migrations, outages
from scraper.process import current_worker, heartbeat
from scraper.process.shutdown import quit_now, shutdown
from scraper.settings import Settings

log = structlog.get_logger()

TICK_S = 1.0
# With so long between two ticks the whole process stood still (a suspended machine), so that
# silence proves nothing.
FROZEN_S = 5.0
# It is longer than any one wait of the consumer: reconnecting gives a sign each second, and
# commands have a timeout.
CONSUMER_SILENT_S = 60.0
LOOP_SILENT_MIN_S = 30.0
# A process whose limit is below its size, or whose beat dies at once, lives at least so long
# between two starts.
LIFE_MIN_S = 10.0
# A loop or consumer that was silent for longer is not well.
SIGN_S = 15.0
# The database is probed so often while it answers.
PROBE_S = 30.0
# It is probed at least so often while it does not answer.
PROBE_MAX_S = 15.0


class Action(Enum):
    QUIT = "quit"
    END = "end"
    RESTART = "restart"


@dataclass(frozen=True)
class Health:
    """A process at one moment. Silences are those that it was awake for: a process that was frozen
    knows of none. `revision`: the database's, where it is not this program's. `tasks`: begun since
    the process started."""

    life_s: float
    loop_silent_s: float = 0.0
    consumer_silent_s: float = 0.0
    postgres_away_s: float = 0.0
    broker_away_s: float = 0.0
    revision: str | None = None
    beat_died: bool = False
    rss_mb: float = 0.0
    tasks: int = 0

    @property
    def well(self) -> bool:
        """Whether a sign of life may be given: neither loop nor consumer stands still."""
        return self.loop_silent_s <= SIGN_S and self.consumer_silent_s <= SIGN_S


@dataclass(frozen=True)
class Order:
    action: Action
    why: str
    code: int


def decide(health: Health, settings: Settings) -> Order | None:
    """What is to be done about a process in that state; None: nothing."""
    loop_s, consumer_s = health.loop_silent_s, health.consumer_silent_s
    if loop_s > max(LOOP_SILENT_MIN_S, 2 * settings.lease_s):
        return Order(Action.QUIT, f"the event loop stands still for {loop_s:.0f} s", 1)
    if consumer_s > CONSUMER_SILENT_S:
        return Order(Action.QUIT, f"the consumer of queues stands still for {consumer_s:.0f} s", 1)
    if health.postgres_away_s > settings.away_s:
        why = f"PostgreSQL is away for {health.postgres_away_s:.0f} s: gives up"
        return Order(Action.END, why, 3)
    if health.revision is not None:
        why = f"the database is at revision {health.revision}, not this program's: ends"
        return Order(Action.END, why, 3)
    # A process that starts needs both servers; and one that ends at once would start without end.
    if health.postgres_away_s or health.broker_away_s or health.life_s <= LIFE_MIN_S:
        return None
    if health.beat_died:
        return Order(Action.RESTART, "beat died: ends, to be started again", RESTART_CODE)
    if 0 < settings.memory_max_mb < health.rss_mb and health.tasks:
        why = "grown too large: finishes its batches and ends, to be started again"
        return Order(Action.RESTART, why, RESTART_CODE)
    return None


class Watchdog:
    """`has_consumer`: whether the consumer of queues gives signs of life (not in a pool that runs
    tasks in its thread)."""

    def __init__(self, controller: Any, settings: Settings, *, has_consumer: bool) -> None:
        self._controller = controller
        self._settings = settings
        self._has_consumer = has_consumer
        self._process = psutil.Process()
        self._heartbeat = heartbeat.of_this_process()
        self._began = self._ticked_at = self._awake_since = time.monotonic()
        # The code was loaded with this revision; newer files may lie there by now.
        self._needs = migrations.head()
        self._revision: str | None = None
        self._probe_soon = threading.Event()
        self.consumer_turned_at = self._began

    def start(self) -> None:
        size_mb = self._rss_mb()
        if 0 < self._settings.memory_max_mb < size_mb:
            log.warning(
                "larger than SCRAPER_MEMORY_MAX_MB right after its start: "
                "it will be started anew again and again",
                rss_mb=round(size_mb),
                limit_mb=self._settings.memory_max_mb,
            )
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        threading.Thread(target=self._probe, name="probe", daemon=True).start()

    def probe_now(self) -> None:
        """Somebody met a table that is not there: the revision is read at once."""
        self._probe_soon.set()

    def _watch(self) -> None:
        while True:
            time.sleep(TICK_S)
            now = time.monotonic()
            if now - self._ticked_at > FROZEN_S:
                self._awake_since = now
            self._ticked_at = now
            try:
                self._tick(now)
            except Exception:
                log.exception("the watchdog failed")

    def _tick(self, now: float) -> None:
        health = self._health(now)
        if shutdown.asked:
            # The consumer has stopped, and rightly.
            health = replace(health, consumer_silent_s=0.0)
        if health.well:
            self._heartbeat.beat()
        if shutdown.asked:
            shutdown.enforce_deadlines(now)
            return
        order = decide(health, self._settings)
        if order is not None:
            self._obey(order, health)

    def _health(self, now: float) -> Health:
        awake_s = now - self._awake_since
        consumer_silent_s = min(now - self.consumer_turned_at, awake_s)
        return Health(
            life_s=now - self._began,
            loop_silent_s=min(current_worker.silent_s(), awake_s),
            consumer_silent_s=consumer_silent_s if self._has_consumer else 0.0,
            postgres_away_s=outages.postgres().away_s,
            broker_away_s=outages.broker().away_s,
            revision=self._revision,
            beat_died=self._beat_died(),
            rss_mb=self._rss_mb(),
            tasks=state.all_total_count[0],
        )

    def _obey(self, order: Order, health: Health) -> None:
        match order.action:
            case Action.QUIT:
                sys.stderr.flush()
                faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
                quit_now(order.why, order.code)
            case Action.END:
                server = outages.postgres()
                log.error(
                    order.why, address=server.address, error=server.error, exit_code=order.code
                )
                shutdown.end(order.code)
            case Action.RESTART:
                limit_mb = self._settings.memory_max_mb
                log.warning(
                    order.why,
                    rss_mb=round(health.rss_mb),
                    limit_mb=limit_mb,
                    exit_code=order.code,
                )
                shutdown.end_for_restart()
            case _:
                assert_never(order.action)

    def _beat_died(self) -> bool:
        beat = getattr(self._controller, "beat", None)
        pid = getattr(beat, "pid", None)
        # There is no beat, or it runs in a thread.
        if pid is None:
            return False
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def _rss_mb(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    def _probe(self) -> None:
        """Probes PostgreSQL now and then, since a process without work meets nobody. In a thread of
        its own: a server that hangs holds up nothing else."""
        engine = sa.create_engine(
            self._settings.postgres_url,
            poolclass=NullPool,
            connect_args={"connect_timeout": 5, "application_name": "scraper watchdog"},
        )
        backoff_s = 1.0
        while True:
            self._probe_soon.wait(PROBE_S if not outages.postgres().away_s else backoff_s)
            self._probe_soon.clear()
            self._read_revision(engine)
            backoff_s = min(backoff_s * 2, PROBE_MAX_S) if outages.postgres().away_s else 1.0

    def _read_revision(self, engine: sa.Engine) -> None:
        query = sa.text("SELECT version_num FROM alembic_version")
        try:
            with (
                outages.postgres().watching(outages.postgres_away),
                engine.connect() as connection,
            ):
                revision = connection.execute(query).scalar()
            self._revision = str(revision) if revision != self._needs else None
        except Exception as error:
            if outages.schema_changed(error):
                self._revision = "nothing"
            elif not outages.postgres_away(error):
                log.exception("the watchdog cannot look at the database")


_watchdog: Watchdog | None = None


def start(controller: Any, *, every: Callable[[float, Callable[[], None]], object] | None) -> None:
    """Watches this process from now on. `every(seconds, call)` calls from the consumer's own loop;
    None: it has none."""
    global _watchdog
    _watchdog = Watchdog(controller, settings_module.load(), has_consumer=every is not None)
    if every is not None:
        every(TICK_S, consumer_turned)
    _watchdog.start()


def consumer_turned() -> None:
    """The consumer of queues gives a sign of life."""
    if _watchdog is not None:
        _watchdog.consumer_turned_at = time.monotonic()


def schema_suspected() -> None:
    """Somebody met a table or column that is not there."""
    if _watchdog is not None:
        _watchdog.probe_now()
