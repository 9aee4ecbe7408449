"""Faults of the networks between the fleet and its servers: they delay, break off, halve and swallow
what they carry. (The harness itself has other ways.)"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from tests.acceptance.chaos.faults import Fault
from tests.support.servers.bad_network import BadNetwork

DELAYS_S = 0.02, 0.1
# Until a connection that the hole has swallowed is given up.
NOTICED_S = 15.0


class NetworkSlow(Fault):
    """Each statement and each command takes longer."""

    kind = resource = "network_slow"

    def inject(self) -> None:
        delay_s, seconds = self.dice.uniform(*DELAYS_S), self.down_s() * 2
        self.say(f"by {delay_s * 1000:.0f} ms for {seconds:.1f} s")
        networks = self.rig.servers.networks.values()
        for network in networks:
            network.delay_s = delay_s
        self.rig.wait(seconds)
        for network in networks:
            network.delay_s = 0.0


class NetworkBreaks(Fault):
    """Every connection to one of the servers, several times."""

    def inject(self) -> None:
        turns, broken = self.dice.randint(1, 5), 0
        name = self.dice.choice(sorted(self.rig.servers.networks))
        with self.rig.disorder.of(name):
            for _ in range(turns):
                broken += self.break_off(self.rig.servers.networks[name])
                self.rig.wait(self.dice.uniform(0.1, 0.6))
        self.say(f"{broken} connections to {name}, {turns} times")

    @abstractmethod
    def break_off(self, network: BadNetwork) -> int: ...


class NetworkResets(NetworkBreaks):
    kind = "network_resets"

    def break_off(self, network: BadNetwork) -> int:
        return network.reset()


class NetworkHalves(NetworkBreaks):
    """In the middle of the next answer."""

    kind = "network_halves"

    def break_off(self, network: BadNetwork) -> int:
        return network.halve()


class NetworkHole(Fault):
    """Everything is swallowed; what was open at any time of the hole stays silent after it."""

    network: ClassVar[str]

    def inject(self) -> None:
        network = self.rig.servers.networks[self.network]
        seconds = self.rig.times.hole_s or self.down_s() * 2
        self.say(f"{self.network} for {seconds:.1f} s")
        with self.rig.disorder.of(self.network) as away:
            network.open_hole(loses=True)
            self.rig.wait(seconds)
            network.close_hole()
        self.injected.ended = away.ended = (away.ended or 0.0) + NOTICED_S


class PostgresHole(NetworkHole):
    kind, resource, network = "network_hole_postgres", "postgres", "postgres"


class RedisHole(NetworkHole):
    kind, resource, network = "network_hole_redis", "redis", "redis"
