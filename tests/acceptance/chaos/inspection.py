"""The checks in their order: after a round, and at the end of a run. Each is made, whatever the
ones before have found."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from scraper.plugins.demo.catalogue import Catalogue
from tests.acceptance.chaos import audit, messages, recovery, slots, truth
from tests.acceptance.chaos.patience import patient, until_none, waited
from tests.acceptance.chaos.report import Report
from tests.acceptance.chaos.rig import Rig
from tests.acceptance.chaos.truth import Counted

SETTLE_S = 3.0
REST_S = 60.0
AFTER = "messages_after_crawl"
OURS = (
    "page crashed",
    "page rejected by the database",
    "batch stuck",
    "the watchdog failed",
    "group not stored",
)


class Inspection:
    """Writes what it finds into the report, and changes things only by sending messages that must
    not change anything."""

    def __init__(self, rig: Rig, catalogue: Catalogue, report: Report) -> None:
        self.rig, self.catalogue, self.report = rig, catalogue, report
        self.engine, self.checks = rig.servers.engine, report.checks

    def check(self, name: str, look: Callable[[], list[str]]) -> None:
        """A check that cannot be made has failed; the next ones are made all the same."""
        try:
            self.checks.add(name, look())
        except Exception as error:
            self.checks.add(name, [f"could not be checked: {type(error).__name__}: {error}"])

    # --- after a round
    # ------------------------------------------------------------------------------------------------

    def round(self, numbers: Counted, visit: int) -> None:
        engine, shop, crawl_id = self.engine, self.rig.shop, numbers.crawl_id
        story = patient(lambda: audit.read(engine, crawl_id))
        recovery.measure(self.rig.journal, story, self.rig.disorder)
        shops = (self.catalogue, visit)
        self.check("the crawl is whole", lambda: truth.crawl_is_whole(engine, crawl_id, *shops))
        self.check(
            "products are the shop's truth",
            lambda: truth.products_are_the_truth(engine, shop, *shops),
        )
        self.check(
            "versions are the changes", lambda: truth.versions_are_the_changes(engine, *shops)
        )
        self.check("a lease is claimed once", lambda: truth.leases_are_claimed_once(story))
        self.check(
            "every request is explained by a lease",
            lambda: truth.requests_are_explained(
                engine, shop, story, *shops, self.rig.woken, numbers
            ),
        )
        self.check(
            "no lease is left of the crawl", lambda: truth.no_lease_is_left(engine, crawl_id)
        )
        self.check("messages after the crawl change nothing", lambda: self._messages_after(story))
        self._count(story, numbers)
        self.report.rounds.append(numbers)

    def _count(self, story: audit.Story, numbers: Counted) -> None:
        spells = [spell for found in story.held.values() for spell in found]
        numbers.leases = len({spell.lease_id for spell in spells})
        numbers.deferred = sum(spell.outcome == "deferred" for spell in spells)
        numbers.lost = sum(
            spell.outcome == audit.WORKER_LOST and spell.status == "due" for spell in spells
        )
        with self.engine.connect() as connection:
            numbers.versions = connection.execute(
                sa.text("SELECT count(*) FROM product_versions")
            ).scalar_one()
        if numbers.woken:
            self.report.notes.append(
                f"crawl {story.crawl_id}: {numbers.woken} requests left a worker as it woke"
            )

    def _messages_after(self, story: audit.Story) -> list[str]:
        """Leases of the ended crawl, sent again: not one row may change and not one request be
        made."""
        fault = self.rig.begin(AFTER)
        leases = {
            spell.lease_id for found in story.held.values() for spell in found
        } & story.kinds.keys()
        found = [(lease, *story.kinds[lease]) for lease in sorted(leases)][: messages.COPIES_MAX]
        fault.detail = f"{len(found)} leases, twice"
        self.rig.say(f"#{fault.number} {AFTER}: {fault.detail}")

        def all_there_is() -> tuple[object, int]:
            return truth.snapshot(self.engine, story.crawl_id), len(self.rig.shop.log())

        before = all_there_is()
        messages.send(self.rig.servers, found, 2)
        waited(lambda: not self._queued(), 30)
        time.sleep(SETTLE_S)
        fault.ended = time.time()
        after = all_there_is()
        return [] if before == after else [f"before {before}", f"after {after}"]

    def does_not_end(self, crawl_id: int, seconds: float) -> None:
        rows = patient(lambda: truth.diagnosis(self.engine, crawl_id))
        queued = [f"in the queues: {len(self._queued())}"]
        logs = [f"{member.name}:\n{member.said()}" for member in self.rig.fleet.members]
        self.checks.add(
            "the crawl ends", [f"not {seconds:.0f} s after the last fault", *rows, *queued, *logs]
        )

    # --- at the end
    # ---------------------------------------------------------------------------------------------------

    def end(self, sites: Path, missing: list[str], *, wait_for_unacknowledged: bool) -> None:
        """The scheduled sites are retired, every process gets the signal to stop, and nothing may be left."""
        rig, fleet = self.rig, self.rig.fleet
        until = patient(self._now)
        slots.remove(sites)
        at_rest = waited(lambda: slots.at_rest(self.engine), REST_S)
        self.checks.add(
            "scheduled crawls end",
            [] if at_rest else [f"not {REST_S:.0f} s after their sites were retired"],
        )
        self.check("every slot has exactly one crawl", lambda: self._slots(until))
        self.check(
            "no lease is left", lambda: until_none(lambda: truth.no_lease_is_left(self.engine))
        )
        self.check("no message is left in the page queues", lambda: until_none(self._queued))
        self.check(
            "no message stays unacknowledged",
            lambda: self._unacknowledged(wait=wait_for_unacknowledged),
        )
        self.check("everybody answers", self._silent)
        rig.say("SIGTERM to everybody")
        self.check("everybody ends well", fleet.stop)
        self.check(
            "no connection is left", lambda: until_none(lambda: truth.connections_left(rig.servers))
        )
        self.check("no process is left", lambda: until_none(fleet.left))
        self.checks.add("nobody ended by itself", fleet.unexpected)
        self.checks.add("every fault could be injected", rig.problems)
        self.checks.add("every kind of fault was injected", [f"not {kind}" for kind in missing])
        self.check("no fault of ours in the logs", self._our_faults)
        self.checks.add("work went on in time", recovery.too_slow(rig.journal))
        self.report.notes.append(f"{fleet.refused} starts found a server away and were repeated")

    def _now(self) -> datetime:
        with self.engine.connect() as connection:
            found: datetime = connection.execute(sa.text("SELECT now()")).scalar_one()
        return found

    def _slots(self, until: datetime) -> list[str]:
        holes = self.rig.disorder if self.rig.times.hole_s else None
        self.report.slots, problems = slots.problems(self.engine, until, holes)
        self.report.notes.append(f"{self.report.slots} slots of {len(slots.NAMES)} sites were due")
        return problems

    def _queued(self) -> list[str]:
        return [f"{key!r}: {entry[:200]!r}" for key, entry in messages.entries(self.rig.servers)]

    def _unacknowledged(self, *, wait: bool) -> list[str]:
        """What killed workers had taken and not begun: swept back after the visibility timeout, and
        expired by then."""

        def left() -> int:
            with self.rig.servers.valkey() as client:
                return int(client.hlen("unacked"))

        self.report.notes.append(
            f"{left()} messages of killed workers were unacknowledged once the last crawl had ended"
        )
        if not wait or not left():
            return []
        # it reads this process's settings: not before it is needed
        from scraper import celeryconfig

        options = celeryconfig.broker_transport_options
        seconds = int(str(options["visibility_timeout"])) + 2 * int(
            str(options["unacked_restore_interval"])
        )
        return [] if waited(lambda: not left(), seconds) else [f"{left()} after {seconds} s"]

    def _silent(self) -> list[str]:
        app = messages.application(self.rig.servers)
        missing = self.rig.fleet.names()
        for _ in range(5):
            with suppress(OSError):
                missing -= (app.control.inspect(timeout=2).ping() or {}).keys()
            if not missing:
                break
        app.close()
        return [f"{name} does not answer a ping" for name in sorted(missing)]

    def _our_faults(self) -> list[str]:
        found = []
        for member in self.rig.fleet.members:
            for line in member.log.read_text(errors="replace").splitlines():
                if any(words in line for words in OURS):
                    found.append(f"{member.name}: {line[:600]}")
        return truth.few(found)
