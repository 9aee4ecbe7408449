"""Faults of messages: delivered twice, after their lease has run out, and invented. (After their
crawl has ended: see `run`.)"""

from __future__ import annotations

from itertools import islice

from tests.acceptance.chaos.faults import Fault
from tests.acceptance.chaos.messages import (
    COPIES_MAX,
    Entry,
    Lease,
    entries,
    leases,
    put_back,
    send,
)
from tests.support import invented

QUEUES = ("datacenter", "residential", "coordinator")


class MessagesFault(Fault):
    """Waits for both servers: a server that is away has no messages."""

    def collected(self) -> tuple[list[Entry], list[Lease]]:
        for _ in range(50):
            try:
                raw, found = entries(self.rig.servers)[:COPIES_MAX], leases(self.rig.servers)
            except Exception:
                self.rig.wait(0.3)
                continue
            if raw or found:
                return raw, found
            self.rig.wait(0.2)
        return [], []

    def deliver(self, raw: list[Entry], found: list[Lease], times: int) -> None:
        for attempt in range(20):
            try:
                put_back(self.rig.servers, raw)
                send(self.rig.servers, found, times)
                return
            except Exception:
                if attempt == 19:
                    raise
                self.rig.wait(0.5)


class MessagesDoubled(MessagesFault):
    kind = "messages_twice"

    def inject(self) -> None:
        raw, found = self.collected()
        self.say(f"{len(raw)} raw copies, {len(found)} leases three times")
        self.deliver(raw, found, 3)


class MessagesLate(MessagesFault):
    kind = "messages_late"

    def inject(self) -> None:
        raw, found = self.collected()
        seconds = self.rig.times.lease_s + self.dice.uniform(0.5, 3)
        self.say(f"{len(raw)} raw copies, {len(found)} leases, {seconds:.1f} s later")
        self.rig.wait(seconds)
        self.deliver(raw, found, 2)


class MessagesInvented(MessagesFault):
    """Messages that the project has not sent, into the queues of pages and the coordinator's."""

    kind = "messages_invented"

    def inject(self) -> None:
        messages = list(islice(filter(None, invented.raw()), COPIES_MAX))
        copies = [(self.dice.choice(QUEUES), raw) for raw in messages]
        self.say(f"{len(copies)} invented messages")
        self.deliver(copies, [], 1)
