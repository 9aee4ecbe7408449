"""The harness's own PostgreSQL and Valkey, and the networks to them: started, killed, frozen,
restarted, and when each of them was out of order.

Embedded servers in a home of their own: nothing here ever signals a server that it has not started.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
import redis
import sqlalchemy as sa
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy.pool import NullPool

from scraper.infra import migrations
from scraper.infra.database import watch_engine
from scraper.plugins.embedded import postgres, process, servers, valkey
from scraper.settings import Settings
from tests.support.servers.bad_network import BadNetwork

# how the harness's own connections are named, in PostgreSQL and in Valkey
US = "chaos"
END_S = 15.0


@dataclass(slots=True)
class Interval:
    """Something was out of order from `began` until `ended` (Unix times); None: it still is."""

    what: str
    began: float
    ended: float | None = None


@dataclass
class Disorder:
    """What was out of order, and when: recovery is counted from when nothing is any more."""

    intervals: list[Interval] = field(default_factory=list)

    @contextmanager
    def of(self, what: str) -> Iterator[Interval]:
        interval = Interval(what, time.time())
        self.intervals.append(interval)
        try:
            yield interval
        finally:
            interval.ended = time.time()

    def since(self, moment: float, *whats: str) -> bool:
        """Whether one of `whats` was out of order at or after `moment`."""
        return any(
            i.what in whats and (i.ended is None or i.ended >= moment) for i in list(self.intervals)
        )

    def orderly_s(self, moment: float, until: float, *whats: str) -> float | None:
        """Seconds between the two in which none of `whats` was out of order; None where one was all
        the time."""
        some = [i for i in list(self.intervals) if i.what in whats]
        spans = sorted((i.began, until if i.ended is None else i.ended) for i in some)
        orderly, at = 0.0, moment
        for began, ended in spans:
            if ended > at and began < until:
                orderly += max(0.0, began - at)
                at = min(ended, until)
        orderly += until - at
        return orderly if orderly > 0 or until == moment else None


class Servers:
    """Both servers of one home. `name` is "postgres" or "valkey"."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(home=home)
        alone = {
            "postgres": {"REDIS_URL": self.settings.valkey_url},
            "valkey": {"DATABASE_URL": self.postgres_url},
        }
        self._alone = {
            name: Settings.model_validate({"home": home, **other}) for name, other in alone.items()
        }
        self._lock = threading.Lock()
        self.networks = {
            "postgres": BadNetwork(postgres.socket(self.settings)),
            "redis": BadNetwork(valkey.socket(self.settings)),
        }
        options = {"application_name": US, "connect_timeout": 5}
        self.engine = sa.create_engine(self.postgres_url, poolclass=NullPool, connect_args=options)
        watch_engine(self.engine)

    @property
    def postgres_url(self) -> str:
        return self.settings.postgres_url

    def urls(self) -> dict[str, str]:
        """Those of the environment, through the networks."""
        name = sa.make_url(self.postgres_url).database
        number = self.settings.valkey_url.rpartition("=")[2]
        ports = {name: network.port for name, network in self.networks.items()}
        return {
            "DATABASE_URL": f"postgresql://scraper@127.0.0.1:{ports['postgres']}/{name}",
            "REDIS_URL": f"redis://127.0.0.1:{ports['redis']}/{number}",
        }

    def start(self) -> None:
        servers.up(self.settings)
        migrations.upgrade(self.engine)
        for network in self.networks.values():
            network.__enter__()

    def up(self, name: str) -> None:
        """Starts one server and waits until it answers; the other one is left as it is."""
        servers.up(self._alone[name])

    def kill(self, name: str) -> None:
        servers.kill(self.settings, name)

    def end(self, name: str, number: signal.Signals) -> None:
        """One signal to the server's main process; SIGKILL to all its processes if that is not enough."""
        pid = self.pid(name)
        if pid is not None and not process.end_process(pid, [(number, END_S)]):
            self.kill(name)

    def pause(self, name: str, seconds: float) -> None:
        """SIGSTOP to the server and its children, and SIGCONT after that time: it hangs,
        connections stay open."""
        pid = self.pid(name)
        if pid is None:
            return
        frozen = process.list_family(pid)
        try:
            for each in frozen:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGSTOP)
            time.sleep(seconds)
        finally:
            for each in reversed(frozen):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)

    def pid(self, name: str) -> int | None:
        return next(state.pid for state in servers.status(self.settings) if state.name == name)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        url = self.postgres_url.replace("postgresql+psycopg://", "postgresql://")
        return psycopg.connect(url, autocommit=True, application_name=US, connect_timeout=5)

    def valkey(self) -> redis.Redis:
        url = self.settings.valkey_url
        return redis.Redis.from_url(
            url, client_name=US, socket_timeout=5, retry=Retry(NoBackoff(), 0)
        )

    def stop(self) -> None:
        """Ends both, whatever state they are in. Never fails: it is the teardown."""
        self.engine.dispose()
        for network in self.networks.values():
            with suppress(Exception):
                network.__exit__()
        pids = [pid for name in self._alone if (pid := self.pid(name)) is not None]
        for each in [one for pid in pids for one in process.list_family(pid)]:
            with suppress(psutil.Error, OSError):
                os.kill(each, signal.SIGCONT)
        with suppress(Exception):
            servers.down(self.settings)
        for name in self._alone:
            with suppress(Exception):
                self.kill(name)
