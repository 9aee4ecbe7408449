"""A worker process watching itself, from two plain threads: what it cannot recover from, it ends
for, and says why.

    it sees                                                     it does
    ---------------------------------------------------------   ------------------------------------------------------
    the event loop, or the consumer of queues, stands still     writes all threads' stacks, quits with code 1
    PostgreSQL is away for longer than `away_s`                 ends warmly with code 3
    the database is at another revision than this program       the same
    its beat child died                                         starts anew in the same pid
    it has grown larger than `memory_max_mb`                    the same, once it has done some work
    it was told to end, and does not                            quits (see `scraper.process.shutdown`)

`judged` is the policy, and pure. Leases bring back what a process that quits had in its hands. It
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
from scraper.infra import migrations, outages
from scraper.process import heartbeat, worker_of_process
from scraper.process.shutdown import ending, quit_now
from scraper.settings import Settings

log = structlog.get_logger()

TICK_S = 1.0
FROZEN_S = (
    # between two ticks: the whole process stood still (a suspended machine), so nothing is proven
    # by silence
    5.0
)
CONSUMER_SILENT_S = (
    # longer than any one wait of it: reconnecting gives a sign each second, commands have a timeout
    60.0
)
LOOP_SILENT_MIN_S = 30.0
# between two starts of a process whose limit is below its size
LIFE_MIN_S = 10.0
# a loop or consumer that was silent for longer is not well
SIGN_S = 15.0
# between two looks at PostgreSQL while it answers
PROBE_S = 30.0
# and while it does not
PROBE_MAX_S = 15.0


class Action(Enum):
    QUIT = "quit"
    END = "end"
    START_ANEW = "start anew"


@dataclass(frozen=True)
class Seen:
    """A process at one moment. Silences are what was seen of them: a process that was frozen knows
    of none."""

    life_s: float
    loop_silent_s: float = 0.0
    consumer_silent_s: float = 0.0
    postgres_away_s: float = 0.0
    broker_away_s: float = 0.0
    # of the database, where it is not this program's
    revision: str | None = None
    beat_died: bool = False
    rss_mb: float = 0.0
    tasks: int = 0  # begun in this life


@dataclass(frozen=True)
class Order:
    action: Action
    why: str
    code: int = 0


def judged(seen: Seen, settings: Settings) -> Order | None:
    """What is to be done about what was seen; None: nothing."""
    if seen.loop_silent_s > max(LOOP_SILENT_MIN_S, 2 * settings.lease_s):
        return Order(Action.QUIT, f"the event loop stands still for {seen.loop_silent_s:.0f} s", 1)
    if seen.consumer_silent_s > CONSUMER_SILENT_S:
        return Order(
            Action.QUIT,
            f"the consumer of queues stands still for {seen.consumer_silent_s:.0f} s",
            1,
        )
    if seen.postgres_away_s > settings.away_s:
        return Order(
            Action.END, f"PostgreSQL is away for {seen.postgres_away_s:.0f} s: gives up", 3
        )
    if seen.revision is not None:
        return Order(
            Action.END, f"the database is at revision {seen.revision}, not this program's: ends", 3
        )
    if seen.postgres_away_s or seen.broker_away_s:
        # a process that starts needs both
        return None
    # one that dies at once would else start without end
    if seen.beat_died and seen.life_s > LIFE_MIN_S:
        return Order(Action.START_ANEW, "beat died: starts anew")
    if (
        settings.memory_max_mb
        and seen.rss_mb > settings.memory_max_mb
        and seen.tasks
        and seen.life_s > LIFE_MIN_S
    ):
        return Order(Action.START_ANEW, "grown too large: finishes its batches and starts anew")
    return None


def well(seen: Seen) -> bool:
    """Whether a sign of life may be given: neither loop nor consumer stands still."""
    return seen.loop_silent_s <= SIGN_S and seen.consumer_silent_s <= SIGN_S


class Watchdog:
    """`consumer`: whether the consumer of queues gives signs of life (not in a pool that runs tasks
    in its thread)."""

    def __init__(self, controller: Any, settings: Settings, *, consumer: bool) -> None:
        self._controller = controller
        self._settings = settings
        self._consumer = consumer
        self._process = psutil.Process()
        self._heartbeat = heartbeat.of_this_process()
        self._began = self._ticked_at = self._awake_since = time.monotonic()
        # of the code as it was loaded; newer files may lie there by now
        self._needs = migrations.head()
        self._revision: str | None = None
        self._look = threading.Event()
        self.consumer_turned_at = self._began

    def start(self) -> None:
        size_mb = self._rss_mb()
        if 0 < self._settings.memory_max_mb < size_mb:
            log.warning(
                "larger than SCRAPER_MEMORY_MAX_MB right after its start: it will start anew again and again",
                rss_mb=round(size_mb),
                limit_mb=self._settings.memory_max_mb,
            )
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        threading.Thread(target=self._probe, name="probe", daemon=True).start()

    def look_now(self) -> None:
        """Somebody met a table that is not there: the revision is read at once."""
        self._look.set()

    def _watch(self) -> None:
        while True:
            time.sleep(TICK_S)
            now = time.monotonic()
            if now - self._ticked_at > FROZEN_S:
                self._awake_since = now
            self._ticked_at = now
            try:
                seen = self._seen(now)
                # the consumer has stopped, and rightly
                if ending.asked:
                    seen = replace(seen, consumer_silent_s=0.0)
                if well(seen):
                    self._heartbeat.beat()
                if ending.asked:
                    ending.pressed_for_time(now)
                    continue
                order = judged(seen, self._settings)
                if order is not None:
                    self._obey(order, seen)
            except Exception:
                log.exception("the watchdog failed")

    def _seen(self, now: float) -> Seen:
        awake_s = now - self._awake_since
        return Seen(
            life_s=now - self._began,
            loop_silent_s=min(worker_of_process.silent_s(), awake_s),
            consumer_silent_s=min(now - self.consumer_turned_at, awake_s)
            if self._consumer
            else 0.0,
            postgres_away_s=outages.postgres().away_s,
            broker_away_s=outages.broker().away_s,
            revision=self._revision,
            beat_died=self._beat_died(),
            rss_mb=self._rss_mb(),
            tasks=state.all_total_count[0],
        )

    def _obey(self, order: Order, seen: Seen) -> None:
        match order.action:
            case Action.QUIT:
                sys.stderr.flush()
                faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
                quit_now(order.why, order.code)
            case Action.END:
                postgres = outages.postgres()
                log.error(
                    order.why, address=postgres.address, error=postgres.error, exit_code=order.code
                )
                ending.end(order.code)
            case Action.START_ANEW:
                log.warning(
                    order.why, rss_mb=round(seen.rss_mb), limit_mb=self._settings.memory_max_mb
                )
                ending.start_anew()
            case _:
                assert_never(order.action)

    def _beat_died(self) -> bool:
        beat = getattr(self._controller, "beat", None)
        pid = getattr(beat, "pid", None)
        # no beat, or one in a thread
        if pid is None:
            return False
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def _rss_mb(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    def _probe(self) -> None:
        """Looks at PostgreSQL now and then, since a process without work meets nobody. In a thread
        of its own: a server that hangs holds up nothing else."""
        engine = sa.create_engine(
            self._settings.postgres_url,
            poolclass=NullPool,
            connect_args={"connect_timeout": 5, "application_name": "scraper watchdog"},
        )
        backoff_s = 1.0
        while True:
            self._look.wait(PROBE_S if not outages.postgres().away_s else backoff_s)
            self._look.clear()
            self._probe_once(engine)
            backoff_s = min(backoff_s * 2, PROBE_MAX_S) if outages.postgres().away_s else 1.0

    def _probe_once(self, engine: sa.Engine) -> None:
        try:
            with outages.postgres().watching(outages.postgres_away), engine.connect() as connection:
                found = connection.execute(
                    sa.text("SELECT version_num FROM alembic_version")
                ).scalar()
            self._revision = str(found) if found != self._needs else None
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
    _watchdog = Watchdog(controller, settings_module.load(), consumer=every is not None)
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
        _watchdog.look_now()
