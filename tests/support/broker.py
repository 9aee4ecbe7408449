"""Steps and a worker in one process; the test decides what becomes of each message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from scraper.coordinator import (
    discover,
    dispatch,
    finish,
    plan,
    reap,
)
from scraper.domain import Message
from scraper.frontier import sites
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.worker import process as worker
from tests.support.making import rows


class Broker:
    """Holds the messages that steps and the worker send. `deliver` says what becomes of each."""

    def __init__(
        self, engine: sa.Engine, settings: Settings, deliver: Callable[[Message], list[Message]]
    ) -> None:
        self.engine, self.settings, self.deliver = engine, settings, deliver
        self.waiting: list[Message] = []
        self.worker = worker.Worker(settings, self.send, engine)

    def close(self) -> None:
        """Ends the worker, which would hold the shop's slots for some seconds more."""
        self.worker.close()

    def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.waiting += self.deliver(message)

    def handle(self, message: Message) -> None:
        match message.task:
            case "discover":
                self.send(discover.discover(self.engine, self.settings, message.kwargs["crawl_id"]))
            case "dispatch":
                self.tick()
            case "finish":
                self.send(finish.finish(self.engine, message.kwargs["crawl_id"]))
            case "fetch_listings" | "fetch_products":
                self.worker.settle_lease(UUID(message.kwargs["lease_id"]))

    def tick(self) -> None:
        self.send(dispatch.dispatch(self.engine, self.settings, lambda _: 0))

    def run(self, *, rounds: int = 400) -> None:
        """Handles messages, and beats when there are none, until no crawl is active. Time is moved,
        not waited for."""
        for _ in range(rounds):
            while self.waiting:
                self.handle(self.waiting.pop(0))
            if not rows(self.engine, "SELECT FROM crawls WHERE status IN ('planned', 'running')"):
                return
            with self.engine.begin() as connection:
                # A crawl whose first message is lost waits for some seconds.
                connection.execute(
                    sa.text(
                        "UPDATE crawls SET created_at = created_at - interval '1 minute' WHERE status = 'planned'"
                    )
                )
                connection.execute(sa.text("UPDATE leases SET until = now()"))
                connection.execute(
                    sa.text("UPDATE pages SET not_before = now() WHERE status = 'due'")
                )
            self.send(reap.reap(self.engine, self.settings))
            self.send(plan.plan(self.engine))
            self.tick()
        pytest.fail("the crawl does not end")

    def crawl(self, definition: Site, *, refetch: bool = False) -> Any:
        """Runs a whole crawl, and returns its row."""
        with self.engine.begin() as connection:
            sites.store_definitions(connection, [definition])
        opened = plan.open_now(self.engine, definition.name, refetch=refetch)
        self.send(opened.messages)
        self.run()
        query = sa.text("SELECT * FROM crawls WHERE id = :id")
        with self.engine.connect() as connection:
            return connection.execute(query, {"id": opened.crawl_id}).one()
