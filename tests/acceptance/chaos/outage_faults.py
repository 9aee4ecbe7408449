"""Faults of what the fleet depends on: Redis, PostgreSQL, and the shop. Each undoes what it broke, a
few seconds later."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

import psycopg

from tests.acceptance.chaos.faults import Fault

REST_S = 3.0
CUT = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'scraper%'"


# --- Redis
# -----------------------------------------------------------------------------------------------------------


class RedisFault(Fault):
    resource = "redis"

    def again_after(self, end: Callable[[], None]) -> None:
        seconds = self.down_s()
        self.say(f"away for {seconds:.1f} s")
        with self.rig.disorder.of("redis"):
            end()
            time.sleep(seconds)
            self.rig.servers.up("valkey")
        self.injected.ended = time.time()


class RedisKilled(RedisFault):
    kind = "redis_killed"

    def inject(self) -> None:
        self.again_after(lambda: self.rig.servers.kill("valkey"))


class RedisRestarted(RedisFault):
    kind = "redis_restarted"

    def inject(self) -> None:
        self.again_after(lambda: self.rig.servers.end("valkey", signal.SIGTERM))


class RedisFrozen(RedisFault):
    kind = "redis_frozen"

    def inject(self) -> None:
        seconds = self.down_s() + 2
        self.say(f"hangs for {seconds:.1f} s")
        with self.rig.disorder.of("redis"):
            self.rig.servers.pause("valkey", seconds)


class RedisEmptied(RedisFault):
    kind = "redis_emptied"

    def inject(self) -> None:
        with self.rig.servers.valkey() as client:
            keys = client.dbsize()
            client.flushall()
        self.say(f"FLUSHALL, {keys} keys")


# --- PostgreSQL
# ------------------------------------------------------------------------------------------------------


class PostgresFault(Fault):
    resource = "postgres"

    def again_after(self, end: Callable[[], None]) -> None:
        seconds = self.down_s()
        self.say(f"away for {seconds:.1f} s")
        with self.rig.disorder.of("postgres"):
            end()
            time.sleep(seconds)
            self.rig.servers.up("postgres")
        self.injected.ended = time.time()


class PostgresKilled(PostgresFault):
    kind = "postgres_killed"

    def inject(self) -> None:
        self.again_after(lambda: self.rig.servers.kill("postgres"))


class PostgresCrashed(PostgresFault):
    """The immediate shutdown: it recovers from its log at the next start."""

    kind = "postgres_crashed"

    def inject(self) -> None:
        self.again_after(lambda: self.rig.servers.end("postgres", signal.SIGQUIT))


class PostgresRestarted(PostgresFault):
    kind = "postgres_restarted"

    def inject(self) -> None:
        self.again_after(lambda: self.rig.servers.end("postgres", signal.SIGINT))


class PostgresFrozen(PostgresFault):
    kind = "postgres_frozen"

    def inject(self) -> None:
        seconds = self.down_s()
        self.say(f"hangs for {seconds:.1f} s")
        with self.rig.disorder.of("postgres"):
            self.rig.servers.pause("postgres", seconds)


class ConnectionsCut(PostgresFault):
    kind = "connections_cut"

    def inject(self) -> None:
        times = self.dice.randint(1, 3)
        cut = 0
        for _ in range(50):
            if cut and times <= 0:
                break
            times -= 1
            with self.rig.servers.connect() as connection:
                row = connection.execute(CUT).fetchone()
            cut += int(str(row[0])) if row else 0
            time.sleep(0.5)
        self.say(f"{cut}")


class PoolExhausted(PostgresFault):
    """This fault takes every connection that the server allows, the reserved ones included, for some
    seconds."""

    kind = "pool_exhausted"

    def inject(self) -> None:
        seconds = self.down_s() + 1
        taken: list[psycopg.Connection[tuple[object, ...]]] = []
        with self.rig.disorder.of("postgres"):
            try:
                taken.append(self.rig.servers.connect())
                over = time.monotonic() + seconds
                most = 0
                while time.monotonic() < over:
                    taken[0].execute(CUT)
                    with suppress(psycopg.OperationalError):
                        while True:
                            taken.append(self.rig.servers.connect())
                    if not most:
                        self.say(f"{len(taken)} connections for {seconds:.1f} s")
                    most = max(most, len(taken))
                    time.sleep(0.1)
            finally:
                for connection in taken:
                    connection.close()
        self.injected.ended = time.time()


# --- the shop
# --------------------------------------------------------------------------------------------------------


class ShopFault(Fault):
    resource = "shop"
    outage: ClassVar[str]

    def inject(self) -> None:
        seconds = self.dice.uniform(1.5, 5)
        self.say(f"for {seconds:.1f} s")
        with self.rig.disorder.of("shop") as outage:
            try:
                self.rig.shop.options(outage=self.outage)
                self.rig.wait(seconds)
            finally:
                self.rig.shop.options(outage=None)
        # Requests that hang do so until the client gives up; a host that failed rests for as long
        # again.
        lasts = self.rig.times.read_timeout_s if self.outage == "hang" else seconds
        self.injected.ended = time.time()
        outage.ended = self.injected.ended + lasts + REST_S


class ShopHangs(ShopFault):
    kind, outage = "shop_hangs", "hang"


class ShopResets(ShopFault):
    kind, outage = "shop_resets", "reset"


class Shop500(ShopFault):
    kind, outage = "shop_500", "500"


class Shop503(ShopFault):
    kind, outage = "shop_503", "503"
