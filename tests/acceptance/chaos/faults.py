"""What a fault is, the kinds there are, and the plan that a seed gives.

A fault draws from dice of its own, so that the same seed gives the same faults in the same order
with the same victims and durations. What they meet (how far the crawl is, who lives) is the
machine's own. A fault undoes only what it did.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from tests.acceptance.chaos.rig import Injected, Rig

# of all faults come right after the one before
OVERLAPPING = 0.25
# while there are kinds that had no turn yet
FIRST_GAP_S = (1.5, 4.0)
KINDS: dict[str, type[Fault]] = {}


class Fault(ABC):
    """`resource`: what only one fault may hold at a time."""

    kind: ClassVar[str]
    resource: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            KINDS[cls.kind] = cls

    def __init__(self, rig: Rig, dice: Random) -> None:
        self.rig, self.dice = rig, dice
        self.injected = Injected(0, self.kind, 0.0)

    def run(self) -> None:
        self.injected = self.rig.begin(self.kind)
        try:
            self.inject()
        except Exception as error:
            self.say(f"could not be injected: {type(error).__name__}: {error}".splitlines()[0])
            self.rig.problems.append(
                f"{self.kind} #{self.injected.number}: {type(error).__name__}: {error}"
            )
        finally:
            self.injected.ended = self.injected.ended or time.time()

    @abstractmethod
    def inject(self) -> None: ...

    def say(self, detail: str) -> None:
        self.injected.detail = self.injected.detail or detail
        self.rig.say(f"#{self.injected.number} {self.kind}: {detail}")

    def down_s(self) -> float:
        return self.dice.uniform(*self.rig.times.down_s)


@dataclass(frozen=True, slots=True)
class Planned:
    """What comes next: how long after the one before, which kind, and the seed of its own dice."""

    gap_s: float
    kind: str
    seed: int

    def make(self, rig: Rig) -> Fault:
        return KINDS[self.kind](rig, Random(self.seed))


def planned(seed: int, kinds: Sequence[str], gap_s: tuple[float, float]) -> Iterator[Planned]:
    """Every kind once, one soon after the other, faults of servers and others in turn; then at
    random for ever."""
    dice = Random(seed)

    def one(kind: str, gap_s: tuple[float, float]) -> Planned:
        near = dice.random() < OVERLAPPING
        return Planned(
            dice.uniform(0, 0.3) if near else dice.uniform(*gap_s), kind, dice.getrandbits(32)
        )

    servers = [kind for kind in kinds if KINDS[kind].resource in ("redis", "postgres")]
    others = [kind for kind in kinds if kind not in servers]
    dice.shuffle(servers)
    dice.shuffle(others)
    while servers or others:
        for some in (others, servers):
            if some:
                yield one(some.pop(), FIRST_GAP_S)
    while True:
        yield one(dice.choice(kinds), gap_s)
