"""One run: servers, shops and fleet are started, rounds of a crawl and its faults follow, and
everything is ended again.

    a round    the shop is visited again, a crawl is opened, faults are injected until it has ended or time is over;
               then nothing is injected any more, the crawl has to end, and every check is made

Owns the order of things, the bounds in time, and the end of whatever was started, also after Ctrl-C
or a failing check.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from scraper.plugins.demo import definition
from scraper.plugins.demo.catalogue import Catalogue
from tests.acceptance.chaos import audit, slots
from tests.acceptance.chaos.faults import KINDS, Fault, Planned, planned
from tests.acceptance.chaos.fleet import Fleet
from tests.acceptance.chaos.inspection import Inspection
from tests.acceptance.chaos.patience import waited
from tests.acceptance.chaos.report import Report
from tests.acceptance.chaos.rig import Rig, Times
from tests.acceptance.chaos.servers import Disorder, Servers
from tests.acceptance.chaos.truth import Counted
from tests.acceptance.conftest import SampleShop
from tests.support.servers import forked

SHOP_SEED = 7
READY_S = 90.0
OPEN_S = 180.0
# a crawl may take so long after the last fault
END_S = 150.0
JOIN_S = 120.0
# no fault later than this in a round
ROUND_S = 240.0
# and none shorter than this, however little time is left
AT_LEAST_S = 20.0
# over the time asked for, until every kind had its turn
KINDS_S = 90.0
SAY_EVERY_S = 10.0
LOOK_EVERY_S = 0.5
DEFAULT_LEASE_S, DEFAULT_READ_TIMEOUT_S = 45.0, 20.0
SHORT_READ_TIMEOUT_S = 5.0
CLEARED = ("DATABASE_URL", "REDIS_URL", "BROKER_URL")
ENDED = sa.text("SELECT status NOT IN ('planned', 'running') FROM crawls WHERE id = :id")
PROGRESS = sa.text(
    "SELECT discovery_done + product_done, discovery_total + product_total FROM crawls WHERE id = :id"
)


@dataclass(frozen=True)
class Options:
    """What is asked for. `lease_s` None: the default settings; `hole_s` None: as long as other outages."""

    seed: int
    minutes: float
    products: int
    latency_ms: float
    lease_s: float | None
    hole_s: float | None
    workers: int
    coordinators: int
    kinds: tuple[str, ...]
    keep: bool
    replay: str


class Run:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.began = time.time()
        self.report = Report(
            options.seed, options.replay, options.lease_s or DEFAULT_LEASE_S, self.began
        )
        self.catalogue = Catalogue(options.products, SHOP_SEED)
        self.threads: list[tuple[threading.Thread, Fault]] = []
        self.visit = 1
        hole_s = options.hole_s or 0.0
        self.join_s, self.kinds_s = JOIN_S + hole_s, KINDS_S + 2 * hole_s

    def say(self, text: str) -> None:
        print(f"{time.time() - self.began:7.1f}  {text}", flush=True)

    def all(self) -> Report:
        with ExitStack() as stack:
            self._start(stack)
            inspection = Inspection(self.rig, self.catalogue, self.report)
            plan = planned(self.options.seed, self.options.kinds, self.rig.times.gap_s)
            self.until = time.monotonic() + self.options.minutes * 60
            try:
                while self._round(plan, inspection) and self._goes_on():
                    self.visit += 1
                    self.shop.visit()
            except Exception as error:
                # what was found until then is worth reading
                problem = "".join(traceback.format_exception(error))
                self.report.checks.add("the harness goes on to its end", [problem])
            default = self.options.lease_s is None
            inspection.end(self.sites, self._missing(), wait_for_unacknowledged=default)
        self.report.injected = self.rig.journal
        self.report.seconds = time.time() - self.began
        return self.report

    # --- start and end
    # ------------------------------------------------------------------------------------------------

    def _start(self, stack: ExitStack) -> None:
        """Whatever is started is ended by `stack`, in the opposite order."""
        home = Path(tempfile.mkdtemp(prefix="scraper-chaos-"))
        stack.callback(self._leave, home)
        self.sites, logs = home / "sites", home / "processes"
        for folder in (self.sites, logs):
            folder.mkdir()
        self.say(f"seed {self.options.seed}; home {home}")
        servers, disorder = Servers(home), Disorder()
        stack.callback(servers.stop)
        servers.start()
        audit.install(servers.engine)
        size = ("--products", str(self.options.products), "--seed", str(SHOP_SEED))
        self.shop = SampleShop(*size, "--latency-ms", str(self.options.latency_ms))
        stack.callback(self.shop.stop)
        tick_shop = SampleShop("--products", "10")
        stack.callback(tick_shop.stop)
        (self.sites / "demo.yaml").write_text(definition(self.shop.url))
        slots.write(self.sites, tick_shop.url)
        times = self._environment(home, servers)
        fleet = Fleet(
            logs, self.env, self.options.workers, self.options.coordinators, disorder, self.say
        )
        stack.callback(fleet.kill)
        self.rig = Rig(servers, fleet, self.shop, disorder, times, self.say)
        stack.callback(self._end_faults)
        fleet.start()
        if not (
            waited(fleet.ready, READY_S) and waited(lambda: slots.known(servers.engine), READY_S)
        ):
            said = "\n".join(f"{member.name}:\n{member.said()}" for member in fleet.members)
            raise TimeoutError(f"not everybody is ready after {READY_S:.0f} s:\n{said}")
        self.say(f"{len(fleet.members)} processes are ready")

    def _environment(self, home: Path, servers: Servers) -> Times:
        self.env = {name: value for name, value in os.environ.items() if name not in CLEARED}
        self.env = {
            name: value for name, value in self.env.items() if not name.startswith("SCRAPER_")
        }
        self.env |= {"SCRAPER_HOME": str(home), "SCRAPER_SITES": str(self.sites)}
        self.env |= servers.urls()
        if self.options.lease_s is None:
            return Times(
                DEFAULT_LEASE_S,
                DEFAULT_READ_TIMEOUT_S,
                gap_s=(3.0, 12.0),
                hole_s=self.options.hole_s,
            )
        self.env["SCRAPER_LEASE_S"] = str(self.options.lease_s)
        self.env["SCRAPER_READ_TIMEOUT_S"] = str(SHORT_READ_TIMEOUT_S)
        return Times(self.options.lease_s, SHORT_READ_TIMEOUT_S, hole_s=self.options.hole_s)

    def _end_faults(self) -> None:
        """Faults under way end early: servers are started again, what is frozen goes on."""
        self.rig.over.set()
        for thread, _ in self.threads:
            thread.join(self.join_s)

    def _leave(self, home: Path) -> None:
        if self.options.keep:
            print(f"kept: {home}", flush=True)
        else:
            shutil.rmtree(home, ignore_errors=True)

    # --- a round
    # ------------------------------------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        now = time.monotonic()
        return now < self.until or (bool(self._missing()) and now < self.until + self.kinds_s)

    def _round(self, plan: Iterator[Planned], inspection: Inspection) -> bool:
        """False where the crawl did not end: there can be no other one then."""
        self.shop.forget()
        self.rig.woken.clear()
        crawl_id = self.rig.crawl_id = self._open()
        began = time.monotonic()
        self.say(f"crawl {crawl_id} of {self.options.products} products, visit {self.visit}")
        self._inject(plan, crawl_id, min(began + ROUND_S, max(self.until, began + AT_LEAST_S)))
        for thread, _ in self.threads:
            thread.join(self.join_s)
        self.threads.clear()
        self.say("no more faults")
        if not waited(lambda: self._ended(crawl_id), END_S):
            inspection.does_not_end(crawl_id, END_S)
            return False
        self.say(f"crawl {crawl_id} has ended")
        inspection.checks.add("the crawl ends", [])
        inspection.round(Counted(crawl_id, time.monotonic() - began), self.visit)
        return True

    def _open(self) -> int:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            argv = ["scraper", "crawl", "demo", "--refetch"]
            code = forked.start(argv, self.env, out.fileno(), err.fileno()).wait(OPEN_S)
            out.seek(0)
            err.seek(0)
            if code != 0:
                raise RuntimeError(f"scraper crawl exited with {code}: {err.read()}")
            return int(out.read())

    def _inject(self, plan: Iterator[Planned], crawl_id: int, until: float) -> None:
        said = 0.0
        while time.monotonic() < until or (
            self._missing() and time.monotonic() < self.until + self.kinds_s
        ):
            following = next(plan)
            due = time.monotonic() + following.gap_s
            looked = 0.0
            while time.monotonic() < due or self._busy(following.kind):
                # Each look is a new connection.
                if time.monotonic() - looked > LOOK_EVERY_S:
                    looked = time.monotonic()
                    if self._ended(crawl_id):
                        return
                if time.monotonic() - said > SAY_EVERY_S:
                    said = time.monotonic()
                    self._say_progress(crawl_id)
                time.sleep(0.1)
            fault = following.make(self.rig)
            thread = threading.Thread(target=fault.run, name=following.kind, daemon=True)
            self.threads.append((thread, fault))
            thread.start()

    def _busy(self, kind: str) -> bool:
        resource = KINDS[kind].resource
        return bool(resource) and any(
            t.is_alive() and f.resource == resource for t, f in self.threads
        )

    def _missing(self) -> list[str]:
        done = {each.kind for each in self.rig.journal}
        return [kind for kind in self.options.kinds if kind not in done]

    def _ended(self, crawl_id: int) -> bool:
        with suppress(sa.exc.DBAPIError), self.rig.servers.engine.connect() as connection:
            return bool(connection.execute(ENDED, {"id": crawl_id}).scalar())
        return False

    def _say_progress(self, crawl_id: int) -> None:
        with suppress(sa.exc.DBAPIError), self.rig.servers.engine.connect() as connection:
            done, total = connection.execute(PROGRESS, {"id": crawl_id}).one()
            self.say(f"{done} of {total} pages")
