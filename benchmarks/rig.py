"""The place of a benchmark: embedded servers in a folder of their own, the shop, cores for each
side, and the truth.

Contenders have one core to themselves; the shop, PostgreSQL, Valkey and the process that measures share the
others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import redis

from benchmarks import truth
from benchmarks.cost import cores, cpu_s, pin
from benchmarks.definition import FIELDS, definition
from benchmarks.large import pages as large
from benchmarks.large.definition import definition as large_definition
from benchmarks.large.shop import write_certificate
from scraper import settings
from scraper.plugins.demo.catalogue import Catalogue
from scraper.plugins.embedded import servers as embedded
from scraper.runtime import fleet
from scraper.settings import Settings

ROOT = Path(__file__).parents[1]
NOT_OURS = ("DATABASE_URL", "REDIS_URL", "BROKER_URL", "PROXY_LIST")


@dataclass(frozen=True)
class ServersCpu:
    """CPU seconds so far."""

    postgres: float
    valkey: float
    shop: float

    def since(self, before: ServersCpu) -> dict[str, float]:
        return {
            "postgres_cpu_s": self.postgres - before.postgres,
            "valkey_cpu_s": self.valkey - before.valkey,
            "shop_cpu_s": self.shop - before.shop,
        }


class Rig:
    """Made by `rig()`. `contender_cores[0]` is the contenders' core, `server_cores` the servers'."""

    def __init__(
        self,
        config: Settings,
        shop: subprocess.Popen[str],
        products: int,
        concurrency: int,
        cores: Sequence[int],
        saved: Path | None = None,
    ) -> None:
        """`cores`: all that may be used; this process itself is kept to some of them by now.
        `read`: what is read of the pages, "small" of the sample shop's; of `saved` pages no client
        knows what is on them, so rows are only counted."""
        self.config, self.shop, self.concurrency = config, shop, concurrency
        assert shop.stdout is not None
        self.shop_url = shop.stdout.readline().removeprefix("listening on ").strip()
        self.read, self.saved = "small", saved
        if self.shop_url.startswith("https:"):
            listings = range(1, large.listings(products) + 1)
            self.expected = {f"/p/{number}" for number in range(1, products + 1)}
            self.expected |= {f"/all?page={number}" for number in listings}
            self.pages = len(self.expected)
        else:
            generation = Catalogue(products).at(1)
            self.expected = truth.all_paths(generation)
            self.pages = len(truth.listing_paths(generation) | truth.linked_paths(generation))
        self.truth: dict[str, dict[str, Any]] = {row["id"]: row for row in self.ask("truth")}
        self.servers = {state.name: state.pid or 0 for state in embedded.status(config)}
        self.contender_cores = list(cores)
        self.server_cores = set(cores[1:] or cores)

    @property
    def fields(self) -> Sequence[str]:
        """Those that are compared with the truth."""
        if self.saved is not None:
            return ()
        return FIELDS if self.read == "small" else large.fields_of(self.read)

    def definition(self) -> str:
        if self.read == "small":
            return definition(self.shop_url, self.concurrency)
        saved = self.saved is not None
        return large_definition(self.shop_url, self.concurrency, self.read, saved=saved)

    def choose(self, read: str) -> None:
        """By JSON-LD, the shop has the saved pages alone that have a product in it."""
        self.read = read
        if self.saved is not None:
            self.ask("saved-jsonld" if read == "jsonld" else "saved")

    def ask(self, control: str) -> Any:
        with urllib.request.urlopen(f"{self.shop_url}/_control/{control}", timeout=60) as answer:
            return json.load(answer)

    def fresh(self) -> None:
        """Nothing in Valkey, nothing counted at the shop, and no checkpoint of PostgreSQL's due."""
        self.ask("reset")
        with redis.Redis.from_url(self.config.valkey_url) as client:
            client.flushall()
        with self.admin() as connection:
            connection.execute("CHECKPOINT")

    def servers_cpu(self) -> ServersCpu:
        return ServersCpu(
            cpu_s(self.servers["postgres"]), cpu_s(self.servers["valkey"]), cpu_s(self.shop.pid)
        )

    def admin(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.database("postgres"), autocommit=True)

    def database(self, name: str) -> str:
        """libpq's URL of one database of the embedded server."""
        return self.config.postgres_url.replace("postgresql+psycopg://", "postgresql://").replace(
            "/scraper?", f"/{name}?"
        )

    def log_tail(self, name: str) -> str:
        """The last line that says something in a contender's log."""
        path = fleet.log_path(self.config, name)
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return lines[-1] if lines else "it said nothing"


@contextmanager
def servers(kept: Path | None = None) -> Iterator[Settings]:
    """An embedded PostgreSQL and Valkey in a folder of their own, gone afterwards whatever happens
    in between; in one that is `kept`, only stopped. They have this process's environment.
    """
    with ExitStack() as stack:
        home = (
            str(kept.absolute())
            if kept
            else stack.enter_context(tempfile.TemporaryDirectory(prefix="scraper-bench-"))
        )
        for name in NOT_OURS:
            os.environ.pop(name, None)
        os.environ |= {
            "SCRAPER_HOME": home,
            "SCRAPER_SITES": f"{home}/no-sites",
            "SCRAPER_LOG_LEVEL": "WARNING",
        }
        settings.load.cache_clear()
        config = settings.load()
        stack.callback(embedded.down, config)
        embedded.up(config)
        yield config


@contextmanager
def rig(
    products: int,
    latency_ms: float,
    concurrency: int,
    *,
    size: int | None = None,
    saved: Path | None = None,
) -> Iterator[Rig]:
    """Starts everything and ends it, its own processes alone, whatever happens in between. With a
    `size`, or a folder of `saved` pages, the shop has large pages, over TLS."""
    with ExitStack() as stack:
        every = cores()
        pin(os.getpid(), set(every[1:] or every))  # the servers inherit it
        stack.callback(pin, os.getpid(), set(every))
        config = stack.enter_context(servers())
        command = [
            sys.executable,
            "-m",
            "benchmarks.shop",
            "--products",
            str(products),
            "--latency-ms",
            str(latency_ms),
        ]
        if size or saved:
            certificate = write_certificate(Path(config.home))
            # Each process that is started trusts it.
            os.environ["SSL_CERT_FILE"] = str(certificate)
            stack.callback(os.environ.pop, "SSL_CERT_FILE")
            command = [sys.executable, "-m", "benchmarks.large.shop", "--products", str(products)]
            command += ["--certificate", str(certificate)]
            command += ["--pages", str(saved.absolute())] if saved else ["--size", str(size)]
        shop = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT
        )
        stack.callback(_end, shop)
        yield Rig(config, shop, products, concurrency, every, saved)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
