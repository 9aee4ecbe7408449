"""What the faults act on and what they leave behind: servers, fleet, shop, and the journal of what
was injected."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.acceptance.chaos.fleet import Fleet, Member
from tests.acceptance.chaos.servers import Disorder, Servers
from tests.acceptance.conftest import SampleShop


@dataclass(frozen=True)
class Times:
    """How long things take in this run. Seconds."""

    lease_s: float
    read_timeout_s: float
    down_s: tuple[float, float] = (1.0, 6.0)
    gap_s: tuple[float, float] = (1.5, 4.0)
    # of a hole in a network; None: twice `down_s`
    hole_s: float | None = None


@dataclass
class Injected:
    """One fault: when it began, and when its cause was over (a server answers again, a process goes
    on)."""

    number: int
    kind: str
    began: float
    detail: str = ""
    ended: float | None = None
    # whose leases are lost, as `leases.worker` names them
    workers: list[str] = field(default_factory=list)
    crawl_id: int = 0
    recovery_s: float | None = None
    # until every worker that lived through it has claimed a lease again
    everybody_s: float | None = None


class Rig:
    """`say` prints one line. A member is the victim of one fault at a time."""

    def __init__(
        self, servers: Servers, fleet: Fleet, shop: SampleShop, disorder: Disorder, times: Times, say: Callable[[str], None]
    ) -> None:  # fmt: skip
        self.servers, self.fleet, self.shop, self.disorder = servers, fleet, shop, disorder
        self.times, self.say = times, say
        self.journal: list[Injected] = []
        self.problems: list[str] = []
        # when a frozen worker went on
        self.woken: list[float] = []
        self.over = threading.Event()  # faults end early
        self.crawl_id = 0
        self._lock = threading.Lock()

    def begin(self, kind: str) -> Injected:
        with self._lock:
            found = Injected(len(self.journal) + 1, kind, time.time(), crawl_id=self.crawl_id)
            self.journal.append(found)
        return found

    def victim(self, members: list[Member], rng: Random) -> Member | None:
        """One that lives and that no other fault has hit, chosen by the dice; None where there is
        none."""
        chosen = rng.random()
        with self._lock:
            free = [member for member in members if member.alive and not member.victim]
            if not free:
                return None
            member = free[int(chosen * len(free))]
            member.victim = True
        return member

    @staticmethod
    def release(member: Member) -> None:
        member.victim = False

    def wait(self, seconds: float) -> None:
        self.over.wait(seconds)
