"""Processes that make alerts and are killed again and again, until all alerts are sent."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from scraper.plugins.alerts.prices import outbox
from tests.support.servers.forked import start_program
from tests.support.servers.receivers import receivers

# A coordinator that does only price alerts, after the step that is put in.
COORDINATOR = """
import os, sys
from pathlib import Path
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.matching.linking import step
from scraper.infra.database import make_engine
from scraper.settings import Settings
settings = Settings(alerts=Path(sys.argv[2]), alert_rules=Path(sys.argv[3]))
engine = make_engine(sys.argv[1])
print("begun", flush=True)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
while True:
    {step}
    outbox.alert_prices(engine, settings)
"""
# An alert that a dead process was sending would wait for a minute.
RETRY = sa.text("UPDATE price_alerts SET not_before = now() WHERE done_at IS NULL AND attempts > 0")
WAITING = sa.text("SELECT FROM price_alerts WHERE done_at IS NULL LIMIT 1")


@dataclass
class Replay:
    """How often a webhook got each alert, how many processes were killed, and how many of them had
    work left."""

    received: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    at_work: int = 0

    def append(self, message: object) -> None:
        """Keeps the ids of a webhook's message, and nothing else."""
        if isinstance(message, tuple):
            self.received.update(one["id"] for one in message[1]["alerts"])

    def check_received(self, ids: set[str]) -> int:
        """Fails unless each alert was received. Returns how many were received again."""
        assert set(self.received) == ids, "each was received"
        again = sum(self.received.values()) - len(ids)
        most = self.killed * outbox.PER_MESSAGE_MAX
        assert again <= most, "only what a dead process had sent came again"
        return again


@contextmanager
def running_program(text: str, *words: str) -> Iterator[None]:
    """A program that has printed a line, until it is killed in the end."""
    reads, writes = os.pipe()
    with open(reads) as output:
        process = start_program(text, *words, out=writes, err=2)
        os.close(writes)
        try:
            assert output.readline()
            yield
        finally:
            process.kill()
            process.wait()


def deliver_through_kills(
    engine: sa.Engine,
    folder: Path,
    rules: str,
    has_unread: Callable[[sa.Connection], bool],
    *,
    kills: int,
    longest_s: float,
    chance: random.Random,
    step: str = "pass",
) -> Replay:
    """Kills `kills` coordinators after at most `longest_s` seconds each; the last one ends its
    work."""
    url, replay, path = (
        engine.url.render_as_string(hide_password=False),
        Replay(),
        folder / "rules.yaml",
    )
    path.write_text(rules)

    def is_behind() -> bool:
        with engine.connect() as connection:
            return has_unread(connection) or connection.execute(WAITING).first() is not None

    with receivers(folder) as (webhook, _, recipients):
        webhook.headers = webhook.bodies = webhook.got = replay  # type: ignore[assignment]
        recipients.write_text(webhook.address)
        program = COORDINATOR.format(step=step)
        while replay.killed < kills or is_behind():
            with running_program(program, url, str(recipients), str(path)):
                until = time.monotonic() + chance.uniform(0.05, longest_s)
                while time.monotonic() < until if replay.killed < kills else is_behind():
                    time.sleep(0.05)
                replay.at_work += is_behind()
            replay.killed += 1
            with engine.begin() as connection:
                connection.execute(RETRY)
    return replay
